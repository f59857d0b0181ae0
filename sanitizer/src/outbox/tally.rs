//! How much there is in an outbox, by indexes: no record is read for it. (Triggers could count, but a database that has some is none of ours: they would be carried out, whoever has put them there.)

use crate::store::connect::Connection;

/// See the module.
pub(super) struct Tally {
    /// Items that are in no message yet.
    pub(super) items: i64,
    /// Events that were not refused.
    pub(super) events: i64,
    /// When the oldest was put in of what is to be sent, milliseconds since 1970.
    pub(super) oldest: Option<i64>,
}

/// What is counted, in the order of [`Tally`]'s fields.
pub(super) const COUNTS: [&str; 2] = [
    "SELECT count(*) FROM item",
    "SELECT count(*) FROM event WHERE refused = 0",
];
/// Bytes of all events.
pub(super) const EVENT_BYTES: &str = "SELECT coalesce(sum(bytes), 0) FROM event";
/// The oldest, each by an index; of messages there is one at most.
pub(super) const OLDEST: [&str; 3] = [
    "SELECT min(put) FROM item",
    "SELECT min(put) FROM event WHERE refused = 0",
    "SELECT min(put) FROM message",
];

/// Bytes of all events.
pub(super) async fn event_bytes(connection: &mut Connection) -> sqlx::Result<i64> {
    sqlx::query_scalar(EVENT_BYTES).fetch_one(connection).await
}

impl Tally {
    pub(super) async fn of(connection: &mut Connection) -> sqlx::Result<Self> {
        let mut counts = [0; COUNTS.len()];
        for (count, statement) in counts.iter_mut().zip(COUNTS) {
            *count = sqlx::query_scalar(statement)
                .fetch_one(&mut *connection)
                .await?;
        }
        let [items, events] = counts;
        let mut oldest: Option<i64> = None;
        for statement in OLDEST {
            let put: Option<i64> = sqlx::query_scalar(statement)
                .fetch_one(&mut *connection)
                .await?;
            oldest = oldest.into_iter().chain(put).min();
        }
        Ok(Self {
            items,
            events,
            oldest,
        })
    }
}
