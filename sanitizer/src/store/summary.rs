//! Summaries of sightings by day, build and host, from which lists and pages are made: they are kept with each sighting, in the same transaction, so that nobody who
//! looks at a list adds up sightings. Their rows go with their race.
//!
//! Whoever moves sightings from one race to another calls [`renew`] for both; whoever adds or renames what people have said calls [`say`].

use super::{
    batch::Counted,
    connect::Connection,
    time::{day_of, hour},
};

/// Sums are no larger than this, whatever something else has written: they stay numbers, and what is added to them, too.
pub(super) const MOST_SUM: i64 = 1 << 53;

/// Adds what was caught of a race whose row this transaction has changed already, `times` times.
pub(super) async fn add(
    connection: &mut Connection,
    counted: &Counted,
    times: i64,
) -> sqlx::Result<()> {
    let hour = hour(counted.last);
    sqlx::query(
        "INSERT INTO race_day (race, day, build, times) VALUES ($1, $2, $3, $4)
         ON CONFLICT (race, day, build) DO UPDATE SET
             times = CASE WHEN race_day.times + excluded.times > $5 THEN $5 ELSE race_day.times + excluded.times END",
    )
    .bind(&counted.race)
    .bind(day_of(hour))
    .bind(&counted.build)
    .bind(times)
    .bind(MOST_SUM)
    .execute(&mut *connection)
    .await?;
    let at = (hour, times);
    let in_build = [
        "UPDATE race_build SET
             first_hour = CASE WHEN $3 < first_hour THEN $3 ELSE first_hour END,
             last_hour = CASE WHEN $3 > last_hour THEN $3 ELSE last_hour END,
             times = CASE WHEN times + $4 > $5 THEN $5 ELSE times + $4 END
         WHERE race = $1 AND build = $2",
        "INSERT INTO race_build (race, build, first_hour, last_hour, times) VALUES ($1, $2, $3, $3, $4)",
        "UPDATE race SET builds = builds + 1 WHERE id = $1",
    ];
    add_to(connection, in_build, &counted.race, &counted.build, at).await?;
    if counted.place.host.is_empty() {
        return Ok(());
    }
    let on_host = [
        "UPDATE race_host SET
             first_hour = CASE WHEN $3 < first_hour THEN $3 ELSE first_hour END,
             last_hour = CASE WHEN $3 > last_hour THEN $3 ELSE last_hour END,
             times = CASE WHEN times + $4 > $5 THEN $5 ELSE times + $4 END
         WHERE race = $1 AND host = $2",
        "INSERT INTO race_host (race, host, first_hour, last_hour, times) VALUES ($1, $2, $3, $3, $4)",
        "UPDATE race SET hosts = hosts + 1 WHERE id = $1",
    ];
    add_to(connection, on_host, &counted.race, &counted.place.host, at).await
}

/// Adds to the row of a race and a name, or makes it, and counts the race's rows. Nobody else makes the same one meanwhile: the race's own row is changed by this transaction.
async fn add_to(
    connection: &mut Connection,
    [update, insert, count]: [&'static str; 3],
    race: &str,
    name: &str,
    (hour, times): (i64, i64),
) -> sqlx::Result<()> {
    let known = sqlx::query(update)
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
    sqlx::query(insert)
        .bind(race)
        .bind(name)
        .bind(hour)
        .bind(times)
        .execute(&mut *connection)
        .await?;
    sqlx::query(count).bind(race).execute(connection).await?;
    Ok(())
}

/// Makes the summaries of a race anew from its sightings, and from what was said of it.
pub(super) async fn renew(connection: &mut Connection, race: &str) -> sqlx::Result<()> {
    for sql in [
        "DELETE FROM race_day WHERE race = $1",
        "DELETE FROM race_build WHERE race = $1",
        "DELETE FROM race_host WHERE race = $1",
        "INSERT INTO race_day (race, day, build, times)
         SELECT race, hour / 24, build, CAST(sum(CASE WHEN times > 4294967296 THEN 4294967296 ELSE times END) AS BIGINT)
         FROM sighting WHERE race = $1 GROUP BY race, hour / 24, build",
        "INSERT INTO race_build (race, build, first_hour, last_hour, times)
         SELECT race, build, min(hour), max(hour), CAST(sum(CASE WHEN times > 4294967296 THEN 4294967296 ELSE times END) AS BIGINT)
         FROM sighting WHERE race = $1 GROUP BY race, build",
        "INSERT INTO race_host (race, host, first_hour, last_hour, times)
         SELECT race, host, min(hour), max(hour), CAST(sum(CASE WHEN times > 4294967296 THEN 4294967296 ELSE times END) AS BIGINT)
         FROM sighting WHERE race = $1 AND host <> '' GROUP BY race, host",
        "UPDATE race SET
             times = (SELECT CAST(coalesce(sum(race_build.times), 0) AS BIGINT) FROM race_build WHERE race_build.race = race.id),
             builds = (SELECT count(*) FROM race_build WHERE race_build.race = race.id),
             hosts = (SELECT count(*) FROM race_host WHERE race_host.race = race.id)
         WHERE id = $1",
    ] {
        sqlx::query(sql).bind(race).execute(&mut *connection).await?;
    }
    say(connection, race).await
}

/// What was said of a race, or of an issue, has changed.
pub(super) async fn say(connection: &mut Connection, name: &str) -> sqlx::Result<()> {
    for sql in [
        "UPDATE race SET triage = (SELECT coalesce(max(triage.number), 0) FROM triage WHERE triage.name IN (race.id, race.issue)) WHERE id = $1",
        "UPDATE race SET triage = (SELECT coalesce(max(triage.number), 0) FROM triage WHERE triage.name IN (race.id, race.issue)) WHERE issue = $1",
    ] {
        sqlx::query(sql).bind(name).execute(&mut *connection).await?;
    }
    Ok(())
}
