//! Threads that are off their processors: whether they are noted, and which one's bytes are watched meanwhile.

use core::sync::atomic::AtomicU64;

/// See the module.
#[repr(C)]
pub struct Preemption {
    /// 0: they are not noted. Otherwise another number each time that it begins anew.
    pub wanted: AtomicU64,
    /// The stall of this generation is one of a thread that nobody holds: it is over when that thread gets a processor, and nobody is stopped for it.
    pub generation: AtomicU64,
    /// The kernel's pointer to that thread; 0: there is none.
    pub task: AtomicU64,
    /// When it got a processor first after it was told here, CLOCK_MONOTONIC ns; 0: it has not.
    pub back_ns: AtomicU64,
}
