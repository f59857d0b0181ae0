//! Putting items into messages.

use crate::store::connect::Connection;

use super::{
    Outbox, SCHEMA,
    item::{Class, Item},
    items::{Row, best, remove},
    settle::refuse,
    state::State,
};
use crate::{
    delivery::Message,
    learned::MOST_LEARNED,
    store::{Batch, StoreError, connect::begin},
};

/// Records of a message together, bytes: packed, they are fewer.
pub(super) const MOST_RECORDS: i64 = 1 << 20;
/// Items of a message.
const MOST_ITEMS: i64 = 500;
/// A message that is sent, bytes. One record that has more is for nobody.
pub(super) const LONGEST: usize = 1 << 20;

/// A message as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its number.
    pub sequence: u64,
    /// Its bytes.
    pub body: Vec<u8>,
}

impl Outbox {
    /// The message that is to be sent now: the one that was not taken yet, or a new one; nothing where there is nothing to send.
    ///
    /// # Errors
    /// The outbox cannot be written to.
    pub fn message(&mut self) -> Result<Option<Sealed>, StoreError> {
        self.with(async |connection| {
            loop {
                let mut all = begin(connection, &SCHEMA).await?;
                let sealed = sealed(&mut all).await?;
                let chosen = match sealed {
                    Some(_) => Vec::new(),
                    None => chosen(&mut all).await?,
                };
                if chosen.is_empty() {
                    all.rollback().await?;
                    return Ok(sealed);
                }
                let mut state = State::load(&mut all).await?;
                seal(&mut all, &mut state, &chosen).await?;
                state.save(&mut all).await?;
                all.commit().await?;
            }
        })
    }
}

/// The message that was not taken yet.
async fn sealed(connection: &mut Connection) -> sqlx::Result<Option<Sealed>> {
    let message: Option<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT sequence, body FROM message ORDER BY sequence LIMIT 1")
            .fetch_optional(connection)
            .await?;
    Ok(message.map(|(sequence, body)| Sealed {
        sequence: sequence.cast_unsigned(),
        body,
    }))
}

/// The items of the next message. What was learned has messages of its own: should a collector refuse one, nothing else is in it.
async fn chosen(connection: &mut Connection) -> sqlx::Result<Vec<Row>> {
    let mut chosen = best(connection, MOST_ITEMS).await?;
    let others = chosen.iter().take_while(|row| row.class != Class::Learning);
    match others.count() {
        0 => chosen.truncate(MOST_LEARNED),
        others => chosen.truncate(others),
    }
    let mut bytes = 0;
    let mut fit = 0;
    for row in &chosen {
        bytes += row.bytes;
        if fit > 0 && bytes > MOST_RECORDS {
            break;
        }
        fit += 1;
    }
    chosen.truncate(fit);
    Ok(chosen)
}

/// Makes a message of items; none where there is nothing in them.
async fn seal(connection: &mut Connection, state: &mut State, items: &[Row]) -> sqlx::Result<()> {
    let mut batch = Batch::default();
    let mut learned = Vec::new();
    for row in items {
        remove(connection, state, row).await?;
        match Item::read(&row.record) {
            Some(Item::Caught(caught)) => batch.caught.push(*caught),
            Some(Item::Counted(counted)) => batch.counted.push(counted),
            Some(Item::Seen(seen)) => batch.builds.push(seen),
            Some(Item::Learned(more)) => learned.push(more),
            None => state.lose(row.class, row.weight),
        }
    }
    if batch.is_empty() && learned.is_empty() {
        return Ok(());
    }
    let message = Message {
        sender: state.sender.clone(),
        sequence: state.sequence.cast_unsigned(),
        lost: state.lost,
        batch,
        learned,
    };
    let body = message.encode();
    let sequence = state.sequence;
    state.sequence += 1;
    if body.len() > LONGEST {
        let why = format!("it has {} bytes, and may have {LONGEST}", body.len());
        return refuse(connection, state, sequence, &why, &body).await;
    }
    state.bytes += i64::try_from(body.len()).unwrap_or(i64::MAX);
    let oldest = items.iter().map(|row| row.put).min();
    sqlx::query("INSERT INTO message (sequence, body, put) VALUES ($1, $2, $3)")
        .bind(sequence)
        .bind(body)
        .bind(oldest.unwrap_or_default())
        .execute(connection)
        .await
        .map(drop)
}
