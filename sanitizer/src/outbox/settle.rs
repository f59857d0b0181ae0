//! What becomes of a message that was answered.

use std::time::SystemTime;

use crate::store::connect::Connection;

use super::{Outbox, SCHEMA, state::State};
use crate::store::{StoreError, connect::begin, millis};

/// Messages that will never be taken, and their bytes: the newest are kept.
pub(super) const MOST_REFUSED: i64 = 64;
const MOST_BYTES: i64 = 4 << 20;

impl Outbox {
    /// A message was taken: it is kept no longer.
    ///
    /// # Errors
    /// The outbox cannot be written to: it will be sent again.
    pub fn taken(&mut self, sequence: u64) -> Result<(), StoreError> {
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            let mut state = State::load(&mut all).await?;
            if remove(&mut all, &mut state, sequence.cast_signed())
                .await?
                .is_some()
            {
                state.taken += 1;
            }
            state.save(&mut all).await?;
            all.commit().await
        })
    }

    /// A message will never be taken: it is set aside.
    ///
    /// # Errors
    /// The outbox cannot be written to: it will be sent again.
    pub fn set_aside(&mut self, sequence: u64, why: &str) -> Result<(), StoreError> {
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            let mut state = State::load(&mut all).await?;
            let sequence = sequence.cast_signed();
            if let Some(body) = remove(&mut all, &mut state, sequence).await? {
                refuse(&mut all, &mut state, sequence, why, &body).await?;
            }
            state.save(&mut all).await?;
            all.commit().await
        })
    }
}

/// Takes a message out; what it was.
async fn remove(
    connection: &mut Connection,
    state: &mut State,
    sequence: i64,
) -> sqlx::Result<Option<Vec<u8>>> {
    let body: Option<Vec<u8>> = sqlx::query_scalar("SELECT body FROM message WHERE sequence = $1")
        .bind(sequence)
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(body) = &body {
        sqlx::query("DELETE FROM message WHERE sequence = $1")
            .bind(sequence)
            .execute(connection)
            .await?;
        state.bytes -= i64::try_from(body.len()).unwrap_or(i64::MAX);
    }
    Ok(body)
}

/// Puts a message with those that will never be taken.
pub(super) async fn refuse(
    connection: &mut Connection,
    state: &mut State,
    sequence: i64,
    why: &str,
    body: &[u8],
) -> sqlx::Result<()> {
    state.refused += 1;
    sqlx::query("INSERT INTO refused (sequence, refused, why, body) VALUES ($1, $2, $3, $4)")
        .bind(sequence)
        .bind(millis(SystemTime::now()))
        .bind(why)
        .bind(body)
        .execute(&mut *connection)
        .await?;
    loop {
        let (count, bytes): (i64, i64) =
            sqlx::query_as("SELECT count(*), coalesce(sum(length(body)), 0) FROM refused")
                .fetch_one(&mut *connection)
                .await?;
        if count <= MOST_REFUSED && bytes <= MOST_BYTES {
            return Ok(());
        }
        sqlx::query("DELETE FROM refused WHERE sequence = (SELECT min(sequence) FROM refused)")
            .execute(&mut *connection)
            .await?;
    }
}
