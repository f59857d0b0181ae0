//! The control block as the programs use it, and what they tell by it and the tracer by events.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use sanitizer_ebpf::{Control, Counter, Event};

use crate::atomic;

use super::maps::{CONTROL, EVENTS};

pub(super) fn control() -> Option<&'static Control> {
    CONTROL.get_ptr(0).map(|pointer| {
        // SAFETY: a map value lives as long as its map, and all fields that change while
        // programs run are atomics.
        unsafe { &*pointer }
    })
}

#[inline(always)]
pub(super) fn count(control: &Control, counter: Counter) {
    atomic::add(&control.counters[counter as usize], 1);
}

#[inline(always)]
pub(super) fn swallow(control: &Control, reason: Counter) -> u32 {
    count(control, reason);
    0
}

/// The same for an access that is no evidence; without a stall it would be none anyway.
#[inline(always)]
pub(super) fn refuse(control: &Control, reason: Counter, shares: bool) -> u32 {
    if !shares {
        count(control, reason);
    }
    0
}

#[inline(always)]
pub(super) fn tell(kind: u32, tid: u32, by: u32, value: u64) {
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

#[inline(always)]
pub(super) fn now() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}
