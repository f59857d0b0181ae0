//! Probes of the kernel (uprobes) that stand at sites to which hardly anybody comes: may whoever has come to one be claimed?

use aya_ebpf::{bindings::bpf_perf_event_data, helpers::bpf_get_attach_cookie};
use sanitizer_ebpf::{
    Control, Counter, EVENT_HOT, phase,
    probes::{ARRIVAL_NS, HOT_HITS, HOT_NS, StandingProbe},
};

use crate::atomic;

use super::{
    block::{control, count, now, tell},
    current::{current_tgid, is_watched},
    maps::PROBED,
    stop::{cannot_stop, claim, stop},
};

/// A thread has come to a probe that stands, ahead of an access. It is stopped at the next instruction. By hand: the program is attached to many places at once,
/// of which aya's own kind of program knows nothing. Its context is a `struct pt_regs`, with which a `bpf_perf_event_data` begins.
#[unsafe(no_mangle)]
#[unsafe(link_section = "uprobe/probe_gate")]
extern "C" fn probe_gate(ctx: *const bpf_perf_event_data) -> i32 {
    if let Some(control) = control() {
        let _ = arrived(control, ctx);
    }
    0
}

#[inline(always)]
fn arrived(control: &Control, ctx: *const bpf_perf_event_data) -> Option<()> {
    // Whoever comes, it costs.
    atomic::add(&control.budget.spent_ns, ARRIVAL_NS);
    atomic::add(&control.arrivals.hits, 1);
    // SAFETY: the helper takes the context of the running program.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.cast_mut().cast()) };
    let probe = PROBED.get_ptr(cookie as u32)?;
    // SAFETY: a map value lives as long as its map, and all fields are atomics.
    let probe = unsafe { &*probe };
    // One that had its place before may still be there. And a child of vfork(2) has the same memory, which is all that the kernel has compared.
    if atomic::load(&probe.turn) & 0xffff_ffff != cookie >> 32
        || !is_watched(control, current_tgid(control))
    {
        return None;
    }
    let now = now();
    if is_hot(probe, now) {
        return None;
    }
    count(control, Counter::Arrivals);
    atomic::add(&probe.hits, 1);
    let word = atomic::load(&control.phase);
    if atomic::load(&probe.is_spared) != 0
        || now >= atomic::load(&control.arrivals.until_ns)
        || phase::of(word) != phase::IDLE
        || atomic::load(&control.budget.spent_ns)
            > atomic::load(&control.budget.earned_ns) + atomic::load(&control.arrivals.credit_ns)
    {
        return None;
    }
    if let Some(reason) = cannot_stop(control) {
        count(control, reason);
        return None;
    }
    if !claim(control, word, now) {
        return None;
    }
    count(control, Counter::ArrivalsPassed);
    // A probe has no signal of its own, as an event of a processor has none.
    stop(control, true);
    Some(())
}

/// Whether too many come there.
#[inline(always)]
fn is_hot(probe: &StandingProbe, now: u64) -> bool {
    if atomic::load(&probe.hot_ns) != 0 {
        return true;
    }
    let since = atomic::load(&probe.since_ns);
    if now.saturating_sub(since) >= HOT_NS && atomic::replace(&probe.since_ns, since, now) {
        atomic::store(&probe.lately, 0);
    }
    if atomic::add(&probe.lately, 1) + 1 < HOT_HITS {
        return false;
    }
    if atomic::replace(&probe.hot_ns, 0, now) {
        tell(EVENT_HOT, 0, 0, 0);
    }
    true
}
