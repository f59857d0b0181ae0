//! A message: JSON in a frame of Zstandard (RFC 8878), sent by `POST /v1/messages` with `Content-Encoding: zstd`. Whoever takes it trusts nothing in it.

use std::{cmp::Ordering, io};

use serde::{Deserialize, Serialize};

use super::{
    bounds::{self, Exceeded},
    packed::{Packed, pack, unpack},
};
use crate::{
    learned::{self, Learned, Unfit},
    store::{Batch, Lost, Stamp, Unsound},
};

/// The version of the form. It counts incompatible changes; what is added may be left out, and what is not known is passed over.
const SCHEMA: u32 = 1;
/// Hexadecimal digits of a sender.
const DIGITS: usize = 32;
/// Bytes of a message that is unpacked, unless whoever takes it wants otherwise.
pub const MOST_UNPACKED: usize = 16 << 20;

/// What a host sends at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who sends it: 32 hexadecimal digits, drawn when a host began to keep messages.
    pub sender: String,
    /// The number of the message, from 1; one that never comes was dropped.
    pub sequence: u64,
    /// What the sender has dropped since it began.
    #[serde(default)]
    pub lost: Lost,
    /// What is to be written.
    pub batch: Batch,
    /// What the sender has learned of functions since it told that last. A collector that knows nothing of it takes the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<Learned>,
}

/// A message as it is written.
#[derive(Serialize)]
struct Versioned<'a> {
    schema: u32,
    #[serde(flatten)]
    message: &'a Message,
}

/// Which form a message has.
#[derive(Deserialize)]
struct Form {
    schema: u32,
}

/// Why something is no message. It never will be one: to send it again is of no use.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It cannot be unpacked.
    #[error("the message is not packed by zstd as one frame ({0}); send it as gwp-race does")]
    Packed(io::Error),
    /// It has too many bytes.
    #[error(
        "the message has more than {0} bytes, unpacked; send less at once, or let the receiver take more"
    )]
    TooLarge(usize),
    /// It is no JSON, or not that of a message.
    #[error("the message is not the JSON of one ({0}); send it as gwp-race does")]
    Json(serde_json::Error),
    /// It is one of a newer version.
    #[error(
        "the message has the form {0}, and this gwp-race takes the form {SCHEMA}; update this one, until when the other one keeps its messages"
    )]
    Newer(u32),
    /// It is one of a version that is taken no more.
    #[error(
        "the message has the form {0}, and this gwp-race takes the form {SCHEMA}; have the same version of gwp-race on both sides"
    )]
    Older(u32),
    /// It has more than any message has.
    #[error("the message is refused: {0}; send it as gwp-race does")]
    Bounds(#[from] Exceeded),
    /// Its sender or its numbers are none.
    #[error("the message has {0}; send it as gwp-race does")]
    Stamp(&'static str),
    /// What is in it cannot be written to a store.
    #[error("the message is refused: {0}; have the same version of gwp-race on both sides")]
    Batch(#[from] Unsound),
    /// What was learned, by what it says, nobody can have learned.
    #[error("the message is refused: {0}; have the same version of gwp-race on both sides")]
    Learned(#[from] Unfit),
}

impl From<Packed> for MessageError {
    fn from(error: Packed) -> Self {
        match error {
            Packed::Frame(error) => Self::Packed(error),
            Packed::TooLarge(most) => Self::TooLarge(most),
        }
    }
}

impl MessageError {
    /// The status of HTTP by which it is answered.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Packed(_) | Self::Json(_) => 400,
            Self::TooLarge(_) => 413,
            // "Upgrade Required" (RFC 9110): who is older is to be updated, and nothing is wrong with the message.
            Self::Newer(_) => 426,
            Self::Older(_)
            | Self::Bounds(_)
            | Self::Stamp(_)
            | Self::Batch(_)
            | Self::Learned(_) => 422,
        }
    }
}

impl Message {
    /// As it is sent.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let versioned = Versioned {
            schema: SCHEMA,
            message: self,
        };
        // Only maps whose keys are no texts cannot be written, and it has none.
        let json = serde_json::to_vec(&versioned).unwrap_or_default();
        pack(&json)
    }

    /// Reads one, which may have `most` bytes when it is unpacked.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(body: &[u8], most: usize) -> Result<Self, MessageError> {
        Self::of_json(&unpack(body, most)?)
    }

    /// Reads one that is unpacked.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn of_json(json: &[u8]) -> Result<Self, MessageError> {
        bounds::check(json)?;
        let form: Form = serde_json::from_slice(json).map_err(MessageError::Json)?;
        match form.schema.cmp(&SCHEMA) {
            Ordering::Greater => return Err(MessageError::Newer(form.schema)),
            Ordering::Less => return Err(MessageError::Older(form.schema)),
            Ordering::Equal => {}
        }
        let message: Self = serde_json::from_slice(json).map_err(MessageError::Json)?;
        message.check()?;
        Ok(message)
    }

    /// Lets nothing be later than this: the clock of another machine may be wrong.
    pub fn end_at(&mut self, now: i64) {
        self.batch.end_at(now);
        for learned in &mut self.learned {
            learned.end_at(now);
        }
    }

    /// By what it is known when it comes again.
    #[must_use]
    pub fn stamp(&self) -> Stamp<'_> {
        Stamp {
            sender: &self.sender,
            sequence: self.sequence,
            lost: self.lost,
        }
    }

    fn check(&self) -> Result<(), MessageError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if self.sender.len() != DIGITS || !self.sender.bytes().all(is_digit) {
            return Err(MessageError::Stamp(
                "a sender that is not 32 hexadecimal digits",
            ));
        }
        let is_stored = |number: u64| i64::try_from(number).is_ok();
        if self.sequence == 0 || !is_stored(self.sequence) {
            return Err(MessageError::Stamp(
                "a number that is not between 1 and 2^63",
            ));
        }
        let lost = [self.lost.evidence, self.lost.repeats, self.lost.sightings];
        if !lost.into_iter().all(is_stored) {
            return Err(MessageError::Stamp("losses of 2^63 or more"));
        }
        self.batch.check()?;
        Ok(learned::check(&self.learned)?)
    }
}
