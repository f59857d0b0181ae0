//! How a daemon that runs is asked: by a socket that root and the daemon's own user alone may use.
//!
//! Both sides are the same program: messages are those of [`wire`](crate::hunt::wire), so that whoever has rights reads no text of others.

pub mod client;
pub mod server;
#[cfg(test)]
mod tests;

use std::{io, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use super::status::Status;
use crate::hunt::wire;

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

/// Reads a message of at most so many bytes.
async fn read<T: DeserializeOwned>(stream: &mut UnixStream, longest: usize) -> io::Result<T> {
    let mut buffer = Vec::new();
    loop {
        let decoded = wire::decode(&mut buffer);
        let decoded = decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
        if let Some(message) = decoded? {
            return Ok(message);
        }
        if buffer.len() > longest {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn write(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let frame = wire::encode(message).map_err(io::Error::other)?;
    stream.write_all(&frame).await
}
