//! The eBPF programs and their maps.

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    EbpfContext as _,
    bindings::{BPF_F_INNER_MAP, BPF_F_MMAPABLE, bpf_perf_event_data},
    btf_maps::{Array, ArrayOfMaps, RingBuf},
    helpers::{
        bpf_get_current_pid_tgid, bpf_get_current_task, bpf_ktime_get_ns, bpf_probe_read_user,
        generated::{
            bpf_get_current_comm, bpf_get_current_task_btf, bpf_probe_read_user as read_user,
            bpf_send_signal_thread, bpf_task_pt_regs,
        },
    },
    macros::{btf_map, raw_tracepoint},
    programs::{PerfEventContext, RawTracePointContext},
};
use aya_log_ebpf::debug;
use sanitizer_ebpf::{
    Control, Counter, ELSEWHERE, EVENT_BUSY, EVENT_CONFIRMED, EVENT_CROWDED, EVENT_EXEC, EVENT_HIT,
    EVENT_KNOWN, EVENT_SHARED, EVENT_THREAD, EVENT_THREADS_LEFT, EVENT_UNKNOWN_PC, Event,
    FunctionEntry, HELD_TRAPS, HITS, HitRecord, KNOWN_BITS, KNOWN_TRAPS, MET, MODULES, MORE_NS,
    ModuleRange, NEW_THREAD_NS, NO_PROCESS, NO_REGISTER, NOBODY, NOT_HELD_TRAPS, OTHERS,
    OWN_ACCESSES, OWN_TRAPS, SEARCH_STEPS, SEEN, SPACE_RANGES, SPACE_STEPS, STACK_BYTES,
    STACK_CHUNK, TRAPS_PER_SITE, TRAPS_PER_STALL, TrapRegs, UNMET_TRAPS, access, delivery, lock,
    own, phase, sample, system_call,
};

use crate::{
    atomic,
    task::{Namespace, number_at, read_kernel},
};

/// From `include/uapi/linux/sched.h`.
const CLONE_THREAD: u64 = 0x0001_0000;
/// From `include/uapi/asm-generic/signal.h` for x86.
const SIGTRAP: u32 = 5;
const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;

/// The privilege bits of a code segment: 0 in the kernel.
const RING: u64 = 3;

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// The control block.
#[btf_map]
static CONTROL: Array<Control, 1, MMAPABLE> = Array::new();

/// Evidence of the present generation.
#[btf_map]
static HIT_RECORDS: Array<HitRecord, HITS, MMAPABLE> = Array::new();

/// Executable ranges of the watched process, sorted. The tracer changes them only while nothing is in hand and nobody can be claimed:
/// whoever searches them at that moment finds some range or other, and only counts.
#[btf_map]
static SPACE: Array<ModuleRange, SPACE_RANGES, MMAPABLE> = Array::new();

/// Covered functions by module. (The inner size is that of a prototype: the maps that user
/// space puts here have the size of their table.)
#[btf_map]
static FUNCTIONS: ArrayOfMaps<Array<FunctionWords, 1, INNER>, MODULES> = ArrayOfMaps::new();

/// The words of a [`FunctionEntry`]. Before Linux 6.2 a map of structures whose type is known, as that of a prototype is, is another one than
/// the same map without its type, as user space makes it (`timer_off` in `bpf_map_meta_equal` of `kernel/bpf/map_in_map.c`), and is not taken
/// in its place. Arrays are no structures.
type FunctionWords = [u32; 2];

/// One past the end of each atomic instruction, by module: a data watchpoint fires after the
/// access, with the address of the next instruction.
#[btf_map]
static ATOMICS: ArrayOfMaps<Array<u32, 1, INNER>, MODULES> = ArrayOfMaps::new();

/// Inner arrays may differ in size, and user space fills them through its own mapping.
const INNER: usize = (BPF_F_INNER_MAP | BPF_F_MMAPABLE) as usize;

/// What the tracer is woken for.
#[btf_map]
static EVENTS: RingBuf<Event, { 64 * 1024 }> = RingBuf::new();

/// What the watchdog is woken for: the time at which a thread was stopped.
#[btf_map]
static STANDING: RingBuf<u64, 4096> = RingBuf::new();

