//! Putting races into the store.

use std::time::SystemTime;

use super::{
    SCHEMA, Store,
    alias::Aliases,
    batch::{Batch, Caught, Counted, MOST_TIMES, Seen},
    connect::{Connection, begin},
    error::StoreError,
    summary,
    text::{digest_of, key, text},
    time::{hour, millis, millis_of},
};
use crate::report::{Race, functions_of, race_record, summary_places, variable_of};

/// Records of a race and build that are kept: the first ones.
const MOST_EVIDENCE: i64 = 20;

impl Store {
    /// Writes all or nothing. How many of the races that were caught were not there yet, by their records: one that is written again counts for nothing.
    ///
    /// # Errors
    /// The store cannot be written to, and has nothing of it.
    pub fn write(&mut self, batch: &Batch) -> Result<usize, StoreError> {
        self.database.leave_moved();
        let records = self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            let written = put_all(&mut all, batch).await?;
            all.commit().await?;
            Ok(written.records)
        })?;
        self.arrange(millis(SystemTime::now()));
        Ok(records)
    }
}

/// What was written of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    /// Records that were not there yet.
    pub(super) records: usize,
    /// Times that were counted of races that are not there.
    pub(super) passed_over: u64,
}

/// Writes a batch.
pub(super) async fn put_all(connection: &mut Connection, batch: &Batch) -> sqlx::Result<Written> {
    let mut written = Written::default();
    for caught in &batch.caught {
        written.records += usize::from(put(connection, caught).await?);
    }
    for counted in &batch.counted {
        if !count(connection, counted).await? {
            written.passed_over = written.passed_over.saturating_add(counted.times);
        }
    }
    for seen in &batch.builds {
        see(connection, seen).await?;
    }
    Ok(written)
}

