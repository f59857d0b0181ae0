//! Two accesses in, a race or the reason why not out. Pure: no I/O, no clock, no addresses read.
//!
//! A report is evidence, not suspicion. A hit becomes a race only where all of this holds:
//!
//! - another thread made it, inside the stall, and the stalled thread made its own access when it
//!   was released;
//! - both instructions are known exactly and share bytes;
//! - at least one of them writes;
//! - a load of more bytes than its code uses shares one of those that are used;
//! - both are in analyzed code (or in a memory routine that analyzed code calls), so that it is
//!   known which accesses are atomic, and at least one is plain.
//!
//! ```
//! use gwp_race::insn::{AccessKind, ByteUse, ReadUse};
//! use gwp_race::pcmeta::Atomicity;
//! use gwp_race::verdict::{Access, Analyzed, Context, Policy, Reason, Verdict, judge};
//!
//! let write = Access {
//!     pc: 0x1000,
//!     address: 0x8000,
//!     size: 4,
//!     kind: AccessKind::Write,
//!     atomicity: Atomicity::Plain,
//!     analyzed: Analyzed::Yes,
//!     read_use: ReadUse::Unproven,
//!     bytes: ByteUse::UNKNOWN,
//!     address_exact: true,
//! };
//! let context = Context {
//!     watch: (0x8000, 4),
//!     same_thread: false,
//!     in_stall: true,
//!     completed: true,
//! };
//! let policy = Policy::default();
//! assert!(matches!(judge(&write, &write, &context, &policy), Verdict::Race(_)));
//! let atomic = Access { atomicity: Atomicity::Atomic, ..write };
//! assert_eq!(
//!     judge(&atomic, &atomic, &context, &policy),
//!     Verdict::NotReported(Reason::BothAtomic)
//! );
//! ```

mod access;
mod bytes;
mod class;
mod judge;
mod preemption;
mod reach;
mod reason;
#[cfg(test)]
mod table;

pub use access::{Access, Analyzed, Context, Policy};
pub use judge::{Race, Verdict, judge, refuted};
pub use preemption::Preemption;
pub use reason::{Reason, UnknownReason};

pub use class::RaceClass;
