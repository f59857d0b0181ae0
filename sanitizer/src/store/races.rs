//! The races of the store, with what is known of each.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use super::{
    Store,
    batch::Whereabouts,
    connect::Connection,
    error::StoreError,
    state::State,
    time::{begin_of, hour},
    triage::{self, Said},
    write::MOST_TIMES,
};
use crate::report::{Race, Record, parse_records};

/// A race.
#[derive(Clone, Debug)]
pub struct StoredRace {
    /// Its name, `identity.race`.
    pub id: String,
    /// That of its issue.
    pub issue: String,
    /// The functions of both sides.
    pub functions: String,
    /// The variable; may be empty.
    pub variable: String,
    /// Function, file and line of both sides.
    pub places: String,
    /// When it was caught first, milliseconds since 1970.
    pub first_seen: i64,
    /// When it was caught last, the same.
    pub last_seen: i64,
    /// How often it was caught.
    pub times: i64,
    /// What is to be thought of it.
    pub state: State,
    /// What was said of it last.
    pub said: Option<Said>,
    /// In which builds it was caught, and where.
    pub seen: Vec<SeenIn>,
}

/// Where a race was caught.
#[derive(Clone, Debug)]
pub struct SeenIn {
    /// The build.
    pub build: Build,
    /// Where.
    pub place: Whereabouts,
    /// How often.
    pub times: i64,
    /// The last hour in which it was, counted from 1970.
    pub(super) hour: i64,
}

/// A program that was watched.
#[derive(Clone, Debug)]
pub struct Build {
    /// Its name.
    pub id: String,
    /// The executable.
    pub exe: String,
    /// When it was watched first, milliseconds since 1970.
    pub first_seen: i64,
}

impl Build {
    /// Whether it has no build id: then it is named by its path, and what is built there later has the same name.
    #[must_use]
    pub fn is_path(&self) -> bool {
        self.id.starts_with("exe:")
    }
}

impl SeenIn {
    /// Since when the race is known to be in this build, for one that was caught last at `last_seen`, milliseconds since 1970. What is named by its path may be a new build whenever
    /// it is watched: there it is the last time, which is known to the hour where the race was caught elsewhere after that.
    fn since(&self, last_seen: i64) -> i64 {
        if !self.build.is_path() {
            self.build.first_seen
        } else if self.hour == hour(last_seen) {
            last_seen
        } else {
            begin_of(self.hour)
        }
    }
}

type RaceRow = (String, String, String, String, String, i64, i64);
type SeenRow = (
    String,
    String,
    String,
    i64,
    String,
    String,
    String,
    i64,
    i64,
);

impl Store {
    /// All races, those that were caught last first; their states are those of the time `now`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn races(&mut self, now: i64) -> Result<Vec<StoredRace>, StoreError> {
        self.with(async |connection| races(connection, now).await)
    }

    /// All builds, the first first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn builds(&mut self) -> Result<Vec<Build>, StoreError> {
        self.with(async |connection| {
            let rows: Vec<(String, String, i64)> =
                sqlx::query_as("SELECT id, exe, first_seen FROM build ORDER BY first_seen, id")
                    .fetch_all(connection)
                    .await?;
            let all = rows.into_iter().map(|(id, exe, first_seen)| Build {
                id,
                exe,
                first_seen,
            });
            Ok(all.collect())
        })
    }

    /// The records of a race, the last first, in one build or in all.
    ///
    /// # Errors
    /// The store cannot be read, or has something else in their place.
    pub fn evidence(&mut self, race: &str, build: Option<&str>) -> Result<Vec<Race>, StoreError> {
        let records: Vec<(String, String)> = self.with(async |connection| {
            sqlx::query_as(
                "SELECT build, record FROM evidence WHERE race = $1 AND record <> '' ORDER BY caught DESC, digest",
            )
            .bind(race)
            .fetch_all(connection)
            .await
        })?;
        let wanted = records
            .iter()
            .filter(|(of, _)| build.is_none_or(|build| of == build));
        let races = wanted.map(|(_, record)| read(record, &self.path));
        races.collect()
    }
}

/// Reads a record back.
pub(super) fn read(record: &str, path: &Path) -> Result<Race, StoreError> {
    let wrong = |said: String| StoreError::Record {
        path: path.to_owned(),
        said,
    };
    let name = PathBuf::from("record");
    let read = parse_records(&format!("{record}\n"), &name);
    let mut read = read.map_err(|error| wrong(error.to_string()))?;
    match (read.records.pop(), read.records.is_empty()) {
        (Some(Record::Race(race)), true) => Ok(*race),
        _ => Err(wrong("it is no race".to_owned())),
    }
}

async fn races(connection: &mut Connection, now: i64) -> sqlx::Result<Vec<StoredRace>> {
    let rows: Vec<RaceRow> = sqlx::query_as(
        "SELECT race.id, race.issue, issue.functions, race.variable, race.places, race.first_seen, race.last_seen
         FROM race JOIN issue ON issue.id = race.issue ORDER BY race.last_seen DESC, race.id",
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut seen = seen_in(connection).await?;
    let last = triage::last(triage::said(connection).await?);
    let races = rows.into_iter().map(|row| {
        let (id, issue, functions, variable, places, first_seen, last_seen) = row;
        let seen = seen.remove(&id).unwrap_or_default();
        let said = [last.get(&id), last.get(&issue)].into_iter().flatten();
        let said = said.max_by_key(|said| said.number).cloned();
        let builds = seen.iter().map(|seen| seen.since(last_seen));
        StoredRace {
            state: State::of(said.as_ref(), builds.max().unwrap_or_default(), now),
            times: (seen.iter()).fold(0, |all, seen| all.saturating_add(seen.times)),
            id,
            issue,
            functions,
            variable,
            places,
            first_seen,
            last_seen,
            said,
            seen,
        }
    });
    Ok(races.collect())
}

/// Where each race was caught: the first build first.
async fn seen_in(connection: &mut Connection) -> sqlx::Result<HashMap<String, Vec<SeenIn>>> {
    let rows: Vec<SeenRow> = sqlx::query_as(
        "SELECT sighting.race, sighting.build, build.exe, build.first_seen, sighting.host, sighting.cgroup, sighting.container,
             CAST(sum(CASE WHEN sighting.times > $1 THEN $1 ELSE sighting.times END) AS BIGINT), max(sighting.hour)
         FROM sighting JOIN build ON build.id = sighting.build
         GROUP BY sighting.race, sighting.build, build.exe, build.first_seen, sighting.host, sighting.cgroup, sighting.container
         ORDER BY build.first_seen, sighting.build, sighting.host, sighting.cgroup, sighting.container",
    )
    // Something else may have written more, whose sum would be no number.
    .bind(MOST_TIMES)
    .fetch_all(connection)
    .await?;
    let mut seen: HashMap<String, Vec<SeenIn>> = HashMap::new();
    for (race, build, exe, first_seen, host, cgroup, container, times, hour) in rows {
        seen.entry(race).or_default().push(SeenIn {
            build: Build {
                id: build,
                exe,
                first_seen,
            },
            place: Whereabouts {
                host,
                cgroup,
                container,
            },
            times,
            hour,
        });
    }
    Ok(seen)
}
