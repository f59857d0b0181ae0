//! Breakpoints: has the owner of the sample come to its access site, or passed it?

use aya_ebpf::bindings::bpf_perf_event_data;
use sanitizer_ebpf::{Control, Counter, EVENT_CONFIRMED, EVENT_CROWDED, TRAPS_PER_STALL, phase};

use crate::atomic;

use super::{
    block::{control, now, swallow, tell},
    current::{current_tgid, current_tid, is_watched, learn_namespace},
    site::site_reached,
    stop::{stands, stop, stoppable},
};

/// The reach gate: has the owner of the sample come to its access site, or passed it?
#[unsafe(no_mangle)]
#[unsafe(link_section = "perf_event")]
extern "C" fn reach_gate(ctx: *mut bpf_perf_event_data) -> u32 {
    let Some(control) = control() else { return 0 };
    // The first trap of all is the tracer's own, which measures what it costs.
    if atomic::load(&control.namespace.pointer) == 0 && learn_namespace(control).is_none() {
        return 0;
    }
    atomic::add(
        &control.budget.spent_ns,
        atomic::load(&control.budget.trap_cost_ns),
    );
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
    atomic::add(
        &control.budget.spent_ns,
        atomic::load(&control.budget.trap_cost_ns),
    );
    // SAFETY: `ctx` is the context of a perf_event program; the verifier checks the access.
    let pc = unsafe { (*ctx).regs.rip };
    let word = atomic::load(&control.phase);
    if phase::of(word) == phase::SEEK {
        reached(control, word, pc, true)
    } else if atomic::load(&control.site.at) == pc {
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
        || atomic::load(&control.claim.owner) != u64::from(current_tid(control))
        || atomic::load(&control.claim.breakpoint) != pc
    {
        if by_cpu && atomic::add(&control.stall.traps, 1) + 1 == TRAPS_PER_STALL {
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
