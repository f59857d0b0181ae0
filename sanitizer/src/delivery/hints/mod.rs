//! What a collector tells hosts of a build: a file of what all of them have learned of its functions, as `GET /v1/hints/NAME/BUILD` or from any server of files.
//!
//! [`HintFile`] is the form (fuzzed), [`Hints`] a thread that makes files of a store and keeps them for a while, so that many hosts which ask for the same cost one look.

mod desk;
mod file;
#[cfg(test)]
mod tests;

pub use desk::{Hints, Made, Told, made};
pub use file::{HintError, HintFile, LONGEST};
