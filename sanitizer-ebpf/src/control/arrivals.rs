//! Probes that stand at sites to which hardly anybody comes: whether whoever comes to one of them may be claimed.

use core::sync::atomic::AtomicU64;

/// See the module.
#[repr(C)]
pub struct Arrivals {
    /// Until when a thread that comes to any of them may be claimed, CLOCK_MONOTONIC ns; 0: they are only counted.
    pub until_ns: AtomicU64,
    /// What may have been spent beyond what was earned when one is claimed, ns.
    pub credit_ns: AtomicU64,
    /// Arrivals, whosoever and whether counted at a probe or not: each has cost the thread a trap.
    pub hits: AtomicU64,
    /// How often the process has forked: its children have the probes in their code as well, and nobody looks after those.
    pub forks: AtomicU64,
}
