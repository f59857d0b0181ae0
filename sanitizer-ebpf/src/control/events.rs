//! How events stop threads, and whose they are.

use core::sync::atomic::AtomicU64;

/// The perf events that the gates are attached to.
#[repr(C)]
pub struct Events {
    /// See [`crate::delivery`].
    pub delivery: AtomicU64,
    /// 1: the clocks are those of the processors, not of threads: a signal is for the gate to send.
    pub clock_by_cpu: AtomicU64,
    /// 1: so are watchpoints and breakpoints: whose access it was is for the gate to tell, too.
    pub watch_by_cpu: AtomicU64,
}
