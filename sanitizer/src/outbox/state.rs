//! What an outbox knows of itself.

use crate::store::connect::Connection;

use super::item::Class;
use crate::delivery::Lost;

/// See the module. Read at the beginning of a transaction, and written at its end.
pub(super) struct State {
    /// Of all messages of this outbox, 32 hexadecimal digits.
    pub(super) sender: String,
    /// The number of the next item.
    pub(super) item: i64,
    /// The number of the next message.
    pub(super) sequence: i64,
    /// Of items and messages.
    pub(super) bytes: i64,
    /// What was dropped since the outbox was made.
    pub(super) lost: Lost,
    /// The same of what was learned: functions.
    pub(super) learning: i64,
    /// Messages that were taken.
    pub(super) taken: i64,
    /// Messages that never will be.
    pub(super) refused: i64,
    /// Since when is counted, milliseconds since 1970.
    pub(super) began: i64,
    /// Races of builds that were new ones.
    pub(super) races: i64,
    /// How often races were caught.
    pub(super) caught: i64,
    /// Events that were taken.
    pub(super) events_taken: i64,
    /// Events that never will be.
    pub(super) events_refused: i64,
    /// Events for which there was no room.
    pub(super) events_lost: i64,
    /// Messages that nobody was there for any more.
    pub(super) messages_lost: i64,
    /// All that nobody was there for any more: items, messages, events.
    pub(super) let_go: i64,
}

/// The columns of what is counted.
type Counts = (i64, i64, i64, i64, i64, i64, i64, i64, i64);
type Row = (String, i64, i64, i64, i64, i64, i64, i64, i64);

impl State {
    pub(super) async fn load(connection: &mut Connection) -> sqlx::Result<Self> {
        let row: Row = sqlx::query_as(
            "SELECT sender, item, sequence, bytes, evidence, repeats, sightings, taken, refused FROM state",
        )
        .fetch_one(&mut *connection)
        .await?;
        let counts: Counts = sqlx::query_as(
            "SELECT began, races, caught, events_taken, events_refused, events_lost, messages_lost, let_go, learning FROM state",
        )
        .fetch_one(connection)
        .await?;
        let (sender, item, sequence, bytes, evidence, repeats, sightings, taken, refused) = row;
        let (
            began,
            races,
            caught,
            events_taken,
            events_refused,
            events_lost,
            messages_lost,
            let_go,
            learning,
        ) = counts;
        Ok(Self {
            sender,
            item,
            sequence,
            bytes,
            lost: Lost {
                evidence: evidence.cast_unsigned(),
                repeats: repeats.cast_unsigned(),
                sightings: sightings.cast_unsigned(),
            },
            learning,
            taken,
            refused,
            began,
            races,
            caught,
            events_taken,
            events_refused,
            events_lost,
            messages_lost,
            let_go,
        })
    }

    pub(super) async fn save(&self, connection: &mut Connection) -> sqlx::Result<()> {
        sqlx::query(
            "UPDATE state SET item = $1, sequence = $2, bytes = $3, evidence = $4, repeats = $5, sightings = $6, taken = $7, refused = $8, races = $9, caught = $10, events_taken = $11, events_refused = $12, events_lost = $13, messages_lost = $14, let_go = $15, learning = $16",
        )
        .bind(self.item)
        .bind(self.sequence)
        .bind(self.bytes)
        .bind(self.lost.evidence.cast_signed())
        .bind(self.lost.repeats.cast_signed())
        .bind(self.lost.sightings.cast_signed())
        .bind(self.taken)
        .bind(self.refused)
        .bind(self.races)
        .bind(self.caught)
        .bind(self.events_taken)
        .bind(self.events_refused)
        .bind(self.events_lost)
        .bind(self.messages_lost)
        .bind(self.let_go)
        .bind(self.learning)
        .execute(connection)
        .await
        .map(drop)
    }

    /// A race was caught so often.
    pub(super) fn count(&mut self, times: u64) {
        let times = i64::try_from(times).unwrap_or(i64::MAX);
        self.caught = self.caught.saturating_add(times);
    }

    /// Something of a class is dropped.
    pub(super) fn lose(&mut self, class: Class, weight: i64) {
        let lost = match class {
            Class::Learning => {
                self.learning = self.learning.saturating_add(weight.max(0));
                return;
            }
            Class::Evidence => &mut self.lost.evidence,
            Class::Repeats => &mut self.lost.repeats,
            Class::Sightings => &mut self.lost.sightings,
        };
        *lost = lost.saturating_add(weight.max(0).cast_unsigned());
    }
}
