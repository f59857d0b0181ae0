//! Making fewer rows of what is so old that nobody asks on which day and in which container it was. Of thirty days that are older than is said, how often a race was caught is one row a build and machine, which
//! has the last of their hours; those of the day of which the race was caught first in the build, or on the machine, stay apart. So each row of a summary (`summary.rs`) that is made anew from them has the counts that it had, and
//! the days when first and last: what is merged, split, named anew or forgotten later, also by an older gwp-race, is so as if nothing had been done here. What counts single days itself (`race_day`) is forgotten for that time.

use std::mem;

use sqlx::AssertSqlSafe;

use super::{
    Store,
    connect::Connection,
    engine::{Engine, Grain},
    error::StoreError,
    left::{IS_DUE, condensed},
    roll_up::{Fewer, or_left},
    time::{HOURS_OF_BLOCK, HOURS_OF_DAY, hour},
    turn::Turn,
};

/// Rows that tell how often races were caught.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Those that are there.
    pub now: i64,
    /// Those that would be left.
    pub left: i64,
}

/// A race, and which thirty days.
type Piece = (String, i64);

impl Store {
    /// Keeps no more of thirty days each that ended before this time (milliseconds since 1970) than how often a race was caught in a build and on a machine, and when first and last there, to the day.
    ///
    /// # Errors
    /// The store cannot be written to; of no race and thirty days there is a half. Those that somebody reads for long stay as they are until the next time, which is told.
    pub fn condense(&mut self, before: i64) -> Result<Fewer, StoreError> {
        let end = end_of_blocks(before);
        let mut less = 0;
        if !self.keep_as(Grain::Machines, end, &mut less)? {
            let is_whole = false;
            return Ok(Fewer { less, is_whole });
        }
        let (pieces, table) = self.with(async |connection| {
            let table = Engine::behind(connection).loose();
            Ok((pieces(connection, table, end).await?, table))
        })?;
        // Those of a turn count once it has ended well, which the next one shows, or the end.
        let mut of_turn = 0;
        let condensed = self.in_turns(
            &pieces,
            async |all: &mut Connection, pieces: &[Piece], turn: Turn| {
                less += mem::take(&mut of_turn);
                for (nth, piece) in (0..).zip(pieces) {
                    if nth > 0 && turn.is_over() {
                        return Ok(nth);
                    }
                    of_turn += condense(all, table, piece).await?;
                }
                Ok(pieces.len())
            },
        );
        let mut is_whole = or_left(condensed)?.is_some();
        if is_whole {
            less += of_turn;
            is_whole = or_left(self.forget_days(end / HOURS_OF_DAY))?.is_some();
        }
        Ok(Fewer { less, is_whole })
    }

    /// When a race was caught last of all, milliseconds since 1970, by the clocks of those who caught them.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn newest(&mut self) -> Result<Option<i64>, StoreError> {
        self.with(async |connection| {
            sqlx::query_scalar("SELECT max(last_caught) FROM race")
                .fetch_one(connection)
                .await
        })
    }

    /// How many rows [`Self::condense`] would leave of those of before the time, about.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn condensable(&mut self, before: i64) -> Result<Rows, StoreError> {
        let end = end_of_blocks(before);
        self.with(async |connection| {
            let mut rows = Rows::default();
            let blocks = pieces(connection, "sighting", end).await?;
            let mut blocks: Vec<i64> = blocks.into_iter().map(|(_, block)| block).collect();
            blocks.sort_unstable();
            blocks.dedup();
            for block in blocks {
                let own = "hour >= $1 AND hour < $2";
                let left = condensed("sighting", own);
                let sql = format!(
                    "SELECT (SELECT count(*) FROM sighting WHERE {own}), (SELECT count(*) FROM ({left}) AS condensed)"
                );
                let (now, left): (i64, i64) = sqlx::query_as(AssertSqlSafe(sql))
                    .bind(block * HOURS_OF_BLOCK)
                    .bind((block + 1) * HOURS_OF_BLOCK)
                    .fetch_one(&mut *connection)
                    .await?;
                rows.now += now;
                rows.left += left;
            }
            Ok(rows)
        })
    }

    /// Forgets how often races were caught on single days before this one.
    fn forget_days(&mut self, day: i64) -> Result<(), StoreError> {
        let races: Vec<String> = self.with(async |connection| {
            sqlx::query_scalar("SELECT DISTINCT race FROM race_day WHERE day < $1 ORDER BY race")
                .bind(day)
                .fetch_all(connection)
                .await
        })?;
        self.in_turns(
            &races,
            async |all: &mut Connection, races: &[String], turn: Turn| {
                for (nth, race) in (0..).zip(races) {
                    if nth > 0 && turn.is_over() {
                        return Ok(nth);
                    }
                    sqlx::query("DELETE FROM race_day WHERE race = $1 AND day < $2")
                        .bind(race)
                        .bind(day)
                        .execute(&mut *all)
                        .await?;
                }
                Ok(races.len())
            },
        )
    }
}

/// The hour when the last thirty days end that ended before a time.
const fn end_of_blocks(before: i64) -> i64 {
    hour(before).div_euclid(HOURS_OF_BLOCK) * HOURS_OF_BLOCK
}

/// What is kept more finely in a table, of before an hour.
async fn pieces(connection: &mut Connection, table: &str, end: i64) -> sqlx::Result<Vec<Piece>> {
    let sql = format!(
        "SELECT DISTINCT race, block FROM (SELECT race, hour / {HOURS_OF_BLOCK} AS block FROM {table} WHERE hour >= 0 AND hour < $1
             GROUP BY race, build, host, hour / {HOURS_OF_BLOCK} HAVING {IS_DUE}) AS finer ORDER BY race, block"
    );
    let pieces = sqlx::query_as(AssertSqlSafe(sql)).bind(end);
    pieces.fetch_all(connection).await
}

/// Makes fewer rows of a race and thirty days in one table; how many there are less.
async fn condense(all: &mut Connection, table: &str, (race, block): &Piece) -> sqlx::Result<u64> {
    let own = "race = $1 AND hour >= $2 AND hour < $3";
    let [begin, end] = [*block, block + 1].map(|block| block * HOURS_OF_BLOCK);
    let left: Vec<(String, String, String, String, String, i64, i64)> =
        sqlx::query_as(AssertSqlSafe(condensed(table, own)))
            .bind(race)
            .bind(begin)
            .bind(end)
            .fetch_all(&mut *all)
            .await?;
    let delete = format!("DELETE FROM {table} WHERE {own}");
    let before = sqlx::query(AssertSqlSafe(delete))
        .bind(race)
        .bind(begin)
        .bind(end)
        .execute(&mut *all)
        .await?;
    let insert = format!(
        "INSERT INTO {table} (race, build, host, cgroup, container, hour, times) VALUES ($1, $2, $3, '', '', $4, $5)"
    );
    let mut less = before.rows_affected();
    for (race, build, host, _, _, hour, times) in left {
        sqlx::query(AssertSqlSafe(insert.clone()))
            .bind(race)
            .bind(build)
            .bind(host)
            .bind(hour)
            .bind(times)
            .execute(&mut *all)
            .await?;
        less = less.saturating_sub(1);
    }
    Ok(less)
}
