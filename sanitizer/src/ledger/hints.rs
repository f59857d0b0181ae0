//! What other machines have learned, as a collector tells it: sums of what all machines have seen, this one too. They take the place of what was told of the build before.
//!
//! What this machine has seen itself may be in them and may not be yet, so nobody adds the two: of each count the larger one is used ([`KnownFunction::keep_larger`]).

use super::{Ledger, MOST_BUILDS, MOST_OF_BUILD, MOST_OF_FUNCTION, Module, ROW, SCHEMA};
use crate::{
    hunt::memory::KnownFunction,
    store::{
        StoreError,
        connect::{Connection, begin},
    },
};

/// Builds of which hints are kept.
const MOST_HINTED: i64 = 256;
/// Functions that one statement puts in: SQLite takes 32,766 values.
const AT_ONCE: usize = 256;

impl Ledger {
    /// Takes in what was told of a build at a time, ms since 1970, under a tag: all or nothing. What is more than a build may have is left out.
    ///
    /// # Errors
    /// The ledger cannot be written to.
    pub fn take_hints(
        &mut self,
        module: &Module,
        tag: &str,
        functions: &[KnownFunction],
        now: i64,
    ) -> Result<(), StoreError> {
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            let id: i64 = sqlx::query_scalar(
                "INSERT INTO hinted (name, build, tag, told) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (name, build) DO UPDATE SET tag = excluded.tag, told = excluded.told RETURNING id",
            )
            .bind(&module.name)
            .bind(&module.build)
            .bind(tag)
            .bind(now)
            .fetch_one(&mut *all)
            .await?;
            sqlx::query("DELETE FROM hint WHERE module = $1")
                .bind(id)
                .execute(&mut *all)
                .await?;
            let mut left = MOST_OF_BUILD;
            for some in functions.chunks(AT_ONCE) {
                left = put(&mut all, id, some, now, left).await?;
            }
            forget(&mut all).await?;
            all.commit().await
        })
    }

    /// The tag of what was told of a build last.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn hint_tag(&mut self, module: &Module) -> Result<Option<String>, StoreError> {
        self.with(async |connection| {
            sqlx::query_scalar(
                "SELECT tag FROM hinted WHERE name = $1 AND build = $2 AND typeof(tag) = 'text'",
            )
            .bind(&module.name)
            .bind(&module.build)
            .fetch_optional(connection)
            .await
        })
    }
}

/// Puts functions in, as long as there is room; how much of it is left.
async fn put(
    connection: &mut Connection,
    module: i64,
    functions: &[KnownFunction],
    now: i64,
    mut left: i64,
) -> sqlx::Result<i64> {
    let mut rows = Vec::new();
    for function in functions {
        let seen_in = function.seen_in();
        let seen_in = seen_in.map_err(|error| sqlx::Error::Encode(error.into()))?;
        let size = i64::try_from(seen_in.len()).unwrap_or(i64::MAX);
        if size > MOST_OF_FUNCTION || size.saturating_add(ROW) > left {
            continue;
        }
        left -= size + ROW;
        rows.push((function, seen_in));
    }
    if rows.is_empty() {
        return Ok(left);
    }
    let values = (0..rows.len()).map(|row| {
        let at = 3 + 3 * row;
        format!("($1, ${at}, ${}, ${}, $2)", at + 1, at + 2)
    });
    let sql = format!(
        "INSERT INTO hint (module, at, fingerprint, seen_in, seen) VALUES {} ON CONFLICT (module, at) DO NOTHING",
        values.collect::<Vec<_>>().join(", ")
    );
    let mut insert = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(module).bind(now);
    for (function, seen_in) in rows {
        insert = insert
            .bind(function.at.cast_signed())
            .bind(function.fingerprint.cast_signed())
            .bind(seen_in);
    }
    insert.execute(connection).await?;
    Ok(left)
}

/// Forgets what was told of builds longest ago, where there are too many.
async fn forget(connection: &mut Connection) -> sqlx::Result<()> {
    let too_many = sqlx::query(
        "DELETE FROM hinted WHERE id IN (SELECT id FROM
         (SELECT id, row_number() OVER (PARTITION BY name ORDER BY told DESC, id DESC) AS of_name,
          row_number() OVER (ORDER BY told DESC, id DESC) AS of_all FROM hinted)
         WHERE of_name > $1 OR of_all > $2)",
    );
    let done = too_many
        .bind(MOST_BUILDS)
        .bind(MOST_HINTED)
        .execute(&mut *connection)
        .await?;
    if done.rows_affected() > 0 {
        sqlx::query("DELETE FROM hint WHERE module NOT IN (SELECT id FROM hinted)")
            .execute(connection)
            .await?;
    }
    Ok(())
}
