//! Making fewer rows of what is old: after a week it does not matter in which hour of a day a race was caught, but for the last one.

use std::mem;

use sqlx::AssertSqlSafe;

use super::{
    SCHEMA, Store,
    batch::MOST_TIMES,
    connect::{Connection, begin},
    engine::{Engine, Grain},
    error::StoreError,
    time::{HOURS_OF_DAY, hour},
    turn::Turn,
};

/// Days of which the hours are kept.
const DAYS: i64 = 7;

/// What came of making rows fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fewer {
    /// How many there are less.
    pub less: u64,
    /// Whether all was done that was to be: what somebody else has locked is let be, for the next time.
    pub is_whole: bool,
}

impl Store {
    /// Makes one row of all that tell how often a race was caught in a build and a place on the same day, for days that had ended a week before `now` (milliseconds since 1970). The row has the last of their hours,
    /// which decides what is to be thought of the race.
    ///
    /// # Errors
    /// The store cannot be written to; of no day there is a half. Days that somebody reads for long stay as they are until the next time, which is told.
    pub fn roll_up(&mut self, now: i64) -> Result<Fewer, StoreError> {
        let today = hour(now).div_euclid(HOURS_OF_DAY);
        let end = today.saturating_sub(DAYS).saturating_mul(HOURS_OF_DAY);
        let mut less = 0;
        if !self.keep_as(Grain::Days, end, &mut less)? {
            let is_whole = false;
            return Ok(Fewer { less, is_whole });
        }
        let (races, table) = self.with(async |connection| {
            let table = Engine::behind(connection).loose();
            Ok((several(connection, table, end).await?, table))
        })?;
        // Those of a turn count once it has ended well, which the next one shows, or the end.
        let mut of_turn = 0;
        let rolled = self.in_turns(
            &races,
            async |all: &mut Connection, races: &[String], turn: Turn| {
                less += mem::take(&mut of_turn);
                for (nth, race) in (0..).zip(races) {
                    if turn.is_over()
                        || !roll_up(all, table, (race, end), turn, &mut of_turn).await?
                    {
                        return Ok(nth);
                    }
                }
                Ok(races.len())
            },
        );
        let is_whole = or_left(rolled)?.is_some();
        if is_whole {
            less += of_turn;
        }
        Ok(Fewer { less, is_whole })
    }

    /// Keeps what was seen before an hour, and is kept together, no more finely than this, whether all of it is; `less` grows by how many rows there are less. Others may write between two transactions.
    pub(super) fn keep_as(
        &mut self,
        grain: Grain,
        end: i64,
        less: &mut u64,
    ) -> Result<bool, StoreError> {
        let due = self.with(async |connection| {
            // One that is refused is refused also where nothing is to be done.
            begin(connection, &SCHEMA).await?.rollback().await?;
            let engine = Engine::behind(connection);
            engine.due(connection, end, grain).await
        })?;
        for range in due {
            let rolled = self.with(async |connection| {
                let engine = Engine::behind(connection);
                let mut all = begin(connection, &SCHEMA).await?;
                let less = engine.roll_up(&mut all, range, grain).await?;
                all.commit().await?;
                Ok(less)
            });
            match or_left(rolled)? {
                Some(rolled) => *less += rolled,
                // Each of the others would keep those who write waiting for the same one.
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// What was done; nothing where somebody else has locked it. Those are let be, and it is done the next time.
pub(super) fn or_left<T>(done: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match done {
        Err(error) if error.is_locked() => {
            tracing::info!("some days stay as they are for now: {error}");
            Ok(None)
        }
        done => done.map(Some),
    }
}

/// Races of which a table has several rows a day and place of before an hour.
async fn several(connection: &mut Connection, table: &str, end: i64) -> sqlx::Result<Vec<String>> {
    let sql = format!(
        "SELECT DISTINCT race FROM (SELECT race FROM {table} WHERE hour < $2
             GROUP BY race, build, host, cgroup, container, hour / $1 HAVING count(*) > 1) AS several ORDER BY race"
    );
    let races = sqlx::query_scalar(AssertSqlSafe(sql)).bind(HOURS_OF_DAY);
    races.bind(end).fetch_all(connection).await
}

/// Makes one row a day and place of those of a race in one table, day by day, as long as it is its turn; whether all is done. `less` grows by how many rows there are less.
async fn roll_up(
    all: &mut Connection,
    table: &str,
    (race, end): (&str, i64),
    turn: Turn,
    less: &mut u64,
) -> sqlx::Result<bool> {
    let days = format!(
        "SELECT DISTINCT day FROM (SELECT hour / $1 AS day FROM {table} WHERE race = $2 AND hour >= 0 AND hour < $3
             GROUP BY build, host, cgroup, container, hour / $1 HAVING count(*) > 1) AS several ORDER BY day"
    );
    let days: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(days))
        .bind(HOURS_OF_DAY)
        .bind(race)
        .bind(end)
        .fetch_all(&mut *all)
        .await?;
    for (nth, day) in (0..).zip(days) {
        if nth > 0 && turn.is_over() {
            return Ok(false);
        }
        *less += roll_up_day(all, table, race, day).await?;
    }
    Ok(true)
}

/// The same of one day.
async fn roll_up_day(all: &mut Connection, table: &str, race: &str, day: i64) -> sqlx::Result<u64> {
    let own = format!("{table}.race = $1 AND {table}.hour >= $2 AND {table}.hour < $3");
    // This, of the rows that tell of the same build and place.
    let same_place = |what: &str, which: &str| {
        format!(
            "(SELECT {what} FROM {table} AS other WHERE other.race = $1 AND other.build = {table}.build AND other.host = {table}.host
              AND other.cgroup = {table}.cgroup AND other.container = {table}.container AND other.hour >= $2 AND other.hour < $3 {which})"
        )
    };
    let times = "CAST(sum(CASE WHEN other.times > $4 THEN $4 ELSE other.times END) AS BIGINT)";
    let sum = same_place(times, "");
    let has_earlier = same_place("1", &format!("AND other.hour < {table}.hour"));
    let has_later = same_place("1", &format!("AND other.hour > {table}.hour"));
    let update = format!(
        "UPDATE {table} SET times = {sum} WHERE {own} AND EXISTS {has_earlier} AND NOT EXISTS {has_later}"
    );
    let [begin, end] = [day, day + 1].map(|day| day * HOURS_OF_DAY);
    sqlx::query(AssertSqlSafe(update))
        .bind(race)
        .bind(begin)
        .bind(end)
        .bind(MOST_TIMES)
        .execute(&mut *all)
        .await?;
    let delete = format!("DELETE FROM {table} WHERE {own} AND EXISTS {has_later}");
    let rest = sqlx::query(AssertSqlSafe(delete))
        .bind(race)
        .bind(begin)
        .bind(end)
        .execute(all)
        .await?;
    Ok(rest.rows_affected())
}
