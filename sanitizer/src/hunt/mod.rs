//! The hunt: decides what to stop and for how long, and turns hits into findings.
//!
//! It runs in a process of its own, the *tracer*, one for each watched process. What holds the
//! target (ptrace, perf events, the gates) lives and dies with that process, so that its death
//! at any instant releases everything; what takes time or may fail (symbols, reports, stores)
//! happens in the daemon at the other end of a socket.
//!
//! * [`engine`] owns stops, stalls, watchpoints, deadlines and the budget;
//! * the [`loader`] reads modules and fills the gates' tables, on a thread of its own;
//! * a [`strategy`] only proposes where to stall next and is told what came of it;
//! * [`plan`] is the model that decides as a rule, and [`world`] has simulated programs in which it is compared with other ways of choosing;
//! * the [`watchdog`], the tracer's parent, ends a tracer that hangs;
//! * [`wire`] is what tracer and daemon say to each other.

pub mod adoption;
pub mod ahead;
pub mod alias;
pub mod arming;
pub mod attribution;
pub mod bounds;
pub mod budget;
pub mod byte_uses;
pub mod classify;
pub mod clock;
pub mod clocks;
pub mod code_tables;
pub mod delivery;
mod ending;
pub mod engine;
pub mod heap_block;
pub mod known_code;
pub mod learned;
pub mod loader;
pub mod locks;
pub mod loss;
pub mod memory;
pub mod modules;
pub mod part;
pub mod plan;
pub mod planned;
mod respite;
pub mod return_addresses;
pub mod routine_call;
pub mod routines;
pub mod stint;
pub mod strategy;
pub mod system_call;
pub mod tracer;
mod trap_origin;
pub mod values;
pub mod watchdog;
pub mod watched;
pub mod watchpoints;
pub mod wire;
pub mod world;
