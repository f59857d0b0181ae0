//! All that is known of one race, as far as a page has room.

use sqlx::AssertSqlSafe;

use super::{
    list::{COLUMNS, DAYS, JOINED, RaceRow, Row, lately, with_days},
    select::{RACES, STATE, Select},
};
use crate::{
    report::Race,
    store::{
        Store,
        build::{Build, BuildRow, SHORT},
        connect::Connection,
        error::StoreError,
        races::read,
        time::{day_of, hour},
        triage::{self, Said},
    },
};

/// Builds that are shown, machines, words, and races that count as one.
const MOST_BUILDS: i64 = 100;
const MOST_HOSTS: i64 = 50;
const MOST_SAID: i64 = 50;
const MOST_MERGED: i64 = 50;
/// Records that are kept of a race and build.
const MOST_EVIDENCE: i64 = 20;
/// Counts of days and builds that are read: more than all of these builds have.
const MOST_DAYS: i64 = 20_000;
/// Days of which each build is counted.
pub const COUNTED_DAYS: i64 = 60;

/// A race.
#[derive(Clone, Debug)]
pub struct Details {
    /// As the list has it.
    pub row: Row,
    /// Other races that count as it.
    pub merged: Vec<String>,
    /// How many races its issue has.
    pub of_issue: i64,
    /// What was said of it and of its issue, the last first.
    pub said: Vec<Said>,
    /// Who sees to it; nobody where it is empty.
    pub owner: String,
    /// Where it was caught, the newest build first.
    pub builds: Vec<InBuild>,
    /// Builds of the same programs in which it was not caught, the newest first.
    pub others: Vec<Build>,
    /// Machines where it was caught, those where it was caught last first.
    pub hosts: Vec<OnHost>,
    /// The last days, the last first.
    pub days: Vec<OnDay>,
    /// What records there are, the last first.
    pub evidence: Vec<Evidence>,
    /// The one that is shown.
    pub record: Option<(Evidence, Race)>,
}

/// A build in which a race was caught.
#[derive(Clone, Debug)]
pub struct InBuild {
    /// The build.
    pub build: Build,
    /// The hours when first and last, counted from 1970.
    pub hours: [i64; 2],
    /// How often.
    pub times: i64,
    /// How often on each of the last days, today last.
    pub days: Vec<i64>,
}

/// A machine on which a race was caught.
#[derive(Clone, Debug)]
pub struct OnHost {
    /// Its name.
    pub host: String,
    /// The hours when first and last, counted from 1970.
    pub hours: [i64; 2],
    /// How often.
    pub times: i64,
}

/// How often a race was caught on a day.
#[derive(Clone, Debug)]
pub struct OnDay {
    /// Counted from 1970.
    pub day: i64,
    /// In this build.
    pub build: String,
    /// How often.
    pub times: i64,
}

/// A record that is kept.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Its name.
    pub digest: String,
    /// The build.
    pub build: String,
    /// When, milliseconds since 1970.
    pub caught: i64,
}

type InBuildRow = (String, String, i64, i64, i64, i64);

impl Store {
    /// All that is known of the race as which the one of exactly this name counts, with the record of this digest or the last one. Nothing where the store has no such race, or it no such record.
    ///
    /// # Errors
    /// The store cannot be read, or has something else in a record's place.
    pub fn details(
        &mut self,
        race: &str,
        digest: Option<&str>,
        now: i64,
    ) -> Result<Option<Details>, StoreError> {
        let found = self.with(async |connection| details(connection, race, digest, now).await)?;
        let Some((mut details, record)) = found else {
            return Ok(None);
        };
        if let Some((evidence, record)) = record {
            details.record = Some((evidence, read(&record, &self.database.place())?));
        }
        Ok(Some(details))
    }
}

type Found = (Details, Option<(Evidence, String)>);

async fn details(
    connection: &mut Connection,
    race: &str,
    digest: Option<&str>,
    now: i64,
) -> sqlx::Result<Option<Found>> {
    let mut select = Select::at(
        now,
        format!("SELECT {COLUMNS} FROM (SELECT race.id AS id, {STATE} AS state FROM {RACES}"),
    );
    select.text(
        " AND race.id = (SELECT counts_as FROM race WHERE id = ?)",
        race,
    );
    select.push(&format!(") {JOINED}"));
    let rows: Vec<RaceRow> = select.rows(&mut *connection).await?;
    let Some(row) = rows.into_iter().next() else {
        return Ok(None);
    };
    let row = with_days(connection, row, now).await?;
    let race = &*row.id;
    let evidence = evidence(connection, race).await?;
    let shown = match digest {
        Some(digest) => evidence.iter().find(|evidence| evidence.digest == digest),
        None => evidence.first(),
    };
    let record = match shown {
        Some(shown) => Some((shown.clone(), record(connection, &shown.digest).await?)),
        None if digest.is_some() => return Ok(None),
        None => None,
    };
    let days = days(connection, race, now).await?;
    let said = triage::last_of(connection, [&row.id, &row.issue], MOST_SAID).await?;
    let word = said.iter().max_by_key(|said| said.weight(now));
    let word = word.filter(|said| !said.is_over(now));
    let details = Details {
        owner: word.map_or_else(String::new, |said| said.owner.clone()),
        merged: merged(connection, race).await?,
        of_issue: sqlx::query_scalar(
            "SELECT count(*) FROM race WHERE issue_as = $1 AND counts_as = id",
        )
        .bind(&row.issue)
        .fetch_one(&mut *connection)
        .await?,
        said,
        builds: builds(connection, race, &days, now).await?,
        others: others(connection, race).await?,
        hosts: hosts(connection, race).await?,
        days,
        evidence,
        record: None,
        row: row.clone(),
    };
    Ok(Some((details, record)))
}

