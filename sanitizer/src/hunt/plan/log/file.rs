//! How a log is written.
//!
//! A line of text, which names the format and its version, then frames. A frame is the length of its body (u32, little-endian) and the body: the id of a process (postcard,
//! <https://postcard.jamesmunns.com/wire-format>) and whole records of its hunt (the same). So several processes can be told of in one file, a frame is written whole or not at
//! all, and whoever has no room for more ends with whole records. Of one process there may be several hunts, one after the other.

use std::{
    fmt::Display,
    io::{self, BufRead, Read as _},
};

use super::Record;

/// What a file begins with.
const NAME: &str = "gwp-race decisions ";
/// Of the format: what can be in a record is part of it.
const VERSION: &str = "5";

/// A body is no longer. The longest record has some 50 KiB, a body as many records as [`BODY`] bytes hold, and one more.
const MOST: usize = 1 << 20;
/// Records are put together up to here.
pub const BODY: usize = 64 << 10;

/// What a file begins with.
#[must_use]
pub fn beginning() -> String {
    format!("{NAME}{VERSION}\n")
}

/// A record, to be put into a body behind others.
///
/// # Errors
/// Fails where it could not be read again: it is too long.
pub fn encode(record: &Record) -> Result<Vec<u8>, postcard::Error> {
    let bytes = postcard::to_allocvec(record)?;
    if bytes.len() > MOST / 2 {
        return Err(postcard::Error::SerializeBufferFull);
    }
    Ok(bytes)
}

/// A frame with records of a process, each as [`encode`] makes it; `None` where there are too many.
#[must_use]
pub fn frame(process: u32, records: &[u8]) -> Option<Vec<u8>> {
    let process = postcard::to_allocvec(&process).ok()?;
    let len = process.len() + records.len();
    if len > MOST {
        return None;
    }
    let prefix = u32::try_from(len).ok()?.to_le_bytes();
    Some([&prefix[..], &process, records].concat())
}

/// Why a log cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file.
    #[error("reading it fails: {0}")]
    Read(#[from] io::Error),
    /// It is something else.
    #[error("it is no decision log; give a file that --decision-log has written")]
    NoLog,
    /// It is of another version.
    #[error(
        "it is a decision log of version {0:?}, and this gwp-race reads version {VERSION}; read it with the gwp-race that has written it"
    )]
    Version(String),
    /// It is damaged.
    #[error("what stands at byte {at} is no record ({why}): the file is damaged from there on")]
    Garbage {
        /// Where its frame begins.
        at: u64,
        /// What is wrong.
        why: String,
    },
}

/// Reads a log: each record, and the process that it is of. Nothing follows an error.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// Where the present frame begins, and the next one.
    at: u64,
    next: u64,
    process: u32,
    /// What is left of the present frame.
    body: Vec<u8>,
    done: usize,
    is_cut: bool,
    is_over: bool,
}

impl<R: BufRead> Reader<R> {
    /// Looks at what a file begins with.
    ///
    /// # Errors
    /// Fails where that is not what a log of this version begins with.
    pub fn new(mut input: R) -> Result<Self, LogError> {
        /// No version is longer.
        const LINE: u64 = NAME.len() as u64 + 20;
        let mut line = Vec::new();
        (&mut input).take(LINE).read_until(b'\n', &mut line)?;
        let version = line.strip_prefix(NAME.as_bytes());
        let version = version.and_then(|version| version.strip_suffix(b"\n"));
        let version = version.and_then(|version| std::str::from_utf8(version).ok());
        match version {
            Some(VERSION) => {}
            Some(other) => return Err(LogError::Version(other.to_owned())),
            None => return Err(LogError::NoLog),
        }
        Ok(Self {
            input,
            at: 0,
            next: line.len() as u64,
            process: 0,
            body: Vec::new(),
            done: 0,
            is_cut: false,
            is_over: false,
        })
    }

    /// Whether the file ended within a frame, once it has ended: who wrote it was killed, or had no room.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn garbage(&self, why: impl Display) -> LogError {
        LogError::Garbage {
            at: self.at,
            why: why.to_string(),
        }
    }

    /// Reads the next frame; false where there is none.
    fn read_frame(&mut self) -> Result<bool, LogError> {
        self.at = self.next;
        let mut prefix = Vec::new();
        (&mut self.input).take(4).read_to_end(&mut prefix)?;
        let Ok(prefix) = <[u8; 4]>::try_from(&prefix[..]) else {
            self.is_cut = !prefix.is_empty();
            return Ok(false);
        };
        let len = u32::from_le_bytes(prefix);
        if len == 0 || len as usize > MOST {
            return Err(self.garbage(format_args!("a frame of {len} bytes")));
        }
        self.body.clear();
        let mut body = (&mut self.input).take(len.into());
        body.read_to_end(&mut self.body)?;
        if self.body.len() < len as usize {
            self.is_cut = true;
            return Ok(false);
        }
        self.next = self.at + 4 + u64::from(len);
        let (process, rest) =
            postcard::take_from_bytes(&self.body).map_err(|error| self.garbage(error))?;
        self.process = process;
        self.done = self.body.len() - rest.len();
        Ok(true)
    }

    fn read(&mut self) -> Result<Option<(u32, Record)>, LogError> {
        while self.done == self.body.len() {
            if !self.read_frame()? {
                return Ok(None);
            }
        }
        let left = self.body.get(self.done..).unwrap_or_default();
        let (record, rest): (Record, _) =
            postcard::take_from_bytes(left).map_err(|error| self.garbage(error))?;
        if !record.is_sound() {
            return Err(self.garbage("its numbers are none that a hunt could have"));
        }
        self.done = self.body.len() - rest.len();
        Ok(Some((self.process, record)))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<(u32, Record), LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let item = self.read().transpose();
        self.is_over = !matches!(item, Some(Ok(_)));
        item
    }
}
