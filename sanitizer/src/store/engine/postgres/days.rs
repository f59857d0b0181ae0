//! Partitions of the table of sightings, which has nearly all rows of a store of many machines: a day is one until it is a week old, and then one of the thirty days that it is in. So
//! that hours of a day become one row is no matter of rows that are changed and deleted, which leave holes behind them: what remains is written to a new table, and those that were there are dropped.
//!
//! Whoever writes sees once an hour that today and the days to come have a partition. Where one cannot be made, since somebody reads for long, or the user may not, its rows are in the partition of what has none of
//! its own: it has also whatever was seen by a clock that is wrong. They are moved when it is made. Two never make the same one: whoever writes is alone.
//!
//! What a store had before it had days is one partition for all the time until then, the table of before itself: nothing of it was copied. When thirty days of it are old, they leave it, the first ones first, as days become one; it is dropped with the last.

use sqlx::AssertSqlSafe;

use crate::store::{
    batch::MOST_TIMES,
    engine::Grain,
    left::{IS_DUE, condensed},
    schema::Connection,
    time::{HOURS_OF_BLOCK, HOURS_OF_DAY, begin_of, day},
};

/// Where a row is that has no partition of its own.
pub(in crate::store) const OTHER: &str = "sighting_other";
/// What was there before days had partitions.
const BEFORE: &str = "sighting_before";
/// Days that get a partition before they begin.
const AHEAD: i64 = 2;
/// Days back in which what comes late gets one: hosts keep what they cannot send.
const BACK: i64 = 7;
/// Days that are one partition when all of them are old. Each partition is locked by whoever reads, and PostgreSQL has room for some thousand locks.
const BLOCK: i64 = HOURS_OF_BLOCK;
/// Rows without a partition of their own that are worth one.
const ENOUGH: i64 = 10_000;
/// One in so many rows of a partition must be finer than it is to be kept before all of it is copied once more: a machine that was away for long sends some rows late, each day another one does, and whoever writes waits for a copy.
const WORTH: i64 = 64;
/// How long somebody who reads is waited for: others wait for us meanwhile. An autovacuum gives way after `deadlock_timeout`, which is a second unless somebody has said otherwise.
const PATIENCE: &str = "SET LOCAL lock_timeout = '1500ms'";
/// How long thirty days of very many machines are copied is nobody's to say; who stops that each time has them for ever.
const AT_LEISURE: &str = "SET LOCAL statement_timeout = 0";

/// Hours from the first, without the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Range {
    begin: i64,
    end: i64,
}

impl Range {
    const fn of_day(day: i64) -> Self {
        Self {
            begin: day * HOURS_OF_DAY,
            end: (day + 1) * HOURS_OF_DAY,
        }
    }

    /// Thirty days, by their number.
    const fn of_block(number: i64) -> Self {
        Self {
            begin: number * BLOCK,
            end: (number + 1) * BLOCK,
        }
    }

    const fn has(self, other: Self) -> bool {
        self.begin <= other.begin && other.end <= self.end
    }

    const fn meets(self, other: Self) -> bool {
        self.begin < other.end && other.begin < self.end
    }
}

/// A partition.
#[derive(Debug)]
struct Part {
    name: String,
    range: Range,
}

impl Part {
    fn is_before(&self) -> bool {
        self.name == BEFORE
    }

    const fn is_day(&self) -> bool {
        self.range.end.saturating_sub(self.range.begin) < BLOCK
    }
}

/// All that have a range.
async fn parts(connection: &mut Connection) -> sqlx::Result<Vec<Part>> {
    // A bound is nothing where somebody has just dropped the partition.
    let rows: Vec<(String, Option<String>)> = sqlx::query_as(
        "SELECT CAST(part.relname AS TEXT), pg_get_expr(part.relpartbound, part.oid)
         FROM pg_inherits JOIN pg_class AS part ON part.oid = inhrelid WHERE inhparent = 'sighting'::regclass ORDER BY 1",
    )
    .fetch_all(connection)
    .await?;
    let part = |(name, bound): (String, Option<String>)| {
        let bound = bound?;
        // FOR VALUES FROM ('490896') TO ('490920'), or FROM (MINVALUE)
        let (from, to) = bound.split_once(" TO ")?;
        let number = |text: &str| {
            let digits = text.chars().filter(char::is_ascii_digit);
            digits.collect::<String>().parse().ok()
        };
        let begin = if from.contains("MINVALUE") {
            i64::MIN
        } else {
            number(from)?
        };
        let range = Range {
            begin,
            end: number(to)?,
        };
        Some(Part { name, range })
    };
    Ok(rows.into_iter().filter_map(part).collect())
}

/// How many rows it was about.
async fn carry_out(connection: &mut Connection, sql: String) -> sqlx::Result<u64> {
    let done = sqlx::raw_sql(AssertSqlSafe(sql));
    Ok(done.execute(connection).await?.rows_affected())
}