/// The clock gate: may this thread be sampled, here and now?
#[unsafe(no_mangle)]
#[unsafe(link_section = "perf_event")]
extern "C" fn clock_gate(ctx: *mut bpf_perf_event_data) -> u32 {
    let Some(control) = control() else { return 0 };
    // Whoever is interrupted, it costs.
    atomic::add(&control.spent_ns, atomic::load(&control.trap_cost_ns));
    let tgid = current_tgid(control);
    if !is_watched(control, tgid) {
        return swallow(control, Counter::ForeignSamples);
    }
    count(control, Counter::Samples);
    atomic::add(&control.sampled_ns, atomic::load(&control.sample_ns));
    atomic::add(
        &control.earned_ns,
        atomic::load(&control.earn_per_sample_ns),
    );

    let now = now();
    let word = atomic::load(&control.phase);
    let idle = phase::of(word) == phase::IDLE;
    // A claim whose stop never came (the thread died, the signal was lost) must not silence
    // the sampler for good.
    let void = phase::of(word) == phase::CLAIMED
        // Another gate may have claimed since this one took the time.
        && now.saturating_sub(atomic::load(&control.claim_time_ns))
            > atomic::load(&control.claim_timeout_ns);
    // Where the time goes is counted for every sample: it says how much of the program's work
    // can be watched at all.
    // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the access.
    let pc = unsafe { (*ctx).regs.rip };
    let Some(range) = range_of(control, tgid, pc) else {
        let last = atomic::load(&control.unknown_pc_ns);
        if now.wrapping_sub(last) > sample::UNKNOWN_PC_INTERVAL_NS {
            atomic::store(&control.unknown_pc_ns, now);
            tell(EVENT_UNKNOWN_PC, current_tid(control), 0, pc);
        }
        count_elsewhere(control, pc);
        return swallow(control, Counter::SampleNoModule);
    };
    let flags = if range.functions == 0 {
        0
    } else {
        function_flags(control, range, pc)
    };
    // SAFETY: as above.
    let stack = unsafe { (*ctx).regs.rsp };
    if flags & FunctionEntry::ANALYZED != 0
        || flags & FunctionEntry::MEM_ROUTINE != 0 && is_called_by_analyzed(control, tgid, stack)
    {
        count(control, Counter::SamplesAnalyzed);
    } else {
        count_elsewhere(control, pc);
    }
    let has_metadata = range.flags & ModuleRange::ROUTINES_ONLY == 0;
    if !sample::is_worth_it(range.functions, has_metadata, flags != 0) {
        return swallow(control, Counter::SampleUnanalyzed);
    }
    let place = atomic::add(&control.seen_count, 1) as usize % SEEN;
    atomic::store(&control.seen[place], pc);
    let refusal = sample::refusal(
        idle || void,
        atomic::load(&control.clock_claims) != 0,
        atomic::load(&control.spent_ns),
        atomic::load(&control.earned_ns),
    );
    if let Some(reason) = refusal {
        return swallow(control, reason);
    }
    if let Some(reason) = cannot_stop(control) {
        return swallow(control, reason);
    }
    if !claim(control, word, now) {
        return swallow(control, Counter::SampleBusy);
    }
    count(control, Counter::SamplesPassed);
    debug!(
        &PerfEventContext::new(ctx),
        "sample of {} at {:x}",
        current_tid(control),
        pc
    );
    stop(control, atomic::load(&control.clock_by_cpu) != 0)
}

/// Whether a memory routine with this stack pointer was called by an analyzed function: few of them move it
/// before they return.
#[inline(always)]
fn is_called_by_analyzed(control: &Control, tgid: u32, stack: u64) -> bool {
    // SAFETY: the helper takes any address, and fails where nothing is mapped.
    let Ok(behind) = (unsafe { bpf_probe_read_user(stack as *const u64) }) else {
        return false;
    };
    let caller = behind.wrapping_sub(1);
    range_of(control, tgid, caller).is_some_and(|range| {
        range.functions > 0 && function_flags(control, range, caller) & FunctionEntry::ANALYZED != 0
    })
}

/// Counts a sample outside analyzed functions.
#[inline(always)]
fn count_elsewhere(control: &Control, pc: u64) {
    let [place, number] = &control.elsewhere[Control::place_elsewhere(pc) % ELSEWHERE];
    let before = [atomic::load(place), atomic::load(number)];
    let [now_there, counted] = Control::counted_elsewhere(before, pc);
    atomic::store(place, now_there);
    atomic::store(number, counted);
}

/// The reach gate: has the owner of the sample come to its access site, or passed it?
#[unsafe(no_mangle)]
#[unsafe(link_section = "perf_event")]
extern "C" fn reach_gate(ctx: *mut bpf_perf_event_data) -> u32 {
    let Some(control) = control() else { return 0 };
    // The first trap of all is the tracer's own, which measures what it costs.
    if atomic::load(&control.pid_namespace) == 0 && learn_namespace(control).is_none() {
        return 0;
    }
    atomic::add(&control.spent_ns, atomic::load(&control.trap_cost_ns));
    // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the access.
    let pc = unsafe { (*ctx).regs.rip };
    reached(control, atomic::load(&control.phase), pc, false)
}

/// The gate of a processor's breakpoint: it serves for the site that is waited at while nothing is in hand, and then
/// for the owner of the sample on its way to its site.
#[unsafe(no_mangle)]
#[unsafe(link_section = "perf_event")]
extern "C" fn break_gate(ctx: *mut bpf_perf_event_data) -> u32 {
    let Some(control) = control() else { return 0 };
    atomic::add(&control.spent_ns, atomic::load(&control.trap_cost_ns));
    // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the access.
    let pc = unsafe { (*ctx).regs.rip };
    let word = atomic::load(&control.phase);
    if phase::of(word) == phase::SEEK {
        reached(control, word, pc, true)
    } else if atomic::load(&control.site) == pc {
        site_reached(control, word, ctx)
    } else {
        swallow(control, Counter::ReachSwallowed)
    }
}

/// Somebody has come to where the owner of the sample is waited for.
#[inline(always)]
fn reached(control: &Control, word: u64, pc: u64, by_cpu: bool) -> u32 {
    // By its id alone: the first thread of another program has that of the one before, and so may a thread of another process.
    let is_foreign = by_cpu && !is_watched(control, current_tgid(control));
    if is_foreign
        || atomic::load(&control.owner) != u64::from(current_tid(control))
        || atomic::load(&control.breakpoint) != pc
    {
        if by_cpu && atomic::add(&control.stall_traps, 1) + 1 == TRAPS_PER_STALL {
            tell(EVENT_CROWDED, 0, 0, phase::generation(word));
        }
        return swallow(control, Counter::ReachSwallowed);
    }
    let Some(next) = phase::after_arrival(word) else {
        return swallow(control, Counter::ReachSwallowed);
    };
    if phase::of(next) == phase::CONFIRMED {
        if atomic::replace(&control.phase, word, next) {
            let generation = phase::generation(word);
            tell(EVENT_CONFIRMED, current_tid(control), 0, generation);
        }
        return 0;
    }
    if !stoppable(control) || !atomic::replace(&control.phase, word, next) {
        return swallow(control, Counter::ReachSwallowed);
    }
    stands(control, now());
    stop(control, by_cpu)
}

