//! Which accesses are evidence.

use core::sync::atomic::AtomicU64;

/// What is asked for, and what is watched.
#[repr(C)]
pub struct Evidence {
    /// 1: atomic accesses are swallowed (`--mixed ignore`).
    pub ignore_atomic: AtomicU64,
    /// 1: accesses of code that was not analyzed are kept (`--unanalyzed report`).
    pub keep_unanalyzed: AtomicU64,
    /// 1: so are those of libraries without metadata: what is watched is a variable of one, which may hold what it returns.
    pub keep_results: AtomicU64,
}
