//! What sampling may cost the program, and has cost it.

use core::sync::atomic::AtomicU64;

/// What was earned and spent.
#[repr(C)]
pub struct Budget {
    /// Nanoseconds that the budget has earned: a share of the target's CPU time.
    pub earned_ns: AtomicU64,
    /// Nanoseconds that samples have cost.
    pub spent_ns: AtomicU64,
    /// CPU time of the program that one clock sample stands for, ns; 0 where it is not earned by samples.
    pub sample_ns: AtomicU64,
    /// That of all samples until now.
    pub sampled_ns: AtomicU64,
    /// What one clock sample earns, ns.
    pub earn_per_sample_ns: AtomicU64,
    /// What one trap costs, ns.
    pub trap_cost_ns: AtomicU64,
    /// So many more new threads are told of: what it takes to take them in is part of the budget.
    pub threads_allowed: AtomicU64,
}
