//! The harness of the end-to-end tests: it builds real programs in many configurations, runs
//! them under the real gwp-race, and reads what it reports.
//!
//! `cargo xtask test` names the gwp-race to test in `GWP_RACE_BIN`.

pub mod binary;
pub mod breakpoint;
pub mod chaos;
pub mod children;
pub mod compile;
pub mod configuration;
pub mod disks;
pub mod executable;
pub mod hang;
pub mod lost_traps;
pub mod luck;
pub mod machine;
pub mod perf_event;
pub mod program;
pub mod report;
pub mod served;
pub mod stripped;
pub mod watch;
pub mod who;

pub use configuration::{Compiler, Configuration, Link};
pub use program::{Metadata, Program};
pub use report::Report;
pub use watch::{Outcome, Until, Watch};
pub use who::Who;
