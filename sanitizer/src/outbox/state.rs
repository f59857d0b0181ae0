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
    /// Messages that were taken.
    pub(super) taken: i64,
    /// Messages that never will be.
    pub(super) refused: i64,
}

type Row = (String, i64, i64, i64, i64, i64, i64, i64, i64);

impl State {
    pub(super) async fn load(connection: &mut Connection) -> sqlx::Result<Self> {
        let row: Row = sqlx::query_as(
            "SELECT sender, item, sequence, bytes, evidence, repeats, sightings, taken, refused FROM state",
        )
        .fetch_one(connection)
        .await?;
        let (sender, item, sequence, bytes, evidence, repeats, sightings, taken, refused) = row;
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
            taken,
            refused,
        })
    }

    pub(super) async fn save(&self, connection: &mut Connection) -> sqlx::Result<()> {
        sqlx::query(
            "UPDATE state SET item = $1, sequence = $2, bytes = $3, evidence = $4, repeats = $5, sightings = $6, taken = $7, refused = $8",
        )
        .bind(self.item)
        .bind(self.sequence)
        .bind(self.bytes)
        .bind(self.lost.evidence.cast_signed())
        .bind(self.lost.repeats.cast_signed())
        .bind(self.lost.sightings.cast_signed())
        .bind(self.taken)
        .bind(self.refused)
        .execute(connection)
        .await
        .map(drop)
    }

    /// Something of a class is dropped.
    pub(super) fn lose(&mut self, class: Class, weight: i64) {
        let lost = match class {
            Class::Evidence => &mut self.lost.evidence,
            Class::Repeats => &mut self.lost.repeats,
            Class::Sightings => &mut self.lost.sightings,
        };
        *lost = lost.saturating_add(weight.max(0).cast_unsigned());
    }
}
