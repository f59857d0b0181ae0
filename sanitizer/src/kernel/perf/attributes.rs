//! The attributes with which events are opened (`struct perf_event_attr`).

use std::time::Duration;

use perf_event_open_sys::bindings as raw;

use super::{Delivery, EventOptions, WatchKind};

/// What each record of a [`super::ring::Ring`] holds.
pub(super) const SAMPLE_TYPE: u64 = (raw::PERF_SAMPLE_IDENTIFIER
    | raw::PERF_SAMPLE_IP
    | raw::PERF_SAMPLE_TID
    | raw::PERF_SAMPLE_TIME
    | raw::PERF_SAMPLE_ADDR
    | raw::PERF_SAMPLE_REGS_USER
    | raw::PERF_SAMPLE_STACK_USER) as u64;

/// The registers of [`gwp_race_abi::TrapRegs`], by their bits in `arch/x86/include/uapi/asm/perf_regs.h`: all
/// general ones, the flags, and the selectors of code and stack.
pub(super) const SAMPLE_REGS: u64 = 0x00ff_0fff;

/// The kernel wants `sizeof(long)` for instruction breakpoints.
pub(super) const INSTRUCTION_LEN: u64 = 8;

pub(super) const fn bp_type(kind: WatchKind) -> u32 {
    match kind {
        WatchKind::Writes => raw::HW_BREAKPOINT_W,
        WatchKind::ReadsAndWrites => raw::HW_BREAKPOINT_RW,
    }
}

/// What an event of a processor is opened with; whether it traps in the kernel as well.
pub(super) fn of_cpu(kernel: bool) -> raw::perf_event_attr {
    let mut attr = base(EventOptions {
        kernel,
        ..EventOptions::SILENT
    });
    // There is no exec by which a processor would lose it.
    attr.set_remove_on_exec(0);
    attr
}

/// One that samples each `period` of a clock (`PERF_COUNT_SW_*`).
pub(super) fn ticking(
    mut attr: raw::perf_event_attr,
    clock: u32,
    period: Duration,
) -> raw::perf_event_attr {
    attr.type_ = raw::PERF_TYPE_SOFTWARE;
    attr.config = u64::from(clock);
    attr.__bindgen_anon_1.sample_period = sample_period(period);
    attr
}

/// As the kernel wants it, ns.
pub(super) fn sample_period(period: Duration) -> u64 {
    /// No clock shall tick more often.
    const SHORTEST: u64 = 100_000;
    let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX >> 1);
    period.max(SHORTEST)
}

/// A breakpoint on nothing yet.
pub(super) fn unarmed(mut attr: raw::perf_event_attr) -> raw::perf_event_attr {
    attr.type_ = raw::PERF_TYPE_BREAKPOINT;
    attr.__bindgen_anon_1.sample_period = 1;
    attr.bp_type = raw::HW_BREAKPOINT_W;
    // Any user address does: the event is disabled until it is armed with a real one.
    attr.__bindgen_anon_3.bp_addr = 0x1000;
    attr.__bindgen_anon_4.bp_len = u64::from(raw::HW_BREAKPOINT_LEN_1);
    attr
}

/// The attributes that all our events share.
pub(super) fn base(options: EventOptions) -> raw::perf_event_attr {
    let mut attr = raw::perf_event_attr {
        size: size_of::<raw::perf_event_attr>() as u32,
        ..Default::default()
    };
    attr.set_disabled(1);
    attr.set_exclude_kernel(u64::from(!options.kernel));
    attr.set_exclude_hv(1);
    if options.inherit {
        attr.set_inherit(1);
        // Threads only: a forked child is another address space and gets events of its own.
        attr.set_inherit_thread(1);
    }
    attr.set_remove_on_exec(1);
    if let Some(stack) = options.record_stack {
        attr.sample_type = SAMPLE_TYPE;
        attr.sample_regs_user = SAMPLE_REGS;
        attr.sample_stack_user = u32::from(stack);
        // The clock of the gates.
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        attr.__bindgen_anon_2.wakeup_events = 1;
    }
    if options.delivery == Delivery::Sigtrap {
        attr.set_sigtrap(1);
        attr.sig_data = options.cookie;
    }
    attr
}
