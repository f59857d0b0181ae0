//! Summaries of sightings by day, build and host, from which lists and pages are made: they are kept with each sighting, in the same transaction, so that nobody who
//! looks at a list adds up sightings. Those of races that were merged are with the one as which all of them count. They go with their race.

use sqlx::AssertSqlSafe;

use super::{
    batch::Counted,
    connect::Connection,
    text::key,
    time::{day_of, hour},
};

/// Sums are no larger than this, whatever something else has written: they stay numbers, and what is added to them, too.
const MOST_SUM: i64 = 1 << 53;

/// Adds what was caught of a race that counts as `race`, `times` times.
pub(super) async fn add(
    connection: &mut Connection,
    race: &str,
    counted: &Counted,
    times: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE race SET
             first_caught = CASE WHEN $2 < first_caught THEN $2 ELSE first_caught END,
             last_caught = CASE WHEN $2 > last_caught THEN $2 ELSE last_caught END,
             times = CASE WHEN times > $4 - $3 THEN $4 ELSE times + $3 END
         WHERE id = $1",
    )
    .bind(race)
    .bind(counted.last)
    .bind(times)
    .bind(MOST_SUM)
    .execute(&mut *connection)
    .await?;
    let (build, host) = (key(&counted.build), key(&counted.place.host));
    let hour = hour(counted.last);
    sqlx::query(
        "INSERT INTO race_day (race, day, build, times) VALUES ($1, $2, $3, $4)
         ON CONFLICT (race, day, build) DO UPDATE SET
             times = CASE WHEN race_day.times > $5 - excluded.times THEN $5 ELSE race_day.times + excluded.times END",
    )
    .bind(race)
    .bind(day_of(hour))
    .bind(&build)
    .bind(times)
    .bind(MOST_SUM)
    .execute(&mut *connection)
    .await?;
    BUILDS.add(connection, race, &build, (hour, times)).await?;
    if host.is_empty() {
        return Ok(());
    }
    HOSTS.add(connection, race, &host, (hour, times)).await
}

/// In what a race was caught: a table of its own has a row for each, and a column of `race` tells how many these are.
struct Among {
    table: &'static str,
    column: &'static str,
    count: &'static str,
    /// Which sightings count.
    which: &'static str,
}

const BUILDS: Among = Among {
    table: "race_build",
    column: "build",
    count: "builds",
    which: "",
};

/// Those that are known.
const HOSTS: Among = Among {
    table: "race_host",
    column: "host",
    count: "hosts",
    which: "AND host <> ''",
};

impl Among {
    /// Adds to the row of a race and a name, or makes it, and counts the race's rows. Nobody else makes the same one meanwhile: the race's own row was changed by this transaction.
    async fn add(
        &self,
        connection: &mut Connection,
        race: &str,
        name: &str,
        (hour, times): (i64, i64),
    ) -> sqlx::Result<()> {
        let Self {
            table,
            column,
            count,
            ..
        } = self;
        let update = format!(
            "UPDATE {table} SET
                 first_hour = CASE WHEN $3 < first_hour THEN $3 ELSE first_hour END,
                 last_hour = CASE WHEN $3 > last_hour THEN $3 ELSE last_hour END,
                 times = CASE WHEN times > $5 - $4 THEN $5 ELSE times + $4 END
             WHERE race = $1 AND {column} = $2"
        );
        let known = sqlx::query(AssertSqlSafe(update))
            .bind(race)
            .bind(name)
            .bind(hour)
            .bind(times)
            .bind(MOST_SUM)
            .execute(&mut *connection)
            .await?;
        if known.rows_affected() > 0 {
            return Ok(());
        }
        let insert = format!(
            "INSERT INTO {table} (race, {column}, first_hour, last_hour, times) VALUES ($1, $2, $3, $3, $4)"
        );
        sqlx::query(AssertSqlSafe(insert))
            .bind(race)
            .bind(name)
            .bind(hour)
            .bind(times)
            .execute(&mut *connection)
            .await?;
        let one_more = format!("UPDATE race SET {count} = {count} + 1 WHERE id = $1");
        let one_more = sqlx::query(AssertSqlSafe(one_more)).bind(race);
        one_more.execute(connection).await.map(drop)
    }

    /// Makes the rows of a race anew from the sightings of all that count as it.
    async fn renew(&self, connection: &mut Connection, race: &str) -> sqlx::Result<()> {
        let Self {
            table,
            column,
            count,
            which,
        } = self;
        for sql in [
            format!("DELETE FROM {table} WHERE race = $1"),
            format!(
                "INSERT INTO {table} (race, {column}, first_hour, last_hour, times)
                 SELECT own.counts_as, {column}, min(hour), max(hour), {SUM} FROM {SIGHTINGS} {which} GROUP BY own.counts_as, {column}"
            ),
            format!(
                "UPDATE race SET {count} = (SELECT count(*) FROM {table} WHERE {table}.race = race.id) WHERE id = $1"
            ),
        ] {
            let done = sqlx::query(AssertSqlSafe(sql)).bind(race);
            done.execute(&mut *connection).await?;
        }
        Ok(())
    }
}

