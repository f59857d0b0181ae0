//! Who is claimed, and who may be.

use core::sync::atomic::AtomicU64;

/// The thread in hand.
#[repr(C)]
pub struct Claim {
    /// The claimed thread.
    pub owner: AtomicU64,
    /// When it was stopped (claimed, or at the site it was sent to), CLOCK_MONOTONIC ns.
    pub time_ns: AtomicU64,
    /// Its stack pointer then, where it has come to a site.
    pub stack_pointer: AtomicU64,
    /// The eight bytes at the address that is watched in advance ([`crate::control::Sharing::ahead`]), right before it was claimed.
    pub value: AtomicU64,
    /// How often it has come to the site since: it went on before it was stopped.
    pub again: AtomicU64,
    /// How long it had waited for a processor in its life, when it was claimed; ns.
    pub run_delay_ns: AtomicU64,
    /// Start of the instruction that a sought or confirmed breakpoint stands on.
    pub breakpoint: AtomicU64,
    /// A claim older than this many ns is void: its stop was lost.
    pub timeout_ns: AtomicU64,
    /// 1: clock samples may claim threads; 0: they are only counted.
    pub by_clock: AtomicU64,
}
