//! What there is to say of an outbox.

use serde::{Deserialize, Serialize};

use super::{Outbox, state::State};
use crate::store::StoreError;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figures {
    /// What collectors know it by: 32 hexadecimal digits.
    pub sender: String,
    /// The collector: scheme, host and port.
    pub collector: String,
    /// What is kept, bytes.
    pub bytes: u64,
    /// What may be kept, bytes.
    pub most_bytes: u64,
    /// Items that are in no message yet: races, how often they were caught again, programs.
    pub items: u64,
    /// The number of the message that is being sent.
    pub sending: Option<u64>,
    /// Messages that were taken.
    pub taken: u64,
    /// Messages that the collector will never take.
    pub refused: u64,
    /// Records of races of which another one was kept, that were dropped since there was no room.
    pub lost_evidence: u64,
    /// The same for how often something was seen again.
    pub lost_repeats: u64,
    /// The same for first records of races and first sights of programs.
    pub lost_sightings: u64,
    /// Why the last message was not taken; nothing where it was.
    pub failing: Option<String>,
}

impl Outbox {
    /// Looks at it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn figures(&mut self) -> Result<Figures, StoreError> {
        let most_bytes = self.most;
        self.with(async |connection| {
            let state = State::load(connection).await?;
            let items: i64 = sqlx::query_scalar("SELECT count(*) FROM item")
                .fetch_one(&mut *connection)
                .await?;
            let sending: Option<i64> = sqlx::query_scalar("SELECT min(sequence) FROM message")
                .fetch_one(connection)
                .await?;
            Ok(Figures {
                sender: state.sender,
                collector: String::new(),
                bytes: state.bytes.max(0).cast_unsigned(),
                most_bytes,
                items: items.cast_unsigned(),
                sending: sending.map(i64::cast_unsigned),
                taken: state.taken.cast_unsigned(),
                refused: state.refused.cast_unsigned(),
                lost_evidence: state.lost.evidence,
                lost_repeats: state.lost.repeats,
                lost_sightings: state.lost.sightings,
                failing: None,
            })
        })
    }
}