/// All sightings of a race, `$1`, and of those that count as it.
const SIGHTINGS: &str =
    "race AS own JOIN sighting ON sighting.race = own.id WHERE own.counts_as = $1";

/// How often they were. No more than `MOST_TIMES` a row, so that sums stay numbers.
const SUM: &str = "CAST(sum(CASE WHEN sighting.times > 4294967296 THEN 4294967296 ELSE sighting.times END) AS BIGINT)";

/// A new race and its issue count as these. If there is no such race, it counts as itself.
pub(super) async fn place(
    connection: &mut Connection,
    race: &str,
    [counts_as, issue_as]: [&str; 2],
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE race SET issue_as = $3, counts_as = CASE WHEN EXISTS (SELECT 1 FROM race AS other WHERE other.id = $2) THEN $2 ELSE id END
         WHERE id = $1",
    )
    .bind(race)
    .bind(counts_as)
    .bind(issue_as)
    .execute(&mut *connection)
    .await?;
    say(connection, race).await
}

/// What was merged or split has changed: each of `groups` counts as another one now, and nothing else does. Those of `touched` have other summaries for it.
pub(super) async fn regroup(
    connection: &mut Connection,
    groups: &[(&str, &str)],
    touched: &[&str],
) -> sqlx::Result<()> {
    group(connection, groups).await?;
    for name in touched {
        renew(connection, name).await?;
    }
    Ok(())
}

async fn group(connection: &mut Connection, groups: &[(&str, &str)]) -> sqlx::Result<()> {
    for sql in [
        "UPDATE race SET counts_as = id WHERE counts_as <> id",
        "UPDATE race SET issue_as = issue WHERE issue_as <> issue",
    ] {
        sqlx::query(sql).execute(&mut *connection).await?;
    }
    for (name, counts_as) in groups {
        for sql in [
            "UPDATE race SET counts_as = $2 WHERE id = $1 AND EXISTS (SELECT 1 FROM race AS other WHERE other.id = $2)",
            "UPDATE race SET issue_as = $2 WHERE issue = $1",
        ] {
            let group = sqlx::query(sql).bind(*name).bind(*counts_as);
            group.execute(&mut *connection).await?;
        }
    }
    Ok(())
}

/// Makes the summaries of a race anew from the sightings of all that count as it, and from what was said.
pub(super) async fn renew(connection: &mut Connection, race: &str) -> sqlx::Result<()> {
    let days = format!(
        "INSERT INTO race_day (race, day, build, times)
         SELECT own.counts_as, hour / 24, build, {SUM} FROM {SIGHTINGS} GROUP BY own.counts_as, hour / 24, build"
    );
    for sql in ["DELETE FROM race_day WHERE race = $1", &*days] {
        let done = sqlx::query(AssertSqlSafe(sql.to_owned())).bind(race);
        done.execute(&mut *connection).await?;
    }
    for among in [BUILDS, HOSTS] {
        among.renew(connection, race).await?;
    }
    sqlx::query(
        "UPDATE race SET
             first_caught = (SELECT coalesce(min(own.first_seen), race.first_seen) FROM race AS own WHERE own.counts_as = race.id),
             last_caught = (SELECT coalesce(max(own.last_seen), race.last_seen) FROM race AS own WHERE own.counts_as = race.id),
             times = (SELECT CAST(coalesce(sum(race_build.times), 0) AS BIGINT) FROM race_build WHERE race_build.race = race.id),
             search_text = (SELECT lower(issue.functions || ' ' || race.variable || ' ' || race.places) FROM issue WHERE issue.id = race.issue),
             behind = 0
         WHERE id = $1",
    )
    .bind(race)
    .execute(&mut *connection)
    .await?;
    say(connection, race).await
}

/// What was said of a race, or of an issue, has changed.
pub(super) async fn say(connection: &mut Connection, name: &str) -> sqlx::Result<()> {
    for sql in [
        "UPDATE race SET triage = (SELECT coalesce(max(triage.number), 0) FROM triage WHERE triage.name IN (race.id, race.issue_as)) WHERE id = $1",
        "UPDATE race SET triage = (SELECT coalesce(max(triage.number), 0) FROM triage WHERE triage.name IN (race.id, race.issue_as)) WHERE issue_as = $1",
    ] {
        sqlx::query(sql)
            .bind(name)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