/// The watch gate: is this access evidence? If so it is recorded at once (I2), with the
/// generation it belongs to and the time (I7).
#[unsafe(no_mangle)]
#[unsafe(link_section = "perf_event")]
extern "C" fn watch_gate(ctx: *mut bpf_perf_event_data) -> u32 {
    let Some(control) = control() else { return 0 };
    atomic::add(&control.spent_ns, atomic::load(&control.trap_cost_ns));
    let word = atomic::load(&control.phase);
    // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the accesses.
    let (pc, address) = unsafe { ((*ctx).regs.rip, (*ctx).addr) };
    // Those of threads serve as breakpoints on a site while nothing is in hand. A data watchpoint fires
    // behind its instruction, a breakpoint at the address that it stands on.
    if address == pc && atomic::load(&control.site) == pc {
        return site_reached(control, word, ctx);
    }
    let tid = current_tid(control);
    let by_cpu = atomic::load(&control.watch_by_cpu) != 0;
    let is_foreign = by_cpu && !is_watched(control, current_tgid(control));
    let shares = phase::of(word) != phase::STALL && atomic::load(&control.share_address) == address;
    if shares {
        count(control, Counter::ShareTraps);
        if atomic::add(&control.stall_traps, 1) + 1 == TRAPS_PER_STALL {
            tell_of_look(control);
        }
        if !is_foreign && u64::from(tid) == atomic::load(&control.share_tid) {
            return share_own(control);
        }
    } else {
        count(control, Counter::Traps);
        if !access::is_of_stall(word, address, atomic::load(&control.watch_address)) {
            return swallow(control, Counter::HitStale);
        }
        if !is_foreign && u64::from(tid) == atomic::load(&control.owner) {
            return swallow(control, Counter::HitSameThread);
        }
        if atomic::add(&control.stall_traps, 1) + 1 == TRAPS_PER_STALL {
            tell(EVENT_BUSY, tid, 0, phase::generation(word));
        }
    }
    if is_foreign {
        return refuse(control, Counter::HitForeign, shares);
    }
    // SAFETY: as above.
    if unsafe { (*ctx).regs.cs } & RING == 0 {
        return kernel_access(control, word, address, tid, shares);
    }
    if !shares && is_known(control, pc) {
        count_known(control, tid, phase::generation(word));
        return swallow(control, Counter::HitKnown);
    }
    // The program counter is that of the next instruction: one byte back is in the function.
    let before = pc.wrapping_sub(1);
    // Whether the program has called for what a library does is for the tracer to tell.
    let mut is_of_library = false;
    let flags = match range_of(control, current_tgid(control), before) {
        Some(range) => {
            if atomic::load(&control.ignore_atomic) != 0 && ends_atomic(control, range, pc) {
                return refuse(control, Counter::HitAtomic, shares);
            }
            is_of_library = range.flags & ModuleRange::ROUTINES_ONLY != 0;
            function_flags(control, range, before)
        }
        None => 0,
    };
    let code = access::Code {
        is_judged: flags & (FunctionEntry::ANALYZED | FunctionEntry::MEM_ROUTINE) != 0,
        is_of_library,
    };
    let keep = access::Keep {
        results: atomic::load(&control.keep_results) != 0,
        unanalyzed: atomic::load(&control.keep_unanalyzed) != 0,
    };
    if !code.is_evidence(keep) {
        return refuse(control, Counter::HitUnanalyzed, shares);
    }
    if shares {
        return share_other(control, pc);
    }
    // A routine has many callers.
    if atomic::load(&control.places_once) != 0
        && flags & FunctionEntry::MEM_ROUTINE == 0
        && is_recorded(phase::generation(word), pc)
    {
        count_known(control, tid, phase::generation(word));
        return swallow(control, Counter::HitKnown);
    }
    let Some((record, index)) = next_record(control) else {
        return 0;
    };
    let first = index == 0;
    // Stopping the racing thread as well shortens the stall; it is no part of the evidence.
    let racing_stops = first && atomic::load(&control.stop_racing) != 0 && stoppable(control);
    // SAFETY: `next_record` hands out each record once in a generation.
    unsafe {
        (*record).stopping = u32::from(racing_stops);
        (*record).in_kernel = 0;
        copy_regs(ctx, &raw mut (*record).regs);
        complete(control, record, word, address, tid, (*ctx).regs.rsp);
    }
    count(control, Counter::HitRecorded);
    debug!(
        &PerfEventContext::new(ctx),
        "hit of {} before {:x}", tid, pc
    );
    if racing_stops {
        stop(control, by_cpu)
    } else {
        0
    }
}

