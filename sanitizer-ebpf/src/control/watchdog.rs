//! What the watchdog goes by.

use core::sync::atomic::AtomicU64;

/// Whether somebody stands still, and whether the tracer is alive.
#[repr(C)]
pub struct Watchdog {
    /// Since when a thread stands still for a sample, CLOCK_MONOTONIC ns; 0 while none does. The
    /// gates set it when they stop one, the tracer clears it; the watchdog minds it.
    pub standing_since_ns: AtomicU64,
    /// The tracer's heartbeat: when it will look at its tracees again at the
    /// latest, CLOCK_MONOTONIC ns; while it works, when it began to. 0 before its first look.
    pub heartbeat_ns: AtomicU64,
}
