//! The items of an outbox.

use std::time::SystemTime;

use crate::store::{connect::Connection, millis};

use super::{
    item::{Class, Item},
    state::State,
};

/// What an item takes beside its record, bytes.
const ROW: usize = 128;
/// What the collector was told of is known for so many items: after that it would be told as if for the first time.
const KNOWN_FOR: i64 = 1 << 16;

/// An item, as it is kept.
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) class: Class,
    pub(super) weight: i64,
    pub(super) bytes: i64,
    /// When it was put in, milliseconds since 1970.
    pub(super) put: i64,
    pub(super) record: String,
}

/// Puts an item in, or adds it to what is there.
pub(super) async fn put(
    connection: &mut Connection,
    state: &mut State,
    item: &Item,
) -> sqlx::Result<()> {
    let is_first = match item.subject() {
        Some(subject) => is_news(connection, state, &subject).await?,
        None => false,
    };
    let record = item.record()?;
    let name = item.name(is_first, &record);
    let before: Option<(i64, i64, String)> =
        sqlx::query_as("SELECT id, bytes, record FROM item WHERE name = $1")
            .bind(&name)
            .fetch_optional(&mut *connection)
            .await?;
    if let Some((id, bytes, before)) = before {
        let sum = Item::read(&before).and_then(|mut sum| sum.add(item).then_some(sum));
        let Some(sum) = sum else {
            return Ok(());
        };
        let record = sum.record()?;
        let size = size(&record);
        sqlx::query("UPDATE item SET weight = $1, bytes = $2, record = $3 WHERE id = $4")
            .bind(sum.weight())
            .bind(size)
            .bind(record)
            .bind(id)
            .execute(connection)
            .await?;
        state.bytes += size - bytes;
        return Ok(());
    }
    let size = size(&record);
    sqlx::query(
        "INSERT INTO item (id, name, class, weight, bytes, record, put) VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(state.item)
    .bind(name)
    .bind(item.class(is_first).number())
    .bind(item.weight())
    .bind(size)
    .bind(record)
    .bind(millis(SystemTime::now()))
    .execute(connection)
    .await?;
    state.item += 1;
    state.bytes += size;
    Ok(())
}

fn size(record: &str) -> i64 {
    i64::try_from(record.len() + ROW).unwrap_or(i64::MAX)
}

/// Takes an item out.
pub(super) async fn remove(
    connection: &mut Connection,
    state: &mut State,
    row: &Row,
) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM item WHERE id = $1")
        .bind(row.id)
        .execute(connection)
        .await?;
    state.bytes -= row.bytes;
    Ok(())
}

/// The items that are dropped first.
pub(super) async fn least(connection: &mut Connection) -> sqlx::Result<Option<Row>> {
    let row = sqlx::query_as(
        "SELECT id, class, weight, bytes, put, record FROM item ORDER BY class, id LIMIT 1",
    );
    Ok(row.fetch_optional(connection).await?.map(of_columns))
}

/// Those that are sent first: what is worth most, and of that what is oldest.
pub(super) async fn best(connection: &mut Connection, most: i64) -> sqlx::Result<Vec<Row>> {
    let rows = sqlx::query_as(
        "SELECT id, class, weight, bytes, put, record FROM item ORDER BY class DESC, id LIMIT $1",
    );
    let rows = rows.bind(most).fetch_all(connection).await?;
    Ok(rows.into_iter().map(of_columns).collect())
}

fn of_columns((id, class, weight, bytes, put, record): (i64, i64, i64, i64, i64, String)) -> Row {
    Row {
        id,
        class: Class::of(class),
        weight,
        bytes,
        put,
        record,
    }
}

/// Whether nobody has heard of this yet; from now on he has.
pub(super) async fn is_news(
    connection: &mut Connection,
    state: &State,
    subject: &str,
) -> sqlx::Result<bool> {
    let new =
        sqlx::query("INSERT INTO known (name, item) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING")
            .bind(subject)
            .bind(state.item)
            .execute(&mut *connection)
            .await?;
    sqlx::query("DELETE FROM known WHERE item < $1")
        .bind(state.item - KNOWN_FOR)
        .execute(connection)
        .await?;
    Ok(new.rows_affected() > 0)
}

/// The collector will not hear of this: the next time is the first one.
pub(super) async fn forget(connection: &mut Connection, subject: &str) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM known WHERE name = $1")
        .bind(subject)
        .execute(connection)
        .await
        .map(drop)
}