/// The kernel has accessed the watched bytes while it works for this thread: evidence where a system call
/// was asked to. The thread is in the kernel, so no signal is sent whatever comes of it.
#[inline(always)]
fn kernel_access(control: &Control, word: u64, address: u64, tid: u32, shares: bool) -> u32 {
    // SAFETY: the helpers have no preconditions; the task is the current one, which has a kernel stack.
    let entry = unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()) } as u64;
    let Some(regs) = read_kernel::<TrapRegs>(entry, 0) else {
        return refuse(control, Counter::HitKernel, shares);
    };
    if regs.cs & RING == 0 || !system_call::moves_data(regs.orig_rax) {
        return refuse(control, Counter::HitKernel, shares);
    }
    if shares {
        return share_other(control, regs.rip);
    }
    let Some((record, _)) = next_record(control) else {
        return 0;
    };
    // SAFETY: `next_record` hands out each record once in a generation.
    unsafe {
        (*record).stopping = 0;
        (*record).in_kernel = 1;
        (*record).regs = regs;
        complete(control, record, word, address, tid, regs.rsp);
    }
    count(control, Counter::HitRecorded);
    tell(EVENT_HIT, tid, 0, phase::generation(word));
    0
}

/// An access was made of which it is known that it races with the one of the stalled thread.
#[inline(always)]
fn count_known(control: &Control, tid: u32, generation: u64) {
    let counted = atomic::load(&control.known_hits);
    // One that comes late, or at the same time as another one, is not counted.
    if counted >> KNOWN_BITS == generation
        && atomic::replace(&control.known_hits, counted, counted.wrapping_add(1))
    {
        match counted & ((1 << KNOWN_BITS) - 1) {
            0 => tell(EVENT_KNOWN, tid, 0, generation),
            count if count + 1 == KNOWN_TRAPS => tell(EVENT_BUSY, tid, 0, generation),
            _ => {}
        }
    }
}

/// Whether it is known that the access before this address races with the one of the stalled thread.
#[inline(always)]
fn is_known(control: &Control, pc: u64) -> bool {
    let mut known = control.known.iter();
    known.any(|known| atomic::load(known) == pc)
}

/// Whether an access that traps there was recorded in this generation, of which the tracer knows that it goes on: it was told by
/// the first one's stop.
#[inline(always)]
fn is_recorded(generation: u64, pc: u64) -> bool {
    let mut goes_on = false;
    (0..HITS as u32).any(|index| {
        let Some(record) = HIT_RECORDS.get_ptr(index) else {
            return false;
        };
        // SAFETY: a map value lives as long as its map. One of this generation is complete, and written no more.
        unsafe {
            let is_ours = atomic::load(&(*record).generation) == generation;
            goes_on |= index == 0 && is_ours && (*record).stopping != 0;
            goes_on && is_ours && (*record).regs.rip == pc && (*record).in_kernel == 0
        }
    })
}

/// A record that nobody else writes, with its number; `None` where the stall has enough of them.
#[inline(always)]
fn next_record(control: &Control) -> Option<(*mut HitRecord, u64)> {
    let index = atomic::add(&control.hits, 1);
    if index as usize >= HITS {
        count(control, Counter::HitOverflow);
        return None;
    }
    // The index is reset only between generations.
    Some((HIT_RECORDS.get_ptr_mut(index as u32)?, index))
}

/// Fills in what is alike in all records; from here on it counts.
///
/// # Safety
/// `record` points to a map value that no other program writes.
#[inline(always)]
unsafe fn complete(
    control: &Control,
    record: *mut HitRecord,
    word: u64,
    address: u64,
    tid: u32,
    stack: u64,
) {
    // SAFETY: as the caller promises.
    unsafe {
        (*record).time_ns = now();
        (*record).tid = tid;
        (*record).value = bpf_probe_read_user(address as *const u64).unwrap_or(0);
        (*record).fs_base = of_current(control.offsets.task_fs_base);
        bpf_get_current_comm((&raw mut (*record).comm).cast::<c_void>(), 16);
        (*record).stack_len = copy_stack(stack, (&raw mut (*record).stack).cast());
        atomic::store(&(*record).generation, phase::generation(word));
    }
}

/// The thread that was stalled has accessed its bytes again, which stay watched.
#[inline(always)]
fn share_own(control: &Control) -> u32 {
    let now = now();
    let is_alone = atomic::load(&control.share_others) == 0;
    if atomic::add(&control.share_own, 1) + 1 == OWN_ACCESSES && is_alone {
        tell_of_look(control);
    }
    end_look(control, now);
    0
}

/// Another thread has accessed them, in a way that would be evidence in a stall.
#[inline(always)]
fn share_other(control: &Control, pc: u64) -> u32 {
    let now = now();
    let waited = now.saturating_sub(atomic::load(&control.share_since_ns));
    let others = atomic::add(&control.share_others, 1);
    if others == 0 {
        let until = now.wrapping_add(4 * waited).wrapping_add(MORE_NS);
        atomic::store(&control.share_until_ns, until);
    }
    if !is_user(control, pc) {
        let place = atomic::add(&control.share_users, 1) as usize;
        if let Some([user, after_ns]) = control.users.get(place) {
            atomic::store(after_ns, waited);
            // Last: it says that the other one is there.
            atomic::store(user, pc);
        }
    }
    if others + 1 == OTHERS {
        tell_of_look(control);
    } else {
        end_look(control, now);
    }
    0
}

/// Whether an access there was noted.
#[inline(always)]
fn is_user(control: &Control, pc: u64) -> bool {
    let mut users = control.users.iter();
    users.any(|[user, _]| atomic::load(user) == pc)
}

