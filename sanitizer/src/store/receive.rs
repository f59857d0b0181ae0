//! Taking what hosts send, each message once, however often it comes.
//!
//! Of a sender the highest number is kept that has come, and the gaps below it: messages come in their order but for a few, so that there are no more gaps than there were times at which messages
//! were dropped.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{
    SCHEMA, Store,
    batch::{Batch, MOST_TIMES},
    connect::{Connection, begin},
    error::StoreError,
    learned::add_all,
    write::put_all,
};
use crate::learned::Learned;

/// Gaps of a sender that are kept: the highest ones. What is in the others will not come any more.
const MOST_GAPS: i64 = 1000;

/// How much of each kind a sender has dropped since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lost {
    /// Records of races of which another one was sent.
    pub evidence: u64,
    /// Counts of races that were caught again.
    pub repeats: u64,
    /// First records of races.
    pub sightings: u64,
}

/// By what a message is known when it comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp<'a> {
    /// Who has sent it.
    pub sender: &'a str,
    /// Its number, from 1.
    pub sequence: u64,
    /// What the sender has dropped before it.
    pub lost: Lost,
}

/// What has become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It was written.
    New {
        /// Records that were not there yet.
        records: usize,
        /// Times that were counted of races that the store has not.
        passed_over: u64,
    },
    /// It had come before, and changes nothing.
    Before,
}

/// Somebody who has sent messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// As in its messages.
    pub id: String,
    /// The machine; empty where no message has named it.
    pub host: String,
    /// When its first message came, milliseconds since 1970.
    pub first_seen: i64,
    /// When its last one came.
    pub last_seen: i64,
    /// Messages that were taken.
    pub messages: i64,
    /// Messages that have not come, of those below the highest number.
    pub missing: i64,
    /// What it has dropped, by what it says.
    pub lost: Lost,
    /// Times that were counted of races that the store had not.
    pub passed_over: i64,
}

type SenderRow = (String, String, i64, i64, i64, i64, i64, i64, i64);

impl Store {
    /// Writes what a message has, unless it had come before; all or nothing. It came at the time `now`.
    ///
    /// # Errors
    /// The store cannot be written to, and has nothing of it.
    pub fn receive(
        &mut self,
        stamp: &Stamp<'_>,
        batch: &Batch,
        now: i64,
    ) -> Result<Received, StoreError> {
        self.receive_all(stamp, batch, &[], now)
    }

    /// The same of one that has also what its host has learned, of which it was checked that it can be.
    ///
    /// # Errors
    /// As with [`Self::receive`].
    pub fn receive_all(
        &mut self,
        stamp: &Stamp<'_>,
        batch: &Batch,
        learned: &[Learned],
        now: i64,
    ) -> Result<Received, StoreError> {
        self.database.leave_moved();
        let received = self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            enroll(&mut all, stamp.sender, now).await?;
            if !take_number(&mut all, stamp.sender, number(stamp.sequence)).await? {
                all.rollback().await?;
                return Ok(Received::Before);
            }
            let written = put_all(&mut all, batch).await?;
            add_all(&mut all, learned, now).await?;
            note(&mut all, stamp, host_of(batch), written.passed_over, now).await?;
            all.commit().await?;
            Ok(Received::New {
                records: written.records,
                passed_over: written.passed_over,
            })
        })?;
        self.arrange(now);
        Ok(received)
    }

    /// Forgets a sender who sends nothing more: what he has sent stays, and would count twice if it came again.
    ///
    /// # Errors
    /// The store cannot be written to, and knows him still.
    pub fn forget_sender(&mut self, sender: &str) -> Result<(), StoreError> {
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            for sql in [
                "DELETE FROM gap WHERE sender = $1",
                "DELETE FROM sender WHERE id = $1",
            ] {
                sqlx::query(sql).bind(sender).execute(&mut *all).await?;
            }
            all.commit().await
        })
    }

    /// All who have sent messages, the one that was heard of last first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn senders(&mut self) -> Result<Vec<Sender>, StoreError> {
        self.with(async |connection| {
            let gaps: Vec<(String, i64, i64)> =
                sqlx::query_as("SELECT sender, low, high FROM gap")
                    .fetch_all(&mut *connection)
                    .await?;
            let mut missing: HashMap<String, i64> = HashMap::new();
            for (sender, low, high) in gaps {
                let all = missing.entry(sender).or_default();
                *all = all.saturating_add(high.saturating_sub(low).saturating_add(1));
            }
            let rows: Vec<SenderRow> = sqlx::query_as(
                "SELECT id, host, first_seen, last_seen, messages, lost_evidence, lost_repeats, lost_sightings, passed_over
                 FROM sender ORDER BY last_seen DESC, id",
            )
            .fetch_all(connection)
            .await?;
            let senders = rows.into_iter().map(|row| {
                let (id, host, first_seen, last_seen, messages, evidence, repeats, sightings, passed_over) = row;
                Sender {
                    missing: missing.remove(&id).unwrap_or_default(),
                    id,
                    host,
                    first_seen,
                    last_seen,
                    messages,
                    lost: Lost {
                        evidence: evidence.cast_unsigned(),
                        repeats: repeats.cast_unsigned(),
                        sightings: sightings.cast_unsigned(),
                    },
                    passed_over,
                }
            });
            Ok(senders.collect())
        })
    }
}

