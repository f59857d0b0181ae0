//! Watchpoints: is an access evidence?

use aya_ebpf::{bindings::bpf_perf_event_data, programs::PerfEventContext};
use aya_log_ebpf::debug;
use sanitizer_ebpf::{
    Control, Counter, EVENT_BUSY, EVENT_HIT, EVENT_KNOWN, FunctionEntry, KNOWN_BITS, KNOWN_TRAPS,
    ModuleRange, TRAPS_PER_STALL, access, phase, system_call,
};

use crate::atomic;

use super::{
    block::{control, count, refuse, swallow, tell},
    current::{current_tgid, current_tid, is_watched},
    record::{complete, is_recorded, next_record},
    registers::{copy_regs, user_registers},
    sharing::{share_other, share_own, tell_of_sharing},
    site::site_reached,
    stop::{stop, stoppable},
    tables::{ends_atomic, function_flags, range_of},
};

/// The privilege bits of a code segment: 0 in the kernel.
const RING: u64 = 3;

/// The watch gate: is this access evidence? If so it is recorded at once (I2), with the
/// generation it belongs to and the time (I7).
#[unsafe(no_mangle)]
#[unsafe(link_section = "perf_event")]
extern "C" fn watch_gate(ctx: *mut bpf_perf_event_data) -> u32 {
    let Some(control) = control() else { return 0 };
    atomic::add(
        &control.budget.spent_ns,
        atomic::load(&control.budget.trap_cost_ns),
    );
    let word = atomic::load(&control.phase);
    // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the accesses.
    let (pc, address) = unsafe { ((*ctx).regs.rip, (*ctx).addr) };
    // Those of threads serve as breakpoints on a site while nothing is in hand. A data watchpoint fires
    // behind its instruction, a breakpoint at the address that it stands on.
    if address == pc && atomic::load(&control.site.at) == pc {
        return site_reached(control, word, ctx);
    }
    let tid = current_tid(control);
    let by_cpu = atomic::load(&control.events.watch_by_cpu) != 0;
    let is_foreign = by_cpu && !is_watched(control, current_tgid(control));
    let is_watched_without =
        phase::of(word) != phase::STALL && atomic::load(&control.sharing.address) == address;
    let is_early =
        is_watched_without && access::is_early(word, atomic::load(&control.sharing.ahead));
    let shares = is_watched_without && !is_early;
    if shares {
        count(control, Counter::ShareTraps);
        if atomic::add(&control.stall.traps, 1) + 1 == TRAPS_PER_STALL {
            tell_of_sharing(control);
        }
        if !is_foreign && u64::from(tid) == atomic::load(&control.sharing.tid) {
            return share_own(control);
        }
    } else {
        count(control, Counter::Traps);
        if !is_early && !access::is_of_stall(word, address, atomic::load(&control.stall.address)) {
            return swallow(control, Counter::HitStale);
        }
        if !is_foreign && u64::from(tid) == atomic::load(&control.claim.owner) {
            return swallow(control, Counter::HitSameThread);
        }
        // The tracer looks at the others when it has come to the stall.
        if !is_early && atomic::add(&control.stall.traps, 1) + 1 == TRAPS_PER_STALL {
            tell(EVENT_BUSY, tid, 0, phase::generation(word));
        }
    }
    if is_foreign {
        return refuse(control, Counter::HitForeign, shares);
    }
    // SAFETY: as above.
    if unsafe { (*ctx).regs.cs } & RING == 0 {
        return kernel_access(control, word, address, tid, shares, is_early);
    }
    // Of what is early it is not certain yet that it is of a stall.
    let generation = phase::generation(word);
    if !shares && !is_early && meets_known(control, pc, generation) {
        count_known(control, tid, generation);
        return swallow(control, Counter::HitKnown);
    }
    // The program counter is that of the next instruction: one byte back is in the function.
    let before = pc.wrapping_sub(1);
    // Whether the program has called for what a library does is for the tracer to tell.
    let mut is_of_library = false;
    let flags = match range_of(control, current_tgid(control), before) {
        Some(range) => {
            if atomic::load(&control.evidence.ignore_atomic) != 0 && ends_atomic(control, range, pc)
            {
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
        results: atomic::load(&control.evidence.keep_results) != 0,
        unanalyzed: atomic::load(&control.evidence.keep_unanalyzed) != 0,
    };
    if !code.is_evidence(keep) {
        return refuse(control, Counter::HitUnanalyzed, shares);
    }
    if shares {
        return share_other(control, pc, tid);
    }
    // A routine has many callers.
    if atomic::load(&control.stall.places_once) != 0
        && flags & FunctionEntry::MEM_ROUTINE == 0
        && is_recorded(generation, pc)
    {
        count_known(control, tid, generation);
        return swallow(control, Counter::HitKnown);
    }
    let Some((record, index)) = next_record(control) else {
        return 0;
    };
    let first = index == 0;
    // Nobody is stopped where the other side is not either.
    let is_free = !is_early && atomic::load(&control.preemption.generation) == generation;
    // Stopping the racing thread as well shortens the stall; it is no part of the evidence.
    let racing_stops = first
        && !is_early
        && !is_free
        && atomic::load(&control.stall.stop_racing) != 0
        && stoppable(control);
    // SAFETY: `next_record` hands out each record once in a generation.
    unsafe {
        (*record).stopping = u32::from(racing_stops);
        (*record).in_kernel = 0;
        (*record).early = u32::from(is_early);
        copy_regs(ctx, &raw mut (*record).regs);
        complete(control, record, word, address, tid, (*ctx).regs.rsp);
    }
    count(control, Counter::HitRecorded);
    debug!(
        &PerfEventContext::new(ctx),
        "hit of {} before {:x}", tid, pc
    );
    if is_free && first {
        tell(EVENT_HIT, tid, 0, generation);
    }
    if racing_stops {
        stop(control, by_cpu)
    } else {
        0
    }
}

/// The kernel has accessed the watched bytes while it works for this thread: evidence where a system call
/// was asked to. The thread is in the kernel, so no signal is sent whatever comes of it.
#[inline(always)]
fn kernel_access(
    control: &Control,
    word: u64,
    address: u64,
    tid: u32,
    shares: bool,
    is_early: bool,
) -> u32 {
    let Some(regs) = user_registers() else {
        return refuse(control, Counter::HitKernel, shares);
    };
    if regs.cs & RING == 0 || !system_call::moves_data(regs.orig_rax) {
        return refuse(control, Counter::HitKernel, shares);
    }
    if shares {
        return share_other(control, regs.rip, tid);
    }
    let Some((record, _)) = next_record(control) else {
        return 0;
    };
    // SAFETY: `next_record` hands out each record once in a generation.
    unsafe {
        (*record).stopping = 0;
        (*record).in_kernel = 1;
        (*record).early = u32::from(is_early);
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
    let counted = atomic::load(&control.stall.known_hits);
    // One that comes late, or at the same time as another one, is not counted.
    if counted >> KNOWN_BITS == generation
        && atomic::replace(&control.stall.known_hits, counted, counted.wrapping_add(1))
    {
        match counted & ((1 << KNOWN_BITS) - 1) {
            0 => tell(EVENT_KNOWN, tid, 0, generation),
            count if count + 1 == KNOWN_TRAPS => tell(EVENT_BUSY, tid, 0, generation),
            _ => {}
        }
    }
}

/// Whether it is known that the access before this address races with the one of the stalled thread of a generation, which is noted.
#[inline(always)]
fn meets_known(control: &Control, pc: u64, generation: u64) -> bool {
    let mut known = control.stall.known.iter().zip(&control.stall.known_met);
    known.any(|(known, met)| {
        let is_met = atomic::load(known) == pc;
        if is_met {
            atomic::store(met, generation);
        }
        is_met
    })
}