/// Enough was seen of who uses the bytes that stay watched.
#[inline(always)]
fn tell_of_look(control: &Control) {
    tell(EVENT_SHARED, 0, 0, atomic::load(&control.share_since_ns));
}

/// Tells the tracer, once, when enough was seen of who uses the bytes that stay watched.
#[inline(always)]
fn end_look(control: &Control, now: u64) {
    let until = atomic::load(&control.share_until_ns);
    if now > until && atomic::replace(&control.share_until_ns, until, u64::MAX) {
        tell_of_look(control);
    }
}

/// A thread has come to the site that is waited at: is it the one to be stalled?
#[inline(always)]
fn site_reached(control: &Control, word: u64, ctx: *const bpf_perf_event_data) -> u32 {
    count(control, Counter::SiteTraps);
    // Whoever traps here, it costs.
    let trap = atomic::add(&control.site_traps, 1);
    if trap + 1 == TRAPS_PER_SITE {
        tell(EVENT_BUSY, current_tid(control), 0, phase::generation(word));
    }
    let now = now();
    let unmet = atomic::load(&control.site_unmet);
    let by_cpu = atomic::load(&control.watch_by_cpu) != 0;
    let foreign = by_cpu && !is_watched(control, current_tgid(control));
    if !foreign {
        atomic::replace(&control.site_first_ns, 0, now);
    }
    // A wait for company, once begun, shall not end for what it has cost itself.
    let company_ns = unmet * atomic::load(&control.trap_cost_ns);
    if foreign
        || trap < atomic::load(&control.site_skip)
        || phase::of(word) != phase::IDLE
        || atomic::load(&control.spent_ns)
            > atomic::load(&control.earned_ns) + atomic::load(&control.site_credit_ns) + company_ns
    {
        return swallow(control, Counter::SiteSwallowed);
    }
    let address = site_address(control, ctx);
    if atomic::load(&control.site_passes_own) != 0 && is_own(control, ctx, address) {
        if atomic::add(&control.site_own, 1) + 1 == OWN_TRAPS {
            tell(EVENT_BUSY, current_tid(control), 0, phase::generation(word));
        }
        return swallow(control, Counter::SiteOwn);
    }
    let waits_for_company = now < atomic::load(&control.site_meets_until_ns) && unmet < UNMET_TRAPS;
    let meets = waits_for_company && meets(control, address);
    if waits_for_company && !meets {
        atomic::add(&control.site_unmet, 1);
        atomic::add(&control.site_traps, u64::MAX);
        return swallow(control, Counter::SiteUnmet);
    }
    if atomic::load(&control.site_spares_holders) != 0 && holds_lock(control) {
        if atomic::add(&control.site_held, 1) < HELD_TRAPS {
            atomic::add(&control.site_traps, u64::MAX);
        }
        return swallow(control, Counter::SiteHeld);
    }
    if let Some(reason) = cannot_stop(control) {
        // Where threads come and go, there are many of them for one that can be stopped.
        if matches!(reason, Counter::SampleNotHeld)
            && atomic::add(&control.site_not_held, 1) < NOT_HELD_TRAPS
        {
            atomic::add(&control.site_traps, u64::MAX);
        }
        return swallow(control, reason);
    }
    if !claim(control, word, now) {
        return swallow(control, Counter::SiteSwallowed);
    }
    count(control, Counter::SitePassed);
    if meets {
        count(control, Counter::SiteMet);
    }
    stop(control, by_cpu)
}

/// Whether the current thread holds a lock for which others have waited.
#[inline(always)]
fn holds_lock(control: &Control) -> bool {
    let Some(tid) = innermost_tid(control) else {
        return false;
    };
    let known = control.locks.iter().map(atomic::load);
    let mut locks = known.take_while(|lock| *lock != 0);
    locks.any(|lock| {
        let (form, futex) = lock::Form::of_word(lock);
        // SAFETY: the helper checks the address.
        let words = unsafe { bpf_probe_read_user(futex as *const lock::Words) };
        words.is_ok_and(|words| form.is_held_by(words, tid))
    })
}

/// The address that the current thread is about to access at the site.
#[inline(always)]
fn site_address(control: &Control, ctx: *const bpf_perf_event_data) -> u64 {
    let index = register(ctx, atomic::load(&control.site_index));
    atomic::load(&control.site_displacement)
        .wrapping_add(register(ctx, atomic::load(&control.site_base)))
        .wrapping_add(index << (atomic::load(&control.site_shift) & 3))
}

/// Whether the current thread is about to access there what only it uses, as far as its registers tell.
#[inline(always)]
fn is_own(control: &Control, ctx: *const bpf_perf_event_data, address: u64) -> bool {
    // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the access.
    let stack_pointer = unsafe { ptr::read_volatile(&raw const (*ctx).regs.rsp) };
    let thread_pointer = of_current(control.offsets.task_fs_base);
    let frame = atomic::load(&control.site_frame);
    let other = atomic::load(&control.site_other);
    own::is_own(address, stack_pointer, thread_pointer, frame)
        && (other == NO_REGISTER
            || own::is_own(register(ctx, other), stack_pointer, thread_pointer, frame))
}

/// Whether the current thread is about to access what another one has accessed at the site lately.
#[inline(always)]
fn meets(control: &Control, address: u64) -> bool {
    let tid = u64::from(current_tid(control));
    let known = atomic::load(&control.met_count);
    for (place, [known_address, known_tid]) in control.met.iter().enumerate() {
        if place as u64 >= known {
            break;
        }
        if atomic::load(known_address) == address {
            let known_tid = atomic::load(known_tid);
            return known_tid != tid && known_tid != NOBODY;
        }
    }
    let [new_address, new_tid] = &control.met[atomic::add(&control.met_count, 1) as usize % MET];
    atomic::store(new_address, address);
    atomic::store(new_tid, tid);
    false
}

