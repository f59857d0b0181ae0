//! What hosts send to a common store: messages, each a batch of races with a number by which it is known when it comes again; and what takes them.
//!
//! A host keeps a [`Message`] until it was answered, and sends it again until then; [`Store::receive`](crate::store::Store::receive) takes each once. So nothing is counted twice, and what a host
//! had to drop is told in the messages that come after it ([`Lost`]). The [`router`] answers hosts once what they have sent is in the store, and has a [`Writer`] put it there. What all hosts have learned together they are told in turn ([`hints`]).

mod answer;
mod attempts;
mod bounds;
mod counters;
pub mod hints;
mod intake;
mod message;
mod packed;
#[cfg(test)]
mod tests;
mod tokens;
mod told;
mod writer;

pub use crate::store::Lost;
pub use answer::Answer;
pub use attempts::Attempts;
pub use bounds::Exceeded;
pub use counters::Counters;
pub use intake::{Intake, Peer, router};
pub use message::{MOST_UNPACKED, Message, MessageError};
pub use tokens::Tokens;
pub(crate) use tokens::{Secret, said_lines};
pub use writer::Writer;
