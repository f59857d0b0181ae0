//! What is dropped of an outbox that is full.

use crate::store::connect::Connection;

use super::{
    item::{Class, Item},
    items::{forget, least, put, remove},
    state::State,
};

/// Drops items until no more than so many bytes are kept. A message stays: it may have been taken already, and would be both there and lost.
pub(super) async fn keep(
    connection: &mut Connection,
    state: &mut State,
    most: u64,
) -> sqlx::Result<()> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    while state.bytes > most {
        let Some(row) = least(connection).await? else {
            return Ok(());
        };
        remove(connection, state, &row).await?;
        state.lose(row.class, row.weight);
        let Some(item) = Item::read(&row.record) else {
            continue;
        };
        match row.class {
            // That it was caught takes much less, and is dropped later.
            Class::Evidence => {
                if let Some(counted) = item.without_evidence() {
                    put(connection, state, &counted).await?;
                }
            }
            Class::Learning | Class::Repeats => {}
            Class::Sightings => {
                if let Some(subject) = item.subject() {
                    forget(connection, &subject).await?;
                }
            }
        }
    }
    Ok(())
}