/// The rows of a range.
async fn count(connection: &mut Connection, range: Range) -> sqlx::Result<u64> {
    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sighting WHERE hour >= $1 AND hour < $2")
            .bind(range.begin)
            .bind(range.end)
            .fetch_one(connection)
            .await?;
    Ok(count.unsigned_abs())
}

/// Makes one partition of a range and of those that are in it, with what is there of it, as finely as it is to be kept. How many rows there are less.
async fn make(
    connection: &mut Connection,
    parts: &[Part],
    range: Range,
    grain: Grain,
) -> sqlx::Result<u64> {
    let before = count(connection, range).await?;
    let Range { begin, end } = range;
    let date = day(begin_of(begin)).replace('-', "");
    // The one that takes the place of another one has another name.
    let is_free = |name: &String| parts.iter().all(|part| part.name != *name);
    let mut names = (1..).map(|number| format!("sighting_{date}_{number}"));
    let name = names.find(is_free).unwrap_or_default();
    // Who reads is kept waiting by nothing but what comes after the copy.
    carry_out(
        connection,
        format!("CREATE TABLE {name} (LIKE sighting INCLUDING INDEXES INCLUDING DEFAULTS)"),
    )
    .await?;
    let place = "race, build, host, cgroup, container";
    let own = format!("hour >= {begin} AND hour < {end}");
    let copy = match grain {
        Grain::Hours => format!("SELECT {place}, hour, times FROM sighting WHERE {own}"),
        Grain::Days => format!(
            "SELECT {place}, max(hour), CAST(sum(CASE WHEN times > {MOST_TIMES} THEN {MOST_TIMES} ELSE times END) AS BIGINT)
             FROM sighting WHERE {own} GROUP BY {place}, hour / {HOURS_OF_DAY}"
        ),
        Grain::Machines => condensed("sighting", &own),
    };
    let after = carry_out(
        connection,
        format!("INSERT INTO {name} ({place}, hour, times) {copy}"),
    )
    .await?;
    let mut sql = format!("DELETE FROM {OTHER} WHERE hour >= {begin} AND hour < {end};");
    for part in parts.iter().filter(|part| part.range.meets(range)) {
        if range.has(part.range) {
            sql.push_str(&format!("DROP TABLE {};", part.name));
        } else if part.is_before() {
            sql.push_str(&leave(part, range));
        }
    }
    sql.push_str(&format!(
        "ALTER TABLE sighting ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end})"
    ));
    carry_out(connection, sql).await?;
    Ok(before.saturating_sub(after))
}

/// What was before has nothing until the end of a range any more, and is dropped where that is all. What it has from before the range was seen by clocks that are wrong.
fn leave(before: &Part, range: Range) -> String {
    let Range { begin, end } = range;
    let columns = "race, build, host, cgroup, container, hour, times";
    let attach = if before.range.end <= end {
        format!("DROP TABLE {BEFORE};")
    } else {
        format!(
            "ALTER TABLE sighting ATTACH PARTITION {BEFORE} FOR VALUES FROM ({end}) TO ({});",
            before.range.end
        )
    };
    format!(
        "CREATE TABLE sighting_odd (LIKE sighting INCLUDING DEFAULTS);
         WITH gone AS (DELETE FROM {BEFORE} WHERE hour < {end} RETURNING {columns})
             INSERT INTO sighting_odd ({columns}) SELECT {columns} FROM gone WHERE hour < {begin};
         ALTER TABLE sighting DETACH PARTITION {BEFORE};
         INSERT INTO sighting ({columns}) SELECT {columns} FROM sighting_odd;
         DROP TABLE sighting_odd;
         {attach}"
    )
}

/// Makes a partition for today, one of the next days, or one of the last week of which something has come late, where there is none; whether there was none. It is a transaction's, beside which nobody else writes.
pub(in crate::store) async fn arrange(
    connection: &mut Connection,
    hour: i64,
) -> sqlx::Result<bool> {
    let today = hour.div_euclid(HOURS_OF_DAY);
    let mut days: Vec<i64> = sqlx::query_scalar(
        "SELECT DISTINCT hour / $1 FROM sighting_other WHERE hour >= $2 AND hour < $3",
    )
    .bind(HOURS_OF_DAY)
    .bind((today - BACK) * HOURS_OF_DAY)
    .bind(today * HOURS_OF_DAY)
    .fetch_all(&mut *connection)
    .await?;
    days.extend(today..=today + AHEAD);
    let parts = parts(connection).await?;
    let is_due = |range: &Range| !parts.iter().any(|part| part.range.has(*range));
    let Some(range) = days.into_iter().map(Range::of_day).find(is_due) else {
        return Ok(false);
    };
    sqlx::query(PATIENCE).execute(&mut *connection).await?;
    make(connection, &parts, range, Grain::Hours).await?;
    Ok(true)
}

/// What was found in a table, and nothing where somebody has dropped it meanwhile (undefined_table).
fn there<T: Default>(found: sqlx::Result<T>) -> sqlx::Result<T> {
    match found {
        Err(error)
            if error.as_database_error().and_then(|error| error.code()) == Some("42P01".into()) =>
        {
            Ok(T::default())
        }
        found => found,
    }
}

