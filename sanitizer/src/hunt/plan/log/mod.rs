//! The decision log: what a planner has heard, what it was asked, and what it has answered, so that it can be asked again.
//!
//! [`Logged`] is a planner that tells all of it; [`mod@file`] is how that is written; [`replay`](self::replay()) tells a fresh planner the same and compares its
//! answers; [`text`] is for people. Nothing here opens a file: that is for those who own one.

pub mod file;
mod logged;
mod record;
mod replay;
pub mod text;

#[cfg(test)]
mod tests;

pub use logged::Logged;
pub use record::Record;
pub use replay::{Difference, Differs, Figures, Replay, ReplayError, replay};