/// A general register by its number in instructions; 0 for [`NO_REGISTER`].
#[inline(always)]
fn register(ctx: *const bpf_perf_event_data, number: u64) -> u64 {
    macro_rules! field {
        // Volatile, so that the compiler does not compute which one: the verifier allows loads of single fields only.
        ($name:ident) => {
            // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the access.
            unsafe { ptr::read_volatile(&raw const (*ctx).regs.$name) }
        };
    }
    match number {
        0 => field!(rax),
        1 => field!(rcx),
        2 => field!(rdx),
        3 => field!(rbx),
        4 => field!(rsp),
        5 => field!(rbp),
        6 => field!(rsi),
        7 => field!(rdi),
        8 => field!(r8),
        9 => field!(r9),
        10 => field!(r10),
        11 => field!(r11),
        12 => field!(r12),
        13 => field!(r13),
        14 => field!(r14),
        15 => field!(r15),
        _ => 0,
    }
}

/// Threads of the watched process.
#[raw_tracepoint]
fn newtask(ctx: RawTracePointContext) -> i32 {
    // SAFETY: the arguments of `task_newtask` are (struct task_struct *, unsigned long).
    let (task, flags) = unsafe {
        let args = ctx.as_ptr().cast::<u64>();
        (*args, *args.add(1))
    };
    if flags & CLONE_THREAD == 0 {
        return 0;
    }
    let Some(control) = control() else { return 0 };
    if !is_watched(control, current_tgid(control)) {
        return 0;
    }
    count(control, Counter::Threads);
    atomic::add(&control.spent_ns, NEW_THREAD_NS);
    let allowed = atomic::load(&control.threads_allowed);
    if allowed == 0 || !atomic::replace(&control.threads_allowed, allowed, allowed - 1) {
        count(control, Counter::ThreadsLeft);
        return 0;
    }
    if allowed == 1 {
        tell(EVENT_THREADS_LEFT, 0, 0, 0);
    }
    if let Some(tid) = tid_of(control, task) {
        tell(EVENT_THREAD, tid, current_tid(control), flags);
    }
    0
}

/// Another program is executed by a thread that nobody holds: it does not stop there, and all others of its process are gone. Its
/// first instruction is still to come. From then on addresses mean something else, so nothing is the watched process's until the
/// tracer knows of it.
#[raw_tracepoint]
fn exec(_ctx: RawTracePointContext) -> i32 {
    let Some(control) = control() else { return 0 };
    // SAFETY: the helper has no preconditions.
    if is_watched(control, current_tgid(control))
        && !is_held(control, unsafe { bpf_get_current_task() })
    {
        atomic::store(&control.tgid, NO_PROCESS);
        tell(EVENT_EXEC, current_tid(control), 0, 0);
    }
    0
}

fn control() -> Option<&'static Control> {
    CONTROL.get_ptr(0).map(|pointer| {
        // SAFETY: a map value lives as long as its map, and all fields that change while
        // programs run are atomics.
        unsafe { &*pointer }
    })
}

#[inline(always)]
fn count(control: &Control, counter: Counter) {
    atomic::add(&control.counters[counter as usize], 1);
}

#[inline(always)]
fn swallow(control: &Control, reason: Counter) -> u32 {
    count(control, reason);
    0
}

