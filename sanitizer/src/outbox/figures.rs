//! What there is to say of an outbox.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{DaemonFigures, Outbox, daemon::done, state::State, tally::Tally};
use crate::store::{StoreError, millis, rfc3339};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figures {
    /// What collectors know it by: 32 hexadecimal digits.
    pub sender: String,
    /// The collector: scheme, host and port; empty where there is none.
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
    /// Messages that were not taken when the configuration named no collector any more.
    pub messages_lost: u64,
    /// Records of races of which another one was kept, that were dropped since there was no room, or nobody any more who takes them.
    pub lost_evidence: u64,
    /// The same for how often something was seen again.
    pub lost_repeats: u64,
    /// The same for first records of races and first sights of programs.
    pub lost_sightings: u64,
    /// The same for what was learned of functions, by their number.
    pub lost_learning: u64,
    /// What was let go, since the configuration named nobody any more who takes it: items (which `lost_*` have as well), messages (`messages_lost`) and events (`events_lost`).
    pub let_go: u64,
    /// Why the last message was not taken; nothing where it was.
    pub failing: Option<String>,
    /// Since when is counted, RFC 3339 in UTC: when the outbox was made, or got these counts.
    pub since: String,
    /// Since how many seconds the oldest of what is kept is there.
    pub oldest_s: Option<u64>,
    /// Races of builds that were handed over as new ones.
    pub races: u64,
    /// How often races were caught.
    pub caught: u64,
    /// The collector of OpenTelemetry: scheme, host and port.
    pub otlp: Option<String>,
    /// Events that it was not told yet.
    pub events_waiting: u64,
    /// Events that it has taken.
    pub events_taken: u64,
    /// Events that it has not: they are not sent again before the agent is started anew.
    pub events_refused: u64,
    /// Events for which there was no room, or nobody any more.
    pub events_lost: u64,
    /// What daemons of this machine have done since then, as far as they have told it; nothing where none has.
    pub daemon: Option<DaemonFigures>,
    /// Why it has not taken the last events; nothing where it has.
    pub events_failing: Option<String>,
    /// The same of figures.
    pub metrics_failing: Option<String>,
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
            let Tally {
                items,
                events,
                oldest,
                ..
            } = Tally::of(connection).await?;
            let sending: Option<i64> = sqlx::query_scalar("SELECT min(sequence) FROM message")
                .fetch_one(&mut *connection)
                .await?;
            let daemon = done(connection).await?;
            let now = millis(SystemTime::now());
            let age = oldest.map(|put| now.saturating_sub(put).max(0) / 1000);
            Ok(Figures {
                sender: state.sender,
                bytes: state.bytes.max(0).cast_unsigned(),
                most_bytes,
                items: items.cast_unsigned(),
                sending: sending.map(i64::cast_unsigned),
                taken: state.taken.cast_unsigned(),
                refused: state.refused.cast_unsigned(),
                messages_lost: state.messages_lost.cast_unsigned(),
                let_go: state.let_go.cast_unsigned(),
                lost_evidence: state.lost.evidence,
                lost_repeats: state.lost.repeats,
                lost_sightings: state.lost.sightings,
                lost_learning: state.learning.max(0).cast_unsigned(),
                since: rfc3339(state.began),
                oldest_s: age.map(i64::cast_unsigned),
                races: state.races.cast_unsigned(),
                caught: state.caught.cast_unsigned(),
                events_waiting: events.cast_unsigned(),
                events_taken: state.events_taken.cast_unsigned(),
                events_refused: state.events_refused.cast_unsigned(),
                events_lost: state.events_lost.cast_unsigned(),
                daemon,
                // Who sends knows the rest.
                ..Figures::default()
            })
        })
    }
}
