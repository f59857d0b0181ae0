//! Of which version a database is, and whether this gwp-race can go on with it: also with one of a newer version, where that has only added something to what was there. The newer one says so in a table, since the older
//! one cannot know it.

use crate::store::{
    engine::Engine,
    schema::{Connection, Schema},
};

/// Versions that only add, each with the oldest version whose programs can go on.
const ADDITIONS: &str = "_gwp_race_additions";

/// A newer gwp-race has changed the database.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the database is of version {version}, and up to {known} are known")]
struct Newer {
    version: i64,
    known: i64,
}

/// The version of the database and the newest one that is known, where it is for that reason that something has failed.
pub(super) fn of_newer(error: &sqlx::Error) -> Option<(i64, i64)> {
    let sqlx::Error::Configuration(said) = error else {
        return None;
    };
    let Newer { version, known } = said.downcast_ref()?;
    Some((*version, *known))
}

/// The version of a database that is one of ours.
pub(super) async fn number_of(connection: &mut Connection) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations")
        .fetch_one(connection)
        .await
}

/// Sees that the database is of no newer version with which this one cannot go on: somebody may have changed it since it was opened.
pub(super) async fn check(connection: &mut Connection, schema: &Schema) -> sqlx::Result<()> {
    let (version, known) = (number_of(connection).await?, schema.version());
    if version > known && !only_adds(connection, known).await? {
        return Err(sqlx::Error::Configuration(Newer { version, known }.into()));
    }
    Ok(())
}

/// Whether each version after one has only added something that its programs can go on with.
async fn only_adds(connection: &mut Connection, known: i64) -> sqlx::Result<bool> {
    let engine = Engine::behind(connection);
    if !engine.has_table(connection, ADDITIONS).await? {
        return Ok(false);
    }
    let others: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM _sqlx_migrations
         WHERE version > $1 AND version NOT IN (SELECT version FROM _gwp_race_additions WHERE usable_since <= $1)",
    )
    .bind(known)
    .fetch_one(connection)
    .await?;
    Ok(others == 0)
}

/// Writes down which versions of a database, now that it has them, only add. It is a transaction's, beside which nobody else writes.
pub(super) async fn note_additions(
    connection: &mut Connection,
    schema: &Schema,
) -> sqlx::Result<()> {
    if schema.additions.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS _gwp_race_additions (version BIGINT NOT NULL PRIMARY KEY, usable_since BIGINT NOT NULL)",
    )
    .execute(&mut *connection)
    .await?;
    for (version, since) in schema.additions {
        sqlx::query(
            "INSERT INTO _gwp_race_additions (version, usable_since) VALUES ($1, $2)
             ON CONFLICT (version) DO UPDATE SET usable_since = excluded.usable_since",
        )
        .bind(version)
        .bind(since)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}
