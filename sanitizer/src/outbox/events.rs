//! What a collector of OpenTelemetry is to be told: an event for each race of a build that the agent had not heard of. They wait in a queue of their own, and neither make room for messages nor take theirs.

use std::time::SystemTime;

use crate::store::connect::Connection;

use super::{
    Outbox, SCHEMA,
    item::digest,
    items::{forget, is_news},
    state::State,
    tally::event_bytes,
};
use crate::{
    otlp::{event, events, is_event},
    store::{Caught, StoreError, connect::begin, millis},
};

/// Bytes of all that wait: some thousands.
pub(super) const MOST_BYTES: i64 = 4 << 20;
/// Bytes that are sent at once, but for the last one.
const MOST_SENT: usize = 256 << 10;

/// Events that are sent at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    /// The number of the last one.
    pub last: i64,
    /// How many they are.
    pub count: usize,
    /// Those of them that are none any more, which are not sent.
    pub damaged: u64,
    /// The request.
    pub body: String,
}

/// Counts a race that was handed over, and puts an event into the queue where it is a new one and somebody wants that.
pub(super) async fn note(
    connection: &mut Connection,
    state: &mut State,
    caught: &Caught,
    is_wanted: bool,
) -> sqlx::Result<()> {
    let subject = digest(&["event", &caught.race.identity.race, &caught.race.build()]);
    if !is_news(connection, state, &subject).await? {
        return Ok(());
    }
    state.races += 1;
    // What is known is forgotten by these numbers, also where nothing else is put in.
    let id = state.item;
    state.item += 1;
    if !is_wanted {
        return Ok(());
    }
    let now = millis(SystemTime::now());
    let record = event(caught, &format!("{}-{id}", state.sender), now);
    let bytes = i64::try_from(record.len()).unwrap_or(i64::MAX);
    if !has_room(connection, bytes).await? {
        state.events_lost += 1;
        // Told of again when there is room, it is an event.
        return forget(connection, &subject).await;
    }
    sqlx::query("INSERT INTO event (id, put, record, bytes) VALUES ($1, $2, $3, $4)")
        .bind(id)
        .bind(now)
        .bind(record)
        .bind(bytes)
        .execute(connection)
        .await
        .map(drop)
}

/// Whether so many bytes more may wait; what was refused makes room.
async fn has_room(connection: &mut Connection, bytes: i64) -> sqlx::Result<bool> {
    let waiting = event_bytes(connection).await?;
    if waiting.saturating_add(bytes) <= MOST_BYTES {
        return Ok(true);
    }
    sqlx::query("DELETE FROM event WHERE refused = 1")
        .execute(&mut *connection)
        .await?;
    let waiting = event_bytes(connection).await?;
    Ok(waiting.saturating_add(bytes) <= MOST_BYTES)
}

/// What was refused is sent again: the agent was started anew.
pub(super) async fn send_again(connection: &mut Connection) -> sqlx::Result<()> {
    sqlx::query("UPDATE event SET refused = 0 WHERE refused = 1")
        .execute(connection)
        .await
        .map(drop)
}

impl Outbox {
    /// The oldest events, so many at most; nothing where none wait.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub fn events(&mut self, most: usize) -> Result<Option<Events>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.with(async |connection| {
            let rows: Vec<(i64, String)> = sqlx::query_as(
                "SELECT id, record FROM event WHERE refused = 0 ORDER BY id LIMIT $1",
            )
            .bind(most)
            .fetch_all(connection)
            .await?;
            let mut sent = Vec::new();
            let (mut last, mut count, mut damaged, mut bytes) = (None, 0, 0, 0);
            for (id, record) in rows {
                if bytes > MOST_SENT {
                    break;
                }
                bytes += record.len();
                (last, count) = (Some(id), count + 1);
                // What the disk has changed would have all of them refused.
                if is_event(&record) {
                    sent.push(record);
                } else {
                    damaged += 1;
                }
            }
            Ok(last.map(|last| Events {
                last,
                count,
                damaged,
                body: events(&sent),
            }))
        })
    }

    /// Events were taken, up to this one; so many of them were thrown away by whoever has taken them.
    ///
    /// # Errors
    /// The outbox cannot be written to: they will be sent again.
    pub fn events_taken(&mut self, last: i64, rejected: u64) -> Result<(), StoreError> {
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            let mut state = State::load(&mut all).await?;
            let gone = delete(&mut all, last).await?;
            let rejected = i64::try_from(rejected).unwrap_or(i64::MAX).min(gone);
            state.events_taken += gone - rejected;
            state.events_refused += rejected;
            state.save(&mut all).await?;
            all.commit().await
        })
    }

    /// Events up to this one were refused: they are not sent again before the agent is started anew.
    ///
    /// # Errors
    /// The outbox cannot be written to: they will be sent again.
    pub fn events_refused(&mut self, last: i64) -> Result<(), StoreError> {
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            let mut state = State::load(&mut all).await?;
            let refused =
                sqlx::query("UPDATE event SET refused = 1 WHERE id <= $1 AND refused = 0")
                    .bind(last)
                    .execute(&mut *all)
                    .await?;
            state.events_refused += refused.rows_affected().cast_signed();
            state.save(&mut all).await?;
            all.commit().await
        })
    }
}

/// Takes events out up to this one; how many.
async fn delete(connection: &mut Connection, last: i64) -> sqlx::Result<i64> {
    let gone = sqlx::query("DELETE FROM event WHERE id <= $1 AND refused = 0")
        .bind(last)
        .execute(connection)
        .await?;
    Ok(gone.rows_affected().cast_signed())
}