async fn merged(connection: &mut Connection, race: &str) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar("SELECT id FROM race WHERE counts_as = $1 AND id <> $1 ORDER BY id LIMIT $2")
        .bind(race)
        .bind(MOST_MERGED)
        .fetch_all(connection)
        .await
}

async fn evidence(connection: &mut Connection, race: &str) -> sqlx::Result<Vec<Evidence>> {
    let rows: Vec<(String, String, i64)> = sqlx::query_as(
        "SELECT digest, build, caught FROM evidence WHERE race IN (SELECT id FROM race WHERE counts_as = $1) AND record <> ''
         ORDER BY caught DESC, digest LIMIT $2",
    )
    .bind(race)
    .bind(MOST_EVIDENCE)
    .fetch_all(connection)
    .await?;
    let all = rows.into_iter().map(|(digest, build, caught)| Evidence {
        digest,
        build,
        caught,
    });
    Ok(all.collect())
}

async fn record(connection: &mut Connection, digest: &str) -> sqlx::Result<String> {
    sqlx::query_scalar("SELECT record FROM evidence WHERE digest = $1")
        .bind(digest)
        .fetch_one(connection)
        .await
}

async fn days(connection: &mut Connection, race: &str, now: i64) -> sqlx::Result<Vec<OnDay>> {
    let rows: Vec<(i64, String, i64)> = sqlx::query_as(
        "SELECT day, build, times FROM race_day WHERE race = $1 AND day > $2 ORDER BY day DESC, build LIMIT $3",
    )
    .bind(race)
    .bind(day_of(hour(now)) - COUNTED_DAYS)
    .bind(MOST_DAYS)
    .fetch_all(connection)
    .await?;
    let all = rows.into_iter();
    Ok(all
        .map(|(day, build, times)| OnDay { day, build, times })
        .collect())
}

async fn builds(
    connection: &mut Connection,
    race: &str,
    days: &[OnDay],
    now: i64,
) -> sqlx::Result<Vec<InBuild>> {
    let sql = format!(
        "SELECT {SHORT}, race_build.first_hour, race_build.last_hour, race_build.times
         FROM race_build JOIN build ON build.id = race_build.build
         WHERE race_build.race = $1 ORDER BY build.first_seen DESC, build.id LIMIT $2"
    );
    let rows: Vec<InBuildRow> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(race)
        .bind(MOST_BUILDS)
        .fetch_all(connection)
        .await?;
    let all = rows.into_iter().map(|row| {
        let (id, exe, first_seen, first, last, times) = row;
        let own = days.iter().filter(|day| day.build == id);
        InBuild {
            days: lately(own.map(|day| (day.day, day.times)), now),
            build: Build::from((id, exe, first_seen)),
            hours: [first, last],
            times,
        }
    });
    Ok(all.collect())
}

async fn others(connection: &mut Connection, race: &str) -> sqlx::Result<Vec<Build>> {
    let sql = format!(
        "SELECT {SHORT} FROM build
         WHERE build.exe IN (SELECT own.exe FROM race_build JOIN build AS own ON own.id = race_build.build WHERE race_build.race = $1)
             AND build.id NOT IN (SELECT build FROM race_build WHERE race = $1)
         ORDER BY build.first_seen DESC, build.id LIMIT $2"
    );
    let rows: Vec<BuildRow> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(race)
        .bind(MOST_BUILDS)
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(Build::from).collect())
}

async fn hosts(connection: &mut Connection, race: &str) -> sqlx::Result<Vec<OnHost>> {
    let rows: Vec<(String, i64, i64, i64)> = sqlx::query_as(
        "SELECT host, first_hour, last_hour, times FROM race_host WHERE race = $1 ORDER BY last_hour DESC, host LIMIT $2",
    )
    .bind(race)
    .bind(MOST_HOSTS)
    .fetch_all(connection)
    .await?;
    let all = rows.into_iter().map(|(host, first, last, times)| OnHost {
        host,
        hours: [first, last],
        times,
    });
    Ok(all.collect())
}

/// A sparkline's days are among those that are counted by build.
const _: () = assert!(DAYS <= COUNTED_DAYS);
