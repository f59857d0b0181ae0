//! Races that were put in when names were made by another rule (`report::identity`): when a store is opened they are named anew, from their records, so that what was found
//! and said is not forgotten. Where the new rule tells races from each other that had one name, what was said holds for each of them, and counts stay with the one that was caught last.

use std::collections::BTreeMap;

use super::{
    SCHEMA as STORE,
    alias::{self, Merge},
    catch_up::leave_behind,
    connect::{Connection, begin},
    log::{Entry, entries},
    text::digest_of,
    triage::{self, Said},
    write::put_names,
};
use crate::report::{IDENTITY_VERSION, Race, SCHEMA, identity, race_record};

/// The new names of an old one, each once; the last is that of what was caught last.
type Renamed = BTreeMap<String, Vec<String>>;

/// By which rule the races of a store are named.
pub(super) async fn named_by(connection: &mut Connection) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT max(version) FROM naming")
        .fetch_one(connection)
        .await
}

/// Names races of an older rule anew, once.
pub(super) async fn renew(connection: &mut Connection) -> sqlx::Result<()> {
    let is_due = |version| version < i64::from(IDENTITY_VERSION);
    if !is_due(named_by(connection).await?) {
        return Ok(());
    }
    let mut all = begin(connection, &STORE).await?;
    // Somebody else may have done it meanwhile.
    if is_due(named_by(&mut all).await?) {
        renew_all(&mut all).await?;
        sqlx::query("UPDATE naming SET version = $1")
            .bind(i64::from(IDENTITY_VERSION))
            .execute(&mut *all)
            .await?;
    }
    all.commit().await
}

/// Names them anew, but for those whose records cannot be read.
async fn renew_all(all: &mut Connection) -> sqlx::Result<()> {
    // The records themselves, one by one: all of them may be more than fits into memory.
    let digests: Vec<String> = sqlx::query_scalar(
        "SELECT digest FROM evidence WHERE record <> '' ORDER BY caught, digest",
    )
    .fetch_all(&mut *all)
    .await?;
    let mut races = Renamed::new();
    let mut issues = Renamed::new();
    for digest in digests {
        let (old, old_issue, caught, record): (String, String, i64, String) = sqlx::query_as(
            "SELECT race, issue, caught, record FROM evidence JOIN race ON race.id = evidence.race WHERE digest = $1",
        )
        .bind(&digest)
        .fetch_one(&mut *all)
        .await?;
        let race = serde_json::from_str::<Race>(&record);
        let Some(mut race) = race.ok().filter(|race| race.schema == SCHEMA) else {
            continue;
        };
        race.identity = identity(&race);
        if race.identity.race == old {
            continue;
        }
        put_names(all, &race, caught).await?;
        replace(all, &digest, &race).await?;
        last(issues.entry(old_issue).or_default(), race.identity.issue);
        last(races.entry(old).or_default(), race.identity.race);
    }
    for (old, new) in &races {
        move_counts(all, old, new).await?;
    }
    for (old, new) in &mut issues {
        // What was said holds for races that have kept their names, too.
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM race WHERE issue = $1")
            .bind(old)
            .fetch_one(&mut *all)
            .await?;
        if left > 0 {
            last(new, old.clone());
        }
    }
    races.append(&mut issues);
    rename_said(all, &races).await?;
    leave_behind(all).await?;
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
async fn replace(all: &mut Connection, old: &str, race: &Race) -> sqlx::Result<()> {
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
async fn move_counts(all: &mut Connection, old: &str, new: &[String]) -> sqlx::Result<()> {
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
        "INSERT INTO sighting (race, build, host, cgroup, container, hour, times)
         SELECT $1, build, host, cgroup, container, hour, times FROM sighting WHERE race = $2
         ON CONFLICT (race, build, host, cgroup, container, hour) DO UPDATE SET times = sighting.times + excluded.times",
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

/// Lets all that was said stand of the new names, in the same order. What was merged into a race or issue that has become several is merged into the one that was caught last.
async fn rename_said(all: &mut Connection, names: &Renamed) -> sqlx::Result<()> {
    let entries = entries(&mut *all).await?;
    for sql in ["DELETE FROM triage", "DELETE FROM alias"] {
        sqlx::query(sql).execute(&mut *all).await?;
    }
    let mut number = 0;
    for entry in entries {
        let new = names.get(entry.name()).cloned();
        for name in new.unwrap_or_else(|| vec![entry.name().to_owned()]) {
            number += 1;
            match &entry {
                Entry::Said(said) => {
                    let said = Said {
                        name,
                        number,
                        ..said.clone()
                    };
                    triage::take_down(&mut *all, &said).await?;
                }
                Entry::Merge(merge) => {
                    let target = names.get(&merge.target).and_then(|new| new.last());
                    let target = target.unwrap_or(&merge.target).clone();
                    // The new rule takes both for one, or both have become the same ones.
                    if target == name {
                        continue;
                    }
                    let merge = Merge {
                        name,
                        number,
                        target,
                        ..merge.clone()
                    };
                    alias::take_down(&mut *all, &merge).await?;
                }
            }
        }
    }
    Ok(())
}
