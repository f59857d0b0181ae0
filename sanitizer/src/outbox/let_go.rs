//! What waits for somebody whom the configuration names no more would wait for ever: it is let go, and counted as lost.

use crate::store::connect::Connection;

use super::{Outbox, SCHEMA, bound::keep, item::Item, items::forget, state::State, tally::Tally};
use crate::{
    delivery::{MOST_UNPACKED, Message},
    store::{StoreError, connect::begin},
};

/// What was let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LetGo {
    /// Items that were in no message yet: races, how often they were caught again, programs.
    pub items: u64,
    /// Messages that had a number, and were not taken or not known to be.
    pub messages: u64,
    /// Events that were not taken yet.
    pub events: u64,
}

impl LetGo {
    /// All of it.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.items + self.messages + self.events
    }
}

impl Outbox {
    /// Lets go of what nobody wants ([`Outbox::for_whom`]).
    ///
    /// # Errors
    /// The outbox cannot be written to, and has all of it.
    pub fn let_go(&mut self) -> Result<LetGo, StoreError> {
        let wants = self.wants;
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            let mut state = State::load(&mut all).await?;
            let mut gone = LetGo::default();
            if !wants.messages {
                messages(&mut all, &mut state, &mut gone).await?;
            }
            if !wants.events {
                events(&mut all, &mut state, &mut gone).await?;
            }
            if gone.all() == 0 {
                all.rollback().await?;
                return Ok(gone);
            }
            state.let_go = state.let_go.saturating_add(gone.all().cast_signed());
            state.save(&mut all).await?;
            all.commit().await?;
            Ok(gone)
        })
    }
}

/// What a collector of gwp-race was to have. Items are dropped as those of a full outbox are, so that whoever is named later is told of them as lost, and of a race that he has not heard of as a new one.
/// The number of a message stays missing.
async fn messages(
    connection: &mut Connection,
    state: &mut State,
    gone: &mut LetGo,
) -> sqlx::Result<()> {
    // One at most.
    let bodies: Vec<Vec<u8>> = sqlx::query_scalar("SELECT body FROM message")
        .fetch_all(&mut *connection)
        .await?;
    sqlx::query("DELETE FROM message")
        .execute(&mut *connection)
        .await?;
    for body in bodies {
        state.bytes -= i64::try_from(body.len()).unwrap_or(i64::MAX);
        state.messages_lost += 1;
        gone.messages += 1;
        let Ok(Message { batch, .. }) = Message::decode(&body, MOST_UNPACKED) else {
            continue;
        };
        let caught = batch.caught.into_iter();
        let caught = caught.map(|caught| Item::Caught(Box::new(caught)));
        let seen = batch.builds.into_iter().map(Item::Seen);
        for subject in caught.chain(seen).filter_map(|item| item.subject()) {
            forget(connection, &subject).await?;
        }
    }
    gone.items = Tally::of(connection).await?.items.cast_unsigned();
    keep(connection, state, 0).await
}

/// What a collector of OpenTelemetry was to have.
async fn events(
    connection: &mut Connection,
    state: &mut State,
    gone: &mut LetGo,
) -> sqlx::Result<()> {
    let events = sqlx::query("DELETE FROM event").execute(connection).await?;
    gone.events = events.rows_affected();
    state.events_lost += gone.events.cast_signed();
    Ok(())
}
