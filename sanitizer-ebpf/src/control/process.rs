//! Who is watched by whom, and what the ids mean.

use core::sync::atomic::AtomicU64;

/// In the place of a process: no gate takes anything for the watched one's.
pub const NO_PROCESS: u64 = 0;

/// The process that is watched, and the one that watches.
#[repr(C)]
pub struct Process {
    /// The thread group watched; [`NO_PROCESS`] while there is none, or it executes a program that the tracer does not know of yet.
    pub tgid: AtomicU64,
    /// The thread group of the tracer.
    pub tracer: AtomicU64,
}

/// The pid namespace in which all ids of the control block are said: the tracer's.
#[repr(C)]
pub struct Namespace {
    /// The kernel's pointer to it; 0 until the gates have run once, in the tracer.
    pub pointer: AtomicU64,
    /// How many namespaces it is below the initial one.
    pub level: AtomicU64,
}