/// The thirty days, by their numbers, of which a table has many rows of before this hour.
async fn many(connection: &mut Connection, table: &str, end: i64) -> sqlx::Result<Vec<i64>> {
    let sql = format!(
        "SELECT hour / $1 FROM {table} WHERE hour >= 0 AND hour < $2 GROUP BY 1 HAVING count(*) >= $3"
    );
    let many = sqlx::query_scalar(AssertSqlSafe(sql))
        .bind(BLOCK)
        .bind(end)
        .bind(ENOUGH);
    there(many.fetch_all(connection).await)
}

/// The ranges whose rows are to become one a day, since all of each was before this hour: thirty days where all of them were, and single days; the first ones first.
pub(in crate::store) async fn due(
    connection: &mut Connection,
    end: i64,
) -> sqlx::Result<Vec<Range>> {
    let parts = parts(connection).await?;
    let mut blocks = many(connection, OTHER, end).await?;
    if let Some(before) = parts.iter().find(|part| part.is_before()) {
        blocks.extend(many(connection, BEFORE, end).await?);
        // What is left then is little, and goes with the last.
        blocks.push((before.range.end - 1).div_euclid(BLOCK));
    }
    let days = parts.iter().filter(|part| part.is_day());
    blocks.extend(days.map(|part| part.range.begin.div_euclid(BLOCK)));
    blocks.sort_unstable();
    blocks.dedup();
    let mut due: Vec<Range> = blocks.into_iter().map(Range::of_block).collect();
    due.retain(|range| range.end <= end);
    for part in parts.iter().filter(|part| part.range.end <= end) {
        let is_due = part.is_before() || due.iter().any(|range| range.has(part.range));
        if !is_due && has_hours(connection, part).await? {
            due.push(part.range);
        }
    }
    Ok(due)
}

/// Whether enough days have more than one row of what was seen in the same place.
async fn has_hours(connection: &mut Connection, part: &Part) -> sqlx::Result<bool> {
    let place = format!("race, build, host, cgroup, container, hour / {HOURS_OF_DAY}");
    has_finer(connection, part, &place, "count(*) > 1").await
}

/// Whether enough of what is in a partition is finer than it is to be: rows that are one in a group are so if this holds for the group.
async fn has_finer(
    connection: &mut Connection,
    part: &Part,
    group: &str,
    is_finer: &str,
) -> sqlx::Result<bool> {
    let sql = format!(
        "SELECT CAST(coalesce(sum(CASE WHEN is_finer THEN {WORTH} * number ELSE 0 END) >= sum(number), false) AS BOOLEAN)
         FROM (SELECT count(*) AS number, {is_finer} AS is_finer FROM {} GROUP BY {group}) AS groups",
        part.name
    );
    let has_finer = sqlx::query_scalar::<_, bool>(AssertSqlSafe(sql));
    there(has_finer.fetch_one(connection).await)
}

/// Keeps a range that is due no more finely than this; how many rows there are less. It is a transaction's, beside which nobody else writes.
pub(in crate::store) async fn roll_up(
    connection: &mut Connection,
    range: Range,
    grain: Grain,
) -> sqlx::Result<u64> {
    for setting in [PATIENCE, AT_LEISURE] {
        sqlx::query(setting).execute(&mut *connection).await?;
    }
    let parts = parts(connection).await?;
    // Somebody else may have done it meanwhile, and more.
    let is_in_another =
        |part: &Part| !part.is_before() && part.range != range && part.range.has(range);
    if parts.iter().any(is_in_another) {
        return Ok(0);
    }
    make(connection, &parts, range, grain).await
}

/// Partitions of thirty days that were before this hour, and are kept more finely than by machines.
pub(in crate::store) async fn due_to_condense(
    connection: &mut Connection,
    end: i64,
) -> sqlx::Result<Vec<Range>> {
    let mut due = Vec::new();
    for part in parts(connection).await? {
        let is_whole = !part.is_before() && !part.is_day();
        if is_whole && part.range.end <= end && is_finer(connection, &part).await? {
            due.push(part.range);
        }
    }
    Ok(due)
}

/// Whether enough races, builds and machines have more rows than are to be left.
async fn is_finer(connection: &mut Connection, part: &Part) -> sqlx::Result<bool> {
    has_finer(connection, part, "race, build, host", IS_DUE).await
}

/// Drops partitions of what was before this hour in which nothing is left. It is a transaction's, beside which nobody else writes.
pub(in crate::store) async fn drop_empty(
    connection: &mut Connection,
    end: i64,
) -> sqlx::Result<()> {
    sqlx::query(PATIENCE).execute(&mut *connection).await?;
    for part in parts(connection).await? {
        if part.range.end <= end && is_empty(connection, &part).await? {
            carry_out(connection, format!("DROP TABLE {}", part.name)).await?;
        }
    }
    Ok(())
}

async fn is_empty(connection: &mut Connection, part: &Part) -> sqlx::Result<bool> {
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM {} LIMIT 1) AS one",
        part.name
    );
    let rows: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(connection)
        .await?;
    Ok(rows == 0)
}
