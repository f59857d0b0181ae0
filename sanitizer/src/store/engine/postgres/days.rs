//! Partitions of the table of sightings, which has nearly all rows of a store of many machines: a day is one until it is a week old, and then one of the thirty days that it is in. So
//! that hours of a day become one row is no matter of rows that are changed and deleted, which leave holes behind them: what remains is written to a new table, and those that were there are dropped.
//!
//! Whoever writes sees once an hour that today and the days to come have a partition. Where one cannot be made, since somebody reads for long, or the user may not, its rows are in the partition of what has none of
//! its own: it has also whatever was seen by a clock that is wrong. They are moved when it is made. Two never make the same one: whoever writes is alone.

use sqlx::AssertSqlSafe;

use crate::store::{
    batch::MOST_TIMES,
    schema::Connection,
    time::{HOURS_OF_DAY, begin_of, day},
};

/// Where a row is that has no partition of its own.
pub(in crate::store) const OTHER: &str = "sighting_other";
/// Days that get a partition before they begin.
const AHEAD: i64 = 2;
/// Days back in which what comes late gets one: hosts keep what they cannot send.
const BACK: i64 = 7;
/// Days that are one partition when all of them are old. Each partition is locked by whoever reads, and PostgreSQL has room for some thousand locks.
const BLOCK: i64 = 30 * HOURS_OF_DAY;
/// Rows without a partition of their own that are worth one.
const ENOUGH: i64 = 10_000;
/// How long somebody who reads is waited for: others wait for us meanwhile.
const PATIENCE: &str = "SET LOCAL lock_timeout = '200ms'";

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

    const fn has(self, other: Self) -> bool {
        self.begin <= other.begin && other.end <= self.end
    }
}

/// A partition.
#[derive(Debug)]
struct Part {
    name: String,
    range: Range,
}

/// All that have a range.
async fn parts(connection: &mut Connection) -> sqlx::Result<Vec<Part>> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT CAST(part.relname AS TEXT), pg_get_expr(part.relpartbound, part.oid)
         FROM pg_inherits JOIN pg_class AS part ON part.oid = inhrelid WHERE inhparent = 'sighting'::regclass ORDER BY 1",
    )
    .fetch_all(connection)
    .await?;
    let part = |(name, bound): (String, String)| {
        // FOR VALUES FROM ('490896') TO ('490920')
        let numbers = bound.split(|c: char| !c.is_ascii_digit());
        let mut numbers = numbers.filter_map(|number| number.parse().ok());
        let range = Range {
            begin: numbers.next()?,
            end: numbers.next()?,
        };
        Some(Part { name, range })
    };
    Ok(rows.into_iter().filter_map(part).collect())
}

async fn carry_out(connection: &mut Connection, sql: String) -> sqlx::Result<()> {
    let done = sqlx::raw_sql(AssertSqlSafe(sql));
    done.execute(connection).await.map(drop)
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

/// Makes one partition of a range and of those that are in it, with what is there of it; with a row a day of what was seen in the same place where hours do not matter any more. How many rows there are less.
async fn make(
    connection: &mut Connection,
    parts: &[Part],
    range: Range,
    has_hours: bool,
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
        format!("CREATE TABLE {name} (LIKE sighting INCLUDING INDEXES)"),
    )
    .await?;
    let place = "race, build, host, cgroup, container";
    let copy = if has_hours {
        format!("SELECT {place}, hour, times FROM sighting WHERE hour >= {begin} AND hour < {end}")
    } else {
        format!(
            "SELECT {place}, max(hour), CAST(sum(CASE WHEN times > {MOST_TIMES} THEN {MOST_TIMES} ELSE times END) AS BIGINT)
             FROM sighting WHERE hour >= {begin} AND hour < {end} GROUP BY {place}, hour / {HOURS_OF_DAY}"
        )
    };
    carry_out(
        connection,
        format!("INSERT INTO {name} ({place}, hour, times) {copy}"),
    )
    .await?;
    let mut sql = format!("DELETE FROM {OTHER} WHERE hour >= {begin} AND hour < {end};");
    for part in parts.iter().filter(|part| range.has(part.range)) {
        sql.push_str(&format!("DROP TABLE {};", part.name));
    }
    sql.push_str(&format!(
        "ALTER TABLE sighting ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end})"
    ));
    carry_out(connection, sql).await?;
    Ok(before.saturating_sub(count(connection, range).await?))
}