/// The same for an access that is no evidence; without a stall it would be none anyway.
#[inline(always)]
fn refuse(control: &Control, reason: Counter, shares: bool) -> u32 {
    if !shares {
        count(control, reason);
    }
    0
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

#[inline(always)]
fn current_tgid(control: &Control) -> u32 {
    if atomic::load(&control.pid_level) == 0 {
        return (bpf_get_current_pid_tgid() >> 32) as u32;
    }
    // SAFETY: the helper has no preconditions.
    tgid_of(control, unsafe { bpf_get_current_task() }).unwrap_or(0)
}

/// Whether a process is the watched one. The idle task and, in a pid namespace, every process outside of it have the id 0, which is nobody's.
#[inline(always)]
fn is_watched(control: &Control, tgid: u32) -> bool {
    u64::from(tgid) != NO_PROCESS && u64::from(tgid) == atomic::load(&control.tgid)
}

#[inline(always)]
fn current_tid(control: &Control) -> u32 {
    if atomic::load(&control.pid_level) == 0 {
        return bpf_get_current_pid_tgid() as u32;
    }
    // SAFETY: the helper has no preconditions.
    tid_of(control, unsafe { bpf_get_current_task() }).unwrap_or(0)
}

/// The tracer's pid namespace.
#[inline(always)]
fn namespace(control: &Control) -> Namespace {
    Namespace {
        pointer: atomic::load(&control.pid_namespace),
        level: atomic::load(&control.pid_level),
    }
}

/// The id of a task in the tracer's pid namespace; `None` for one that is not in it.
#[inline(always)]
fn tid_of(control: &Control, task: u64) -> Option<u32> {
    namespace(control).id_of(&control.offsets, task)
}

/// The same of a task's process.
#[inline(always)]
fn tgid_of(control: &Control, task: u64) -> Option<u32> {
    namespace(control).process_of(&control.offsets, task)
}

/// The id of the current thread in the pid namespace in which it lives.
#[inline(always)]
fn innermost_tid(control: &Control) -> Option<u32> {
    let offsets = &control.offsets;
    let pid = of_current(offsets.task_thread_pid);
    let level = read_kernel::<u32>(pid, offsets.pid_level)?;
    let number = number_at(offsets, level);
    read_kernel::<u32>(pid, number.wrapping_add(offsets.upid_nr))
}

/// Takes note of the pid namespace of the current task, which is the tracer's.
#[inline(always)]
fn learn_namespace(control: &Control) -> Option<()> {
    // SAFETY: the helper has no preconditions.
    let task = unsafe { bpf_get_current_task() };
    let namespace = Namespace::of(&control.offsets, task)?;
    atomic::store(&control.pid_level, namespace.level);
    atomic::store(&control.pid_namespace, namespace.pointer);
    Some(())
}

#[inline(always)]
fn tell(kind: u32, tid: u32, by: u32, value: u64) {
    // A full buffer loses the event: the tracer scans for threads and modules by itself, too.
    let _ = EVENTS.output(
        Event {
            kind,
            tid,
            by,
            reserved: 0,
            value,
        },
        0,
    );
}

/// Claims the current thread for the next generation; false where another gate was first.
#[inline(always)]
fn claim(control: &Control, word: u64, now: u64) -> bool {
    let claimed = phase::word(phase::generation(word) + 1, phase::CLAIMED);
    if !atomic::replace(&control.phase, word, claimed) {
        return false;
    }
    atomic::store(&control.owner, u64::from(current_tid(control)));
    stands(control, now);
    true
}

/// From here on the current thread stands still, and the watchdog looks after it.
#[inline(always)]
fn stands(control: &Control, now: u64) {
    let waited = of_current(control.offsets.task_run_delay);
    atomic::store(&control.claim_run_delay_ns, waited);
    atomic::store(&control.claim_time_ns, now);
    atomic::store(&control.standing_since_ns, now);
    // A full buffer is one that the watchdog is about to read.
    let _ = STANDING.output(now, 0);
}

/// The signal that stops threads, whoever sends it.
#[inline(always)]
fn signal_of(control: &Control) -> u32 {
    match atomic::load(&control.delivery) as u32 {
        delivery::SIGTRAP => SIGTRAP,
        signal => signal,
    }
}

/// Stops the current thread at its present instruction. The result is the program's. Events of a processor have no
/// signal of their own.
#[inline(always)]
fn stop(control: &Control, by_cpu: bool) -> u32 {
    match atomic::load(&control.delivery) as u32 {
        delivery::SIGTRAP if !by_cpu => 1,
        _ => send(control),
    }
}

/// Stops the current thread by a signal that is no event's own.
#[inline(always)]
fn send(control: &Control) -> u32 {
    // SAFETY: the helper checks its argument.
    unsafe { bpf_send_signal_thread(signal_of(control)) };
    0
}

/// Whether a signal of ours stops the current thread and can do nothing else, whatever happens
/// to the tracer (invariant I1): our tracer holds it, and the signal is ignored.
#[inline(always)]
fn stoppable(control: &Control) -> bool {
    cannot_stop(control).is_none()
}

/// Why the current thread cannot be stopped, if it cannot.
#[inline(always)]
fn cannot_stop(control: &Control) -> Option<Counter> {
    // SAFETY: the helper has no preconditions.
    let task = unsafe { bpf_get_current_task() };
    if !is_held(control, task) {
        Some(Counter::SampleNotHeld)
    } else if !ignores(control, task) {
        Some(Counter::SampleUnstoppable)
    } else {
        None
    }
}

/// Whether our tracer holds a thread.
#[inline(always)]
fn is_held(control: &Control, task: u64) -> bool {
    let offsets = &control.offsets;
    if read_kernel::<u32>(task, offsets.task_ptrace).unwrap_or(0) == 0 {
        return false;
    }
    let Some(parent) = read_kernel::<u64>(task, offsets.task_parent) else {
        return false;
    };
    tgid_of(control, parent) == Some(atomic::load(&control.tracer) as u32)
}

/// Whether the signal that stops threads is not blocked in one, and its disposition is to be ignored.
#[inline(always)]
fn ignores(control: &Control, task: u64) -> bool {
    let offsets = &control.offsets;
    let Some(blocked) = read_kernel::<u64>(task, offsets.task_blocked) else {
        return false;
    };
    let Some(sighand) = read_kernel::<u64>(task, offsets.task_sighand) else {
        return false;
    };
    let index = signal_of(control).wrapping_sub(1) & 63;
    if blocked >> index & 1 != 0 {
        return false;
    }
    let action = offsets
        .sighand_action
        .wrapping_add(index.wrapping_mul(offsets.k_sigaction_size))
        .wrapping_add(offsets.sa_handler);
    match read_kernel::<u64>(sighand, action) {
        Some(SIG_IGN) => true,
        // The signals that a gate sends by itself are ignored by default, too.
        Some(SIG_DFL) => atomic::load(&control.delivery) as u32 != delivery::SIGTRAP,
        _ => false,
    }
}

/// A field of the current thread's `task_struct`; 0 where it cannot be known.
#[inline(always)]
fn of_current(offset: u32) -> u64 {
    if offset == 0 {
        return 0;
    }
    // SAFETY: the helper has no preconditions.
    let task = unsafe { bpf_get_current_task() };
    read_kernel::<u64>(task, offset).unwrap_or(0)
}

/// Binary search: how many of the first `count` entries, sorted, are "at most" what is sought,
/// as `at_most` says of an index; `None` where it does.
///
/// The verifier would follow every path through the loop as a state of its own, 2^steps of
/// them, because it knows the bounds of `low` and `high` too well. Adding a zero that it
/// cannot know makes the paths equal again, so that it follows one.
#[inline(always)]
fn search(
    control: &Control,
    steps: usize,
    count: u32,
    at_most: impl Fn(u32) -> Option<bool>,
) -> Option<u32> {
    let (mut low, mut high) = (0u64, u64::from(count));
    for _ in 0..=steps {
        low = low.wrapping_add(atomic::load(&control.zero));
        high = high.wrapping_add(atomic::load(&control.zero));
        if low >= high {
            break;
        }
        let middle = low.wrapping_add(high) >> 1;
        if at_most(middle as u32)? {
            low = middle.wrapping_add(1);
        } else {
            high = middle;
        }
    }
    Some(low as u32)
}

/// The executable range of an address space that holds `pc`.
#[inline(always)]
fn range_of(control: &Control, tgid: u32, pc: u64) -> Option<&'static ModuleRange> {
    if !is_watched(control, tgid) {
        return None;
    }
    let found = search(control, SPACE_STEPS, SPACE_RANGES as u32, |index| {
        Some(SPACE.get(index)?.start <= pc)
    })?;
    let range = SPACE.get(found.wrapping_sub(1))?;
    (pc < range.end).then_some(range)
}

