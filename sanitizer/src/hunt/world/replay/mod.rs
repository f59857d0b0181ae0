//! A recorded program in the place of a simulated one: what threads did is done again, over and over, and whoever is held meets those who came to
//! the same bytes then.
//!
//! What holding a thread changes is not in the recording: who waits for a lock of a held thread is taken to wait for as long, and whoever is ordered behind
//! the thread otherwise, so that the two sites never raced, is taken not to come. All else goes on as if nobody had been held.

mod compared;
mod held;
mod index;
mod known;
pub mod report;
mod scene;
mod summary;

#[cfg(test)]
mod tests;