/// Sees that today, the next days, and those of the last week of which something has come late have a partition. It is a transaction's, beside which nobody else writes.
pub(in crate::store) async fn arrange(connection: &mut Connection, hour: i64) -> sqlx::Result<()> {
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
    for range in days.into_iter().map(Range::of_day) {
        let parts = parts(connection).await?;
        if !parts.iter().any(|part| part.range.has(range)) {
            sqlx::query(PATIENCE).execute(&mut *connection).await?;
            make(connection, &parts, range, true).await?;
        }
    }
    Ok(())
}

/// The ranges whose rows are to become one a day, since all of each was before this hour: thirty days where all of them were, and single days.
pub(in crate::store) async fn due(
    connection: &mut Connection,
    end: i64,
) -> sqlx::Result<Vec<Range>> {
    let parts = parts(connection).await?;
    let many: Vec<i64> = sqlx::query_scalar(
        "SELECT hour / $1 FROM sighting_other WHERE hour >= 0 AND hour < $2 GROUP BY 1 HAVING count(*) >= $3",
    )
    .bind(BLOCK)
    .bind(end)
    .bind(ENOUGH)
    .fetch_all(&mut *connection)
    .await?;
    let block = |number: i64| Range {
        begin: number * BLOCK,
        end: (number + 1) * BLOCK,
    };
    let is_day = |range: Range| range.end - range.begin < BLOCK;
    let days = parts.iter().filter(|part| is_day(part.range));
    let blocks = days.map(|part| part.range.begin.div_euclid(BLOCK));
    let mut blocks: Vec<i64> = blocks.chain(many).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let mut due: Vec<Range> = blocks.into_iter().map(block).collect();
    due.retain(|range| range.end <= end);
    for part in parts.iter().filter(|part| part.range.end <= end) {
        if !due.iter().any(|range| range.has(part.range)) && has_hours(connection, part).await? {
            due.push(part.range);
        }
    }
    Ok(due)
}

/// Whether there is a day with more than one row of what was seen in the same place.
async fn has_hours(connection: &mut Connection, part: &Part) -> sqlx::Result<bool> {
    let sql = format!(
        "SELECT CAST(count(*) AS BIGINT) FROM (SELECT 1 FROM {} GROUP BY race, build, host, cgroup, container, hour / {HOURS_OF_DAY}
         HAVING count(*) > 1 LIMIT 1) AS several",
        part.name
    );
    let several: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(connection)
        .await?;
    Ok(several > 0)
}

/// Makes one row a day of what was seen in the same place in a range that is due; how many rows there are less. It is a transaction's, beside which nobody else writes.
pub(in crate::store) async fn roll_up(
    connection: &mut Connection,
    range: Range,
) -> sqlx::Result<u64> {
    let parts = parts(connection).await?;
    // Somebody else may have done it meanwhile, and more.
    let is_in_another = |part: &Part| part.range != range && part.range.has(range);
    if parts.iter().any(is_in_another) {
        return Ok(0);
    }
    make(connection, &parts, range, false).await
}

/// Drops partitions of what was before this hour in which nothing is left. It is a transaction's, beside which nobody else writes.
pub(in crate::store) async fn drop_empty(
    connection: &mut Connection,
    end: i64,
) -> sqlx::Result<()> {
    for part in parts(connection).await? {
        if part.range.end <= end && count(connection, part.range).await? == 0 {
            carry_out(connection, format!("DROP TABLE {}", part.name)).await?;
        }
    }
    Ok(())
}
