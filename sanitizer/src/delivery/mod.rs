//! What hosts send to a common store: messages, each a batch of races with a number by which it is known when it comes again.
//!
//! A host keeps a [`Message`] until it was answered, and sends it again until then; [`Store::receive`](crate::store::Store::receive) takes each once. So nothing is counted twice, and what a host
//! had to drop is told in the messages that come after it ([`Lost`]).

mod bounds;
mod message;
#[cfg(test)]
mod tests;

pub use crate::store::Lost;
pub use bounds::Exceeded;
pub use message::{MOST_UNPACKED, Message, MessageError};
