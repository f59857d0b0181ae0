//! How a daemon that runs is asked: by a [socket](super::socket) that root and the daemon's own user alone may use.

pub mod client;
pub mod server;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::status::Status;

/// Counts incompatible changes of what is said.
const VERSION: u32 = 1;
/// The longest question, bytes.
const LONGEST_QUESTION: usize = 256;
/// The longest answer: that of a machine with many thousands of processes.
const LONGEST_ANSWER: usize = 64 << 20;

/// A question, and the version of its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    version: u32,
    question: Question,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// What it does.
    Status,
    /// To let all go, and to watch nobody, for this time, or until somebody says otherwise.
    Pause(Option<Duration>),
    /// To end that.
    Resume,
    /// To let a process alone as long as it lives.
    Ignore(u32),
}

/// What it says to that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// What it does.
    Status(Box<Status>),
    /// It is done; in words.
    Done(String),
    /// It is not, for this reason.
    Refused(String),
}
