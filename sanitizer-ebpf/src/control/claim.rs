//! Who is claimed, and who may be.

use core::sync::atomic::AtomicU64;

/// The thread in hand.
#[repr(C)]
pub struct Claim {
    /// The claimed thread.
    pub owner: AtomicU64,
    /// When it was stopped (claimed, or at the site it was sent to), CLOCK_MONOTONIC ns.
    pub time_ns: AtomicU64,
    /// How long it had waited for a processor in its life, when it was claimed; ns.
    pub run_delay_ns: AtomicU64,
    /// Start of the instruction that a sought or confirmed breakpoint stands on.
    pub breakpoint: AtomicU64,
    /// A claim older than this many ns is void: its stop was lost.
    pub timeout_ns: AtomicU64,
    /// 1: clock samples may claim threads; 0: they are only counted.
    pub by_clock: AtomicU64,
}
