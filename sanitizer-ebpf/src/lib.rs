//! The ABI that the eBPF gates and user space share: layouts of maps and records, the phases
//! of a sample, and the reasons for which a gate swallows an event.
//!
//! Everything here is `repr(C)`, without padding that matters, and valid for any bit pattern:
//! user space maps these structures into its own memory.
#![no_std]

mod counter;
mod event;
mod limits;
mod offsets;
mod preempted;
mod record;
mod tables;

pub mod access;
pub mod control;
pub mod delivery;
pub mod descent;
pub mod discovery;
pub mod lock;
pub mod own;
pub mod phase;
pub mod probes;
pub mod sample;
pub mod system_call;

pub use control::{Control, NO_PROCESS, NO_REGISTER, NOBODY};
pub use counter::Counter;
pub use event::*;
pub use limits::*;
pub use offsets::KernelOffsets;
pub use preempted::{PREEMPTED, PreemptedThread, SIGNAL_PENDING, place_of, stands_in_user_code};
pub use record::{HitRecord, TrapRegs};
pub use tables::*;
