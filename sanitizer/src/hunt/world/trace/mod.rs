//! What a real program did with its memory, recorded: its true races, and a program for the simulation that does just that again.
//!
//! [`mod@format`] is what `tests/fixtures/trace/recorder.c` writes; [`order`] puts the threads' records into one order. [`clocks`] says of two accesses
//! whether anything orders them, [`races`] finds those of which nothing does. [`code`] says what a program's own code tells of its sites,
//! [`reading`] reads it all, and [`recorded`] is what a simulation needs of it.
//!
//! ```no_run
//! use gwp_race::hunt::world::trace::reading::recorded;
//!
//! let recorded = recorded("/tmp/recording".as_ref(), "./server".as_ref(), 1.0)?;
//! for race in &recorded.races {
//!     println!("{} and {}", recorded.line(race.sites[0]), recorded.line(race.sites[1]));
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```

mod census;
pub mod clocks;
pub mod code;
pub mod format;
mod lines;
pub mod order;
pub mod races;
pub mod reading;
pub mod recorded;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