/// A record as it is kept: whether a run knew it has nothing to do with the next one.
fn record(caught: &Caught) -> sqlx::Result<String> {
    let mut race = caught.race.clone();
    race.known = false;
    race_record(&race).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// The race of a record, its issue and the pair of its instructions are there from now on, if they were not; it was caught at a time.
pub(super) async fn put_names(
    connection: &mut Connection,
    race: &Race,
    at: i64,
) -> sqlx::Result<()> {
    let names = &race.identity;
    sqlx::query("INSERT INTO issue (id, functions) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING")
        .bind(&names.issue)
        .bind(text(&functions_of(race)))
        .execute(&mut *connection)
        .await?;
    let (variable, places) = (variable_of(race), summary_places(race));
    let made = sqlx::query(
        "INSERT INTO race (id, issue, variable, places, first_seen, last_seen, counts_as, issue_as, first_caught, last_caught, search_text, behind)
         VALUES ($1, $2, $3, $4, $5, $5, $1, $2, $5, $5, lower($6), 0) ON CONFLICT (id) DO NOTHING",
    )
    .bind(&names.race)
    .bind(&names.issue)
    .bind(text(&variable))
    .bind(text(&places))
    .bind(at)
    .bind(text(&format!("{} {variable} {places}", functions_of(race))))
    .execute(&mut *connection)
    .await?;
    if made.rows_affected() > 0 {
        // It, or its issue, may have been merged before it was found.
        let aliases = Aliases::read(connection).await?;
        let counts_as = [&names.race, &names.issue].map(|name| aliases.counts_as(name));
        summary::place(connection, &names.race, counts_as).await?;
    }
    if let Some(pair) = &names.pair {
        sqlx::query(
            "INSERT INTO pair (id, race) VALUES ($1, $2) ON CONFLICT (id, race) DO NOTHING",
        )
        .bind(pair)
        .bind(&names.race)
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Whether the record is a new one.
async fn put(connection: &mut Connection, caught: &Caught) -> sqlx::Result<bool> {
    let race = &caught.race;
    let names = &race.identity;
    let at = millis_of(&race.time).ok_or_else(|| {
        let wrong = format!("{} is no time", race.time);
        sqlx::Error::Encode(wrong.into())
    })?;
    let record = record(caught)?;
    let digest = digest_of(&record);
    let is_there: i64 = sqlx::query_scalar("SELECT count(*) FROM evidence WHERE digest = $1")
        .bind(&digest)
        .fetch_one(&mut *connection)
        .await?;
    if is_there > 0 {
        return Ok(false);
    }
    put_names(connection, race, at).await?;
    let build = race.build();
    let seen = Seen {
        build: build.clone(),
        exe: race.exe.clone(),
        at,
    };
    see(connection, &seen).await?;
    let counted = Counted {
        race: names.race.clone(),
        build: build.clone(),
        exe: race.exe.clone(),
        place: caught.place.clone(),
        times: caught.times,
        last: caught.last.map_or(at, |last| last.max(at)),
    };
    count(connection, &counted).await?;
    let kept: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM evidence WHERE race = $1 AND build = $2 AND record <> ''",
    )
    .bind(&names.race)
    .bind(key(&build))
    .fetch_one(&mut *connection)
    .await?;
    // Of the others the digest alone: written again, they are to count for nothing, too.
    let record = if kept < MOST_EVIDENCE { &*record } else { "" };
    sqlx::query(
        "INSERT INTO evidence (digest, race, build, caught, record) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(&digest)
    .bind(&names.race)
    .bind(key(&build))
    .bind(at)
    .bind(record)
    .execute(connection)
    .await?;
    Ok(true)
}

/// A build was watched.
async fn see(connection: &mut Connection, seen: &Seen) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO build (id, exe, first_seen, last_seen) VALUES ($1, $2, $3, $3)
         ON CONFLICT (id) DO UPDATE SET
             first_seen = CASE WHEN excluded.first_seen < build.first_seen THEN excluded.first_seen ELSE build.first_seen END,
             last_seen = CASE WHEN excluded.last_seen > build.last_seen THEN excluded.last_seen ELSE build.last_seen END",
    )
    .bind(key(&seen.build))
    .bind(text(&seen.exe))
    .bind(seen.at)
    .execute(connection)
    .await?;
    Ok(())
}

/// A race of the store was caught; one that is not there (any more) is passed over. Whether it is there.
async fn count(connection: &mut Connection, counted: &Counted) -> sqlx::Result<bool> {
    let times = i64::try_from(counted.times).map_or(MOST_TIMES, |times| times.min(MOST_TIMES));
    // An older gwp-race that goes on writing to a store which it opened before says nothing of what a race counts as.
    let counts_as: Option<String> = sqlx::query_scalar(
        "UPDATE race SET
             first_seen = CASE WHEN $2 < first_seen THEN $2 ELSE first_seen END,
             last_seen = CASE WHEN $2 > last_seen THEN $2 ELSE last_seen END
         WHERE id = $1 RETURNING CASE WHEN counts_as = '' THEN id ELSE counts_as END",
    )
    .bind(&counted.race)
    .bind(counted.last)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(counts_as) = counts_as else {
        return Ok(false);
    };
    // It may have been pruned since, when it was watched without being told anew.
    sqlx::query(
        "INSERT INTO build (id, exe, first_seen, last_seen) VALUES ($1, $2, $3, $3) ON CONFLICT (id) DO NOTHING",
    )
    .bind(key(&counted.build))
    .bind(text(&counted.exe))
    .bind(counted.last)
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "INSERT INTO sighting (race, build, host, cgroup, container, hour, times) VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (race, build, host, cgroup, container, hour) DO UPDATE SET
             times = CASE WHEN sighting.times > $8 - excluded.times THEN $8 ELSE sighting.times + excluded.times END",
    )
    .bind(&counted.race)
    .bind(key(&counted.build))
    .bind(key(&counted.place.host))
    .bind(key(&counted.place.cgroup))
    .bind(key(&counted.place.container))
    .bind(hour(counted.last))
    .bind(times)
    .bind(MOST_TIMES)
    .execute(&mut *connection)
    .await?;
    summary::add(connection, &counts_as, counted, times).await?;
    Ok(true)
}