#[inline(always)]
const fn entry_of(&[start, size_flags]: &FunctionWords) -> FunctionEntry {
    FunctionEntry { start, size_flags }
}

/// Flags of the covered function that holds `pc`; 0 where there is none.
#[inline(always)]
fn function_flags(control: &Control, range: &ModuleRange, pc: u64) -> u32 {
    let Some(functions) = FUNCTIONS.get(range.table) else {
        return 0;
    };
    let offset = pc.wrapping_sub(range.base) as u32;
    let found = search(control, SEARCH_STEPS, range.functions, |index| {
        Some(entry_of(functions.get(index)?).start <= offset)
    });
    let Some(words) = found.and_then(|found| functions.get(found.wrapping_sub(1))) else {
        return 0;
    };
    let entry = entry_of(words);
    if offset.wrapping_sub(entry.start) < entry.size_flags & FunctionEntry::SIZE_MASK {
        entry.size_flags & !FunctionEntry::SIZE_MASK
    } else {
        0
    }
}

/// Whether an atomic instruction ends at `pc`.
#[inline(always)]
fn ends_atomic(control: &Control, range: &ModuleRange, pc: u64) -> bool {
    let Some(atomics) = ATOMICS.get(range.table) else {
        return false;
    };
    let offset = pc.wrapping_sub(range.base) as u32;
    let found = search(control, SEARCH_STEPS, range.atomics, |index| {
        Some(*atomics.get(index)? <= offset)
    });
    found.and_then(|found| atomics.get(found.wrapping_sub(1))) == Some(&offset)
}

/// # Safety
/// `ctx` is the context of the running program, `to` points to writable memory of this size.
#[inline(always)]
unsafe fn copy_regs(ctx: *mut bpf_perf_event_data, to: *mut TrapRegs) {
    macro_rules! copy {
        // Volatile: the verifier allows only 8-byte loads of single fields here, and the
        // compiler would otherwise make them a memcpy.
        ($($to:ident = $from:ident),*) => {
            // SAFETY: as the caller promises.
            unsafe { $( (*to).$to = ptr::read_volatile(&raw const (*ctx).regs.$from); )* }
        };
    }
    copy!(
        r15 = r15,
        r14 = r14,
        r13 = r13,
        r12 = r12,
        rbp = rbp,
        rbx = rbx,
        r11 = r11,
        r10 = r10,
        r9 = r9,
        r8 = r8,
        rax = rax,
        rcx = rcx,
        rdx = rdx,
        rsi = rsi,
        rdi = rdi,
        orig_rax = orig_rax,
        rip = rip,
        cs = cs,
        eflags = eflags,
        rsp = rsp,
        ss = ss
    );
}

/// Copies user stack from `from` up; the result is the number of valid bytes.
///
/// # Safety
/// `to` points to `STACK_BYTES` writable bytes of a map value.
#[inline(always)]
unsafe fn copy_stack(from: u64, to: *mut u8) -> u32 {
    /// Towards the end of a stack whole chunks fail; these pieces save what there is.
    const PIECE: usize = 512;
    let mut length = 0;
    for chunk in 0..STACK_BYTES / STACK_CHUNK {
        let offset = chunk * STACK_CHUNK;
        let source = from.wrapping_add(offset as u64);
        // SAFETY: `offset + STACK_CHUNK` is within the buffer; the helper checks the source.
        let result = unsafe {
            read_user(
                to.add(offset).cast(),
                STACK_CHUNK as u32,
                source as *const c_void,
            )
        };
        if result == 0 {
            length = offset + STACK_CHUNK;
            continue;
        }
        for piece in 0..STACK_CHUNK / PIECE {
            let offset = offset + piece * PIECE;
            let source = from.wrapping_add(offset as u64);
            // SAFETY: as above.
            let result =
                unsafe { read_user(to.add(offset).cast(), PIECE as u32, source as *const c_void) };
            if result != 0 {
                break;
            }
            length = offset + PIECE;
        }
        break;
    }
    length as u32
}
