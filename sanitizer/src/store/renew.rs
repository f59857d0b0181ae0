//! Races that were put in when names were made by another rule (`report::identity`): when a store is opened they are named anew, from their records, so that what was found
//! and said is not forgotten. Where the new rule tells races from each other that had one name, what was said holds for each of them, and counts stay with the one that was caught last.

use std::collections::BTreeMap;

use sqlx::SqliteConnection;

use super::{
    connect::begin,
    triage::{said, take_down},
    write::{digest_of, put_names},
};
use crate::report::{IDENTITY_VERSION, Race, SCHEMA, identity, race_record};

/// The new names of an old one, each once; the last is that of what was caught last.
type Renamed = BTreeMap<String, Vec<String>>;

/// Between which texts the names are that races have by today's rule.
fn bounds() -> [String; 2] {
    // The sign behind a colon.
    [':', ';'].map(|end| format!("r{IDENTITY_VERSION}{end}"))
}

/// Names races of another rule anew, where there are any.
pub(super) async fn renew(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    if !is_due(connection).await? {
        return Ok(());
    }
    let mut all = begin(connection).await?;
    renew_all(&mut all).await?;
    all.commit().await
}

/// Whether the store has races of another rule.
async fn is_due(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    let [from, to] = bounds();
    let old: i64 = sqlx::query_scalar("SELECT count(*) FROM race WHERE id < $1 OR id >= $2")
        .bind(from)
        .bind(to)
        .fetch_one(connection)
        .await?;
    Ok(old > 0)
}

/// Names them anew, but for those whose records cannot be read.
async fn renew_all(all: &mut SqliteConnection) -> sqlx::Result<()> {
    let [from, to] = bounds();
    let evidence: Vec<(String, String, String, i64, String)> = sqlx::query_as(
        "SELECT race, issue, digest, caught, record FROM evidence JOIN race ON race.id = evidence.race
         WHERE record <> '' AND (race < $1 OR race >= $2) ORDER BY caught, digest",
    )
    .bind(from)
    .bind(to)
    .fetch_all(&mut *all)
    .await?;
    let mut races = Renamed::new();
    let mut names = Renamed::new();
    for (old, old_issue, digest, caught, record) in evidence {
        let race = serde_json::from_str::<Race>(&record);
        let Some(mut race) = race.ok().filter(|race| race.schema == SCHEMA) else {
            continue;
        };
        race.identity = identity(&race);
        put_names(all, &race, caught).await?;
        replace(all, &digest, &race).await?;
        let of_issue = names.entry(old_issue).or_default();
        last(of_issue, race.identity.issue);
        last(races.entry(old).or_default(), race.identity.race);
    }
    for (old, new) in &races {
        move_counts(all, old, new).await?;
    }
    names.append(&mut races);
    rename_said(all, &names).await?;
    sqlx::query("DELETE FROM issue WHERE id NOT IN (SELECT issue FROM race)")
        .execute(all)
        .await?;
    Ok(())
}

/// Puts a name last in a list that has each once.
fn last(names: &mut Vec<String>, name: String) {
    names.retain(|other| *other != name);
    names.push(name);
}

/// Puts a record in the place of the one of this digest.
async fn replace(all: &mut SqliteConnection, old: &str, race: &Race) -> sqlx::Result<()> {
    let record = race_record(race).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let digest = digest_of(&record);
    let there: i64 = sqlx::query_scalar("SELECT count(*) FROM evidence WHERE digest = $1")
        .bind(&digest)
        .fetch_one(&mut *all)
        .await?;
    if there > 0 {
        sqlx::query("DELETE FROM evidence WHERE digest = $1")
            .bind(old)
            .execute(all)
            .await?;
        return Ok(());
    }
    sqlx::query("UPDATE evidence SET digest = $1, race = $2, record = $3 WHERE digest = $4")
        .bind(&digest)
        .bind(&race.identity.race)
        .bind(&record)
        .bind(old)
        .execute(all)
        .await?;
    Ok(())
}

/// Gives the last of the new races what was counted for the old one, and all of them its times; the old one goes.
async fn move_counts(all: &mut SqliteConnection, old: &str, new: &[String]) -> sqlx::Result<()> {
    for name in new {
        sqlx::query(
            "UPDATE race SET
                 first_seen = CASE WHEN old.first_seen < race.first_seen THEN old.first_seen ELSE race.first_seen END,
                 last_seen = CASE WHEN old.last_seen > race.last_seen THEN old.last_seen ELSE race.last_seen END
             FROM race AS old WHERE race.id = $1 AND old.id = $2",
        )
        .bind(name)
        .bind(old)
        .execute(&mut *all)
        .await?;
    }
    let heir = new.last().map(String::as_str).unwrap_or_default();
    for sql in [
        "INSERT INTO sighting (race, build, host, container, hour, times)
         SELECT $1, build, host, container, hour, times FROM sighting WHERE race = $2
         ON CONFLICT (race, build, host, container, hour) DO UPDATE SET times = sighting.times + excluded.times",
        "UPDATE evidence SET race = $1 WHERE race = $2",
        "DELETE FROM sighting WHERE race = $2 AND race <> $1",
        "DELETE FROM pair WHERE race = $2 AND race <> $1",
        "DELETE FROM race WHERE id = $2 AND id <> $1",
    ] {
        let query = sqlx::query(sql).bind(heir).bind(old);
        query.execute(&mut *all).await?;
    }
    Ok(())
}

/// Lets all that was said stand of the new names, in the same order.
async fn rename_said(all: &mut SqliteConnection, names: &Renamed) -> sqlx::Result<()> {
    let words = said(all).await?;
    sqlx::query("DELETE FROM triage").execute(&mut *all).await?;
    let mut number = 0;
    for word in words {
        let new = names.get(&word.name).cloned();
        for name in new.unwrap_or_else(|| vec![word.name.clone()]) {
            number += 1;
            let mut word = word.clone();
            (word.name, word.number) = (name, number);
            take_down(all, &word).await?;
        }
    }
    Ok(())
}
