//! A clock sample: may its thread be claimed, here and now?

use aya_ebpf::{
    bindings::bpf_perf_event_data, helpers::bpf_probe_read_user, programs::PerfEventContext,
};
use aya_log_ebpf::debug;
use sanitizer_ebpf::{
    Control, Counter, ELSEWHERE, EVENT_UNKNOWN_PC, FunctionEntry, ModuleRange, SEEN,
    control::Samples, phase, sample,
};

use crate::atomic;

use super::{
    block::{control, count, now, swallow, tell},
    current::{current_tgid, current_tid, is_watched},
    stop::{cannot_stop, claim, stop},
    tables::{function_flags, range_of},
};

/// The clock gate: may this thread be sampled, here and now?
#[unsafe(no_mangle)]
#[unsafe(link_section = "perf_event")]
extern "C" fn clock_gate(ctx: *mut bpf_perf_event_data) -> u32 {
    let Some(control) = control() else { return 0 };
    // Whoever is interrupted, it costs.
    atomic::add(
        &control.budget.spent_ns,
        atomic::load(&control.budget.trap_cost_ns),
    );
    let tgid = current_tgid(control);
    if !is_watched(control, tgid) {
        return swallow(control, Counter::ForeignSamples);
    }
    count(control, Counter::Samples);
    atomic::add(
        &control.budget.sampled_ns,
        atomic::load(&control.budget.sample_ns),
    );
    atomic::add(
        &control.budget.earned_ns,
        atomic::load(&control.budget.earn_per_sample_ns),
    );

    let now = now();
    let word = atomic::load(&control.phase);
    let idle = phase::of(word) == phase::IDLE;
    // A claim whose stop never came (the thread died, the signal was lost) must not silence
    // the sampler for good.
    let void = phase::of(word) == phase::CLAIMED
        // Another gate may have claimed since this one took the time.
        && now.saturating_sub(atomic::load(&control.claim.time_ns))
            > atomic::load(&control.claim.timeout_ns);
    // Where the time goes is counted for every sample: it says how much of the program's work
    // can be watched at all.
    // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the access.
    let pc = unsafe { (*ctx).regs.rip };
    let Some(range) = range_of(control, tgid, pc) else {
        let last = atomic::load(&control.samples.unknown_pc_ns);
        if now.wrapping_sub(last) > sample::UNKNOWN_PC_INTERVAL_NS {
            atomic::store(&control.samples.unknown_pc_ns, now);
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
    let place = atomic::add(&control.samples.seen_count, 1) as usize % SEEN;
    atomic::store(&control.samples.seen[place], pc);
    let refusal = sample::refusal(
        idle || void,
        atomic::load(&control.claim.by_clock) != 0,
        atomic::load(&control.budget.spent_ns),
        atomic::load(&control.budget.earned_ns),
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
    stop(control, atomic::load(&control.events.clock_by_cpu) != 0)
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
    let [place, number] = &control.samples.elsewhere[Samples::place_elsewhere(pc) % ELSEWHERE];
    let before = [atomic::load(place), atomic::load(number)];
    let [now_there, counted] = Samples::counted_elsewhere(before, pc);
    atomic::store(place, now_there);
    atomic::store(number, counted);
}
