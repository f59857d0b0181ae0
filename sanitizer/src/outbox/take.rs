//! Taking in what is handed over.

use crate::store::connect::Connection;

use super::{Outbox, SCHEMA, bound::keep, events::note, item::Item, items::put, state::State};
use crate::{
    delivery::{Lost, Message},
    store::{Batch, StoreError, connect::begin},
};

/// Givers that are known: those that have handed something over last. Each start of a daemon is one.
const MOST_GIVERS: i64 = 64;

impl Outbox {
    /// Takes in what was handed over, all or nothing; what was dropped for it. What was taken in before, by giver and number, counts for nothing.
    ///
    /// # Errors
    /// The outbox cannot be written to, and has nothing of it.
    pub fn take(&mut self, handed: &Message) -> Result<Lost, StoreError> {
        let Self { most, wants, .. } = *self;
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            let mut state = State::load(&mut all).await?;
            if !is_new(&mut all, &state, handed).await? {
                all.rollback().await?;
                return Ok(Lost::default());
            }
            let before = state.lost;
            for caught in &handed.batch.caught {
                state.count(caught.times);
                note(&mut all, &mut state, caught, wants.events).await?;
            }
            for counted in &handed.batch.counted {
                state.count(counted.times);
            }
            if wants.messages {
                keep_all(&mut all, &mut state, &handed.batch).await?;
                for learned in &handed.learned {
                    put(&mut all, &mut state, &Item::Learned(learned.clone())).await?;
                }
                keep(&mut all, &mut state, most).await?;
            }
            state.save(&mut all).await?;
            all.commit().await?;
            Ok(Lost {
                evidence: state.lost.evidence - before.evidence,
                repeats: state.lost.repeats - before.repeats,
                sightings: state.lost.sightings - before.sightings,
            })
        })
    }
}

/// Puts in what the collector is to have.
async fn keep_all(
    connection: &mut Connection,
    state: &mut State,
    batch: &Batch,
) -> sqlx::Result<()> {
    for seen in &batch.builds {
        put(connection, state, &Item::Seen(seen.clone())).await?;
    }
    for caught in &batch.caught {
        let mut caught = Box::new(caught.clone());
        // Whether this machine knew it has nothing to do with others.
        caught.race.known = false;
        put(connection, state, &Item::Caught(caught)).await?;
    }
    for counted in &batch.counted {
        put(connection, state, &Item::Counted(counted.clone())).await?;
    }
    Ok(())
}

/// Whether something was not taken in before; from now on it was.
async fn is_new(
    connection: &mut Connection,
    state: &State,
    handed: &Message,
) -> sqlx::Result<bool> {
    let new = sqlx::query(
        "INSERT INTO giver (name, sequence, item) VALUES ($1, $2, $3)
         ON CONFLICT (name) DO UPDATE SET sequence = excluded.sequence, item = excluded.item WHERE excluded.sequence > giver.sequence",
    )
    .bind(&handed.sender)
    .bind(handed.sequence.cast_signed())
    .bind(state.item)
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "DELETE FROM giver WHERE name NOT IN (SELECT name FROM giver ORDER BY item DESC, name LIMIT $1)",
    )
    .bind(MOST_GIVERS)
    .execute(connection)
    .await?;
    Ok(new.rows_affected() > 0)
}
