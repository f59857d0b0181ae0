//! The control block: what the tracer and the gates of one process tell each other, by what it concerns.

mod arrivals;
mod budget;
mod claim;
mod events;
mod evidence;
mod preemption;
mod process;
mod samples;
mod sharing;
mod site;
mod stall;
mod watchdog;

use core::sync::atomic::AtomicU64;

use crate::{Counter, KernelOffsets};

pub use arrivals::Arrivals;
pub use budget::Budget;
pub use claim::Claim;
pub use events::Events;
pub use evidence::Evidence;
pub use preemption::Preemption;
pub use process::{NO_PROCESS, Namespace, Process};
pub use samples::Samples;
pub use sharing::Sharing;
pub use site::{Company, Locks, NO_REGISTER, NOBODY, Operand, OwnMemory, Site, Wanted};
pub use stall::Stall;
pub use watchdog::Watchdog;

/// The control block: one page shared by the tracer and the gates of one process.
#[repr(C)]
pub struct Control {
    /// `generation << 8 | phase`, see [`crate::phase`].
    pub phase: AtomicU64,
    /// Who is claimed, and who may be.
    pub claim: Claim,
    /// The stall of the claimed thread.
    pub stall: Stall,
    /// The access site that is waited at.
    pub site: Site,
    /// The probes that stand at others.
    pub arrivals: Arrivals,
    /// The address that stays watched without a stall.
    pub sharing: Sharing,
    /// Where clock samples were.
    pub samples: Samples,
    /// What was earned and spent.
    pub budget: Budget,
    /// What the watchdog goes by.
    pub watchdog: Watchdog,
    /// Which accesses are evidence.
    pub evidence: Evidence,
    /// How events stop threads, and whose they are.
    pub events: Events,
    /// Threads that are off their processors.
    pub preemption: Preemption,
    /// The process that is watched.
    pub process: Process,
    /// In which ids are said here.
    pub namespace: Namespace,
    /// Always 0, which the kernel's verifier cannot know: see the gates' search.
    pub zero: AtomicU64,
    /// Offsets for reading `current`.
    pub offsets: KernelOffsets,
    /// Counts, by [`Counter`].
    pub counters: [AtomicU64; Counter::COUNT],
}