/// A number as databases have them.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The machine that a batch comes from.
fn host_of(batch: &Batch) -> &str {
    let caught = batch.caught.iter().map(|caught| &caught.place);
    let counted = batch.counted.iter().map(|counted| &counted.place);
    let mut hosts = caught.chain(counted).map(|place| &*place.host);
    hosts.find(|host| !host.is_empty()).unwrap_or_default()
}

/// A sender has a row from now on, which is ours until the transaction ends.
async fn enroll(connection: &mut Connection, sender: &str, now: i64) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO sender (id, host, first_seen, last_seen, highest, messages, lost_evidence, lost_repeats, lost_sightings, passed_over)
         VALUES ($1, '', $2, $2, 0, 0, 0, 0, 0, 0)
         ON CONFLICT (id) DO UPDATE SET messages = sender.messages",
    )
    .bind(sender)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// A message of this number has come; whether none had before.
async fn take_number(connection: &mut Connection, sender: &str, number: i64) -> sqlx::Result<bool> {
    let highest: i64 = sqlx::query_scalar("SELECT highest FROM sender WHERE id = $1")
        .bind(sender)
        .fetch_one(&mut *connection)
        .await?;
    if number > highest {
        sqlx::query("UPDATE sender SET highest = $2 WHERE id = $1")
            .bind(sender)
            .bind(number)
            .execute(&mut *connection)
            .await?;
        leave_gap(connection, sender, highest + 1, number - 1).await?;
        return Ok(true);
    }
    let gap: Option<(i64, i64)> =
        sqlx::query_as("SELECT low, high FROM gap WHERE sender = $1 AND low <= $2 AND high >= $2")
            .bind(sender)
            .bind(number)
            .fetch_optional(&mut *connection)
            .await?;
    let Some((low, high)) = gap else {
        return Ok(false);
    };
    sqlx::query("DELETE FROM gap WHERE sender = $1 AND low = $2")
        .bind(sender)
        .bind(low)
        .execute(&mut *connection)
        .await?;
    leave_gap(connection, sender, low, number - 1).await?;
    leave_gap(connection, sender, number + 1, high).await?;
    Ok(true)
}

/// These numbers, if they are any, have not come; the lowest of too many gaps are forgotten.
async fn leave_gap(
    connection: &mut Connection,
    sender: &str,
    low: i64,
    high: i64,
) -> sqlx::Result<()> {
    if low > high {
        return Ok(());
    }
    sqlx::query("INSERT INTO gap (sender, low, high) VALUES ($1, $2, $3)")
        .bind(sender)
        .bind(low)
        .bind(high)
        .execute(&mut *connection)
        .await?;
    sqlx::query(
        "DELETE FROM gap WHERE sender = $1 AND low NOT IN
             (SELECT low FROM gap WHERE sender = $1 ORDER BY low DESC LIMIT $2)",
    )
    .bind(sender)
    .bind(MOST_GAPS)
    .execute(connection)
    .await?;
    Ok(())
}

/// Puts down what a message that was written says of its sender. Messages may come in another order: what was lost only grows.
async fn note(
    connection: &mut Connection,
    stamp: &Stamp<'_>,
    host: &str,
    passed_over: u64,
    now: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE sender SET
             host = CASE WHEN $2 = '' THEN host ELSE $2 END,
             last_seen = CASE WHEN $3 > last_seen THEN $3 ELSE last_seen END,
             messages = messages + 1,
             lost_evidence = CASE WHEN $4 > lost_evidence THEN $4 ELSE lost_evidence END,
             lost_repeats = CASE WHEN $5 > lost_repeats THEN $5 ELSE lost_repeats END,
             lost_sightings = CASE WHEN $6 > lost_sightings THEN $6 ELSE lost_sightings END,
             passed_over = passed_over + $7
         WHERE id = $1",
    )
    .bind(stamp.sender)
    .bind(host)
    .bind(now)
    .bind(number(stamp.lost.evidence))
    .bind(number(stamp.lost.repeats))
    .bind(number(stamp.lost.sightings))
    .bind(number(passed_over).min(MOST_TIMES))
    .execute(connection)
    .await?;
    Ok(())
}
