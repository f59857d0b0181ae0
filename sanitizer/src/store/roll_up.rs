//! Making fewer rows of what is old: after a week it does not matter in which hour of a day a race was caught, but for the last one.

use sqlx::AssertSqlSafe;

use super::{
    SCHEMA, Store,
    batch::MOST_TIMES,
    connect::{Connection, begin},
    engine::Engine,
    error::StoreError,
    time::{HOURS_OF_DAY, hour},
};

/// Days of which the hours are kept.
const DAYS: i64 = 7;

impl Store {
    /// Makes one row of all that tell how often a race was caught in a build and a place on the same day, for days that had ended a week before `now` (milliseconds since 1970). The row has the last of their hours,
    /// which decides what is to be thought of the race. How many rows there are less.
    ///
    /// # Errors
    /// The store cannot be written to; of no day there is a half. Days that somebody reads for long stay as they are until the next time.
    pub fn roll_up(&mut self, now: i64) -> Result<u64, StoreError> {
        let today = hour(now).div_euclid(HOURS_OF_DAY);
        let end = today.saturating_sub(DAYS).saturating_mul(HOURS_OF_DAY);
        let due = self.with(async |connection| {
            let engine = Engine::behind(connection);
            engine.due(connection, end).await
        })?;
        let mut less = 0;
        // Others may write between two transactions.
        for range in due {
            let rolled = self.with(async |connection| {
                let engine = Engine::behind(connection);
                let mut all = begin(connection, &SCHEMA).await?;
                let less = engine.roll_up(&mut all, range).await?;
                all.commit().await?;
                Ok(less)
            });
            match rolled {
                Ok(rolled) => less += rolled,
                // Those who read are let read; it is done the next time.
                Err(error) if error.is_locked() => {
                    tracing::info!("some days stay as they are for now: {error}");
                }
                Err(error) => return Err(error),
            }
        }
        self.with(async |connection| {
            let engine = Engine::behind(connection);
            let mut all = begin(connection, &SCHEMA).await?;
            less += roll_up(&mut all, engine.loose(), end).await?;
            all.commit().await?;
            Ok(less)
        })
    }
}

/// The same in one table, row by row.
async fn roll_up(all: &mut Connection, table: &str, end: i64) -> sqlx::Result<u64> {
    // This, of the rows that tell of the same race, build and place on the same day, of `$1` hours.
    let same_day = |what: &str, which: &str| {
        format!(
            "(SELECT {what} FROM {table} AS other WHERE other.race = {table}.race AND other.build = {table}.build AND other.host = {table}.host
              AND other.cgroup = {table}.cgroup AND other.container = {table}.container AND other.hour / $1 = {table}.hour / $1 {which})"
        )
    };
    let times = "CAST(sum(CASE WHEN other.times > $3 THEN $3 ELSE other.times END) AS BIGINT)";
    let sum = same_day(times, "");
    let has_earlier = same_day("1", &format!("AND other.hour < {table}.hour"));
    let has_later = same_day("1", &format!("AND other.hour > {table}.hour"));
    let update = format!(
        "UPDATE {table} SET times = {sum} WHERE hour < $2 AND EXISTS {has_earlier} AND NOT EXISTS {has_later}"
    );
    sqlx::query(AssertSqlSafe(update))
        .bind(HOURS_OF_DAY)
        .bind(end)
        .bind(MOST_TIMES)
        .execute(&mut *all)
        .await?;
    let delete = format!("DELETE FROM {table} WHERE hour < $2 AND EXISTS {has_later}");
    let rest = sqlx::query(AssertSqlSafe(delete))
        .bind(HOURS_OF_DAY)
        .bind(end)
        .execute(all)
        .await?;
    Ok(rest.rows_affected())
}
