//! The races of the store, with what is known of each. Those that were merged are one here.

use std::{cmp::Reverse, collections::HashMap, path::PathBuf};

use super::{
    Store,
    alias::Aliases,
    batch::{MOST_TIMES, Whereabouts},
    build::Build,
    connect::Connection,
    error::StoreError,
    state::State,
    time::{begin_of, hour},
    triage::{self, Said},
};
use crate::report::{Race, Record, parse_records};

/// A race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRace {
    /// Its name, `identity.race`.
    pub id: String,
    /// That of its issue.
    pub issue: String,
    /// The names of the races that count as it.
    pub merged: Vec<String>,
    /// Further issues by which it was caught: those that count as its issue, and those of races that count as it.
    pub issues: Vec<String>,
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
    /// What counts of all that was said of it, or was said last where all of that is over.
    pub said: Option<Said>,
    /// In which builds it was caught, and where.
    pub seen: Vec<SeenIn>,
}

impl StoredRace {
    /// Another one counts as it.
    fn add(&mut self, other: Self) {
        self.first_seen = self.first_seen.min(other.first_seen);
        self.last_seen = self.last_seen.max(other.last_seen);
        for issue in other.issues.into_iter().chain([other.issue]) {
            if issue != self.issue && !self.issues.contains(&issue) {
                self.issues.push(issue);
            }
        }
        self.merged.extend(other.merged);
        self.merged.sort_unstable();
        self.issues.sort_unstable();
    }

    /// The names by which it was caught.
    pub fn ids(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.id).chain(&self.merged)
    }

    /// Its issue, and the others by which it was caught.
    pub fn all_issues(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.issue).chain(&self.issues)
    }

    /// All names that are its own, of races and issues.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let names = self.ids().chain(self.all_issues());
        names.map(String::as_str).collect()
    }

    /// Who sees to it at a time; nobody where it is empty.
    #[must_use]
    pub fn owner(&self, now: i64) -> &str {
        let said = self.said.as_ref().filter(|said| !said.is_over(now));
        said.map_or("", |said| &said.owner)
    }
}

/// Where a race was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
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

type RecordRow = (i64, String, String, String);
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

    /// The records of a race and of those that count as it, the last first, in one build or in all.
    ///
    /// # Errors
    /// The store cannot be read, or has something else in their place.
    pub fn evidence(&mut self, race: &str, build: Option<&str>) -> Result<Vec<Race>, StoreError> {
        let mut records = self.with(async |connection| {
            let aliases = Aliases::read(&mut *connection).await?;
            let mut records: Vec<RecordRow> = Vec::new();
            for name in std::iter::once(race).chain(aliases.others(race)) {
                let of_name: Vec<RecordRow> = sqlx::query_as(
                    "SELECT caught, digest, build, record FROM evidence WHERE race = $1 AND record <> ''",
                )
                .bind(name)
                .fetch_all(&mut *connection)
                .await?;
                records.extend(of_name);
            }
            Ok(records)
        })?;
        records.retain(|(_, _, of, _)| build.is_none_or(|build| of == build));
        records.sort_by(|(caught, digest, ..), (other, other_digest, ..)| {
            (Reverse(caught), digest).cmp(&(Reverse(other), other_digest))
        });
        let place = self.database.place();
        let races = records.iter().map(|(.., record)| read(record, &place));
        races.collect()
    }
}

/// Reads a record back.
pub(super) fn read(record: &str, place: &str) -> Result<Race, StoreError> {
    let wrong = |said: String| StoreError::Record {
        place: place.to_owned(),
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
         FROM race JOIN issue ON issue.id = race.issue",
    )
    .fetch_all(&mut *connection)
    .await?;
    let aliases = Aliases::read(&mut *connection).await?;
    let mut seen = seen_in(&mut *connection, &aliases).await?;
    let last = triage::last(triage::said(connection).await?, now);
    let mut races = merged(rows, &aliases);
    for race in &mut races {
        race.seen = seen.remove(&race.id).unwrap_or_default();
        let said = [last.get(&race.id), last.get(&race.issue)];
        let said = said.into_iter().flatten();
        race.said = said.max_by_key(|said| said.weight(now)).cloned();
        let builds = race.seen.iter().map(|seen| seen.since(race.last_seen));
        race.state = State::of(race.said.as_ref(), builds.max().unwrap_or_default(), now);
        race.times = (race.seen.iter()).fold(0, |all, seen| all.saturating_add(seen.times));
    }
    races.sort_by(|a, b| (Reverse(a.last_seen), &a.id).cmp(&(Reverse(b.last_seen), &b.id)));
    Ok(races)
}

/// The races of these rows, of which several may be one: it is told as the one into which the others were merged. Where they were caught and what was said is not known yet.
fn merged(rows: Vec<RaceRow>, aliases: &Aliases) -> Vec<StoredRace> {
    let mut races: Vec<StoredRace> = Vec::with_capacity(rows.len());
    let mut places: HashMap<String, usize> = HashMap::with_capacity(rows.len());
    for row in rows {
        let (own, own_issue, functions, variable, places_of, first_seen, last_seen) = row;
        let is_itself = aliases.counts_as(&own) == own;
        let id = aliases.counts_as(&own).to_owned();
        let mut race = StoredRace {
            issue: aliases.counts_as(&own_issue).to_owned(),
            merged: Vec::new(),
            issues: Vec::new(),
            functions,
            variable,
            places: places_of,
            first_seen,
            last_seen,
            times: 0,
            state: State::New,
            said: None,
            seen: Vec::new(),
            id: id.clone(),
        };
        if !is_itself {
            race.merged.push(own);
        }
        if race.issue != own_issue {
            race.issues.push(own_issue);
        }
        match places.get(&id).and_then(|place| races.get_mut(*place)) {
            Some(there) if is_itself => {
                std::mem::swap(there, &mut race);
                there.add(race);
            }
            Some(there) => there.add(race),
            None => {
                places.insert(id, races.len());
                races.push(race);
            }
        }
    }
    races
}

/// Where each race was caught, by whichever of its names: the first build first.
async fn seen_in(
    connection: &mut Connection,
    aliases: &Aliases,
) -> sqlx::Result<HashMap<String, Vec<SeenIn>>> {
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
        let place = Whereabouts {
            host,
            cgroup,
            container,
        };
        let of_race = seen.entry(aliases.counts_as(&race).to_owned()).or_default();
        // Those of one place follow each other.
        let before = of_race.last_mut();
        if let Some(before) =
            before.filter(|before| before.build.id == build && before.place == place)
        {
            before.times = before.times.saturating_add(times);
            before.hour = before.hour.max(hour);
            continue;
        }
        of_race.push(SeenIn {
            build: Build::from((build, exe, first_seen)),
            place,
            times,
            hour,
        });
    }
    Ok(seen)
}
