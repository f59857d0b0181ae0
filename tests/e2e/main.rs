//! End-to-end tests: gwp-race on real programs, on the real kernel.

mod builds;
mod catalogue;
mod conduct;
mod conformance;
mod explain;
mod faults;
mod limits;
mod memory;
mod namespaces;
mod output;
mod permissions;
mod races;
mod refusals;
mod silence;
mod soak;
mod strategies;
mod survival;
mod system_calls;
mod usage;
mod watchdog;
