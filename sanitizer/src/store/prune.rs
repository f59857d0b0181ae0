//! Forgetting what is old.

use std::collections::HashSet;

use super::{
    SCHEMA, Store,
    alias::Aliases,
    connect::{Connection, begin, shrink},
    engine::Engine,
    error::StoreError,
    learned::{forget_old, old_builds},
    time::hour,
    turn::Turn,
};

/// So much longer a sender of messages must have been silent before it is forgotten, milliseconds: what it sends again then would be taken twice.
const LONGER: i64 = 30 * 86_400_000;

/// What was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Races with all that was known of them.
    pub races: usize,
    /// Builds that have no races any more, and were not watched since.
    pub builds: u64,
}

impl Store {
    /// Forgets those of these races that were not caught since `before`, with all that count as them, and builds without any that were not watched since then (milliseconds since 1970). What was said of an issue is forgotten with
    /// its last race. A file gets smaller.
    ///
    /// # Errors
    /// The store cannot be written to; what was forgotten until then stays so, each race as a whole. Or it was only that there is no room for the copy by which the file gets smaller.
    pub fn forget(&mut self, races: &[String], before: i64) -> Result<Pruned, StoreError> {
        self.prune(races, before, false)
    }

    /// The same, but for races of which, or of whose issues, somebody has said something, and those that were merged: be it after they were chosen.
    ///
    /// # Errors
    /// As with [`Self::forget`].
    pub fn forget_untouched(
        &mut self,
        races: &[String],
        before: i64,
    ) -> Result<Pruned, StoreError> {
        self.prune(races, before, true)
    }

    fn prune(
        &mut self,
        races: &[String],
        before: i64,
        keeps_touched: bool,
    ) -> Result<Pruned, StoreError> {
        let mut pruned = Pruned::default();
        self.in_turns(
            races,
            async |all: &mut Connection, races: &[String], turn: Turn| {
                let (looked_at, forgotten) =
                    forget(all, races, before, keeps_touched, turn).await?;
                pruned.races += forgotten;
                Ok(looked_at)
            },
        )?;
        let (builds, learned) = self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            forget_others(&mut all, before).await?;
            all.commit().await?;
            let learned = old_builds(&mut *connection, before).await?;
            Ok((idle_builds(connection, before).await?, learned))
        })?;
        self.in_turns(
            &learned,
            async |all: &mut Connection, builds: &[i64], turn: Turn| {
                forget_old(all, builds, before, turn).await
            },
        )?;
        self.in_turns(
            &builds,
            async |all: &mut Connection, builds: &[String], turn: Turn| {
                let (looked_at, forgotten) = forget_builds(all, builds, before, turn).await?;
                pruned.builds += forgotten;
                Ok(looked_at)
            },
        )?;
        let dropped = self.with(async |connection| {
            let engine = Engine::behind(connection);
            let mut all = begin(connection, &SCHEMA).await?;
            engine.drop_empty(&mut all, hour(before)).await?;
            all.commit().await
        });
        match dropped {
            // Those who read are let read.
            Err(error) if error.is_locked() => {
                tracing::info!(
                    "the room of what was forgotten is given back the next time: {error}"
                );
            }
            dropped => dropped?,
        }
        self.with(async |connection| shrink(connection).await)?;
        Ok(pruned)
    }
}

/// Forgets races, as far as a turn has time for them: how many were looked at, and how many are forgotten.
async fn forget(
    all: &mut Connection,
    races: &[String],
    before: i64,
    keeps_touched: bool,
    turn: Turn,
) -> sqlx::Result<(usize, usize)> {
    let aliases = Aliases::read(&mut *all).await?;
    let mut forgotten = 0;
    for (nth, race) in (0..).zip(races) {
        if nth > 0 && turn.is_over() {
            return Ok((nth, forgotten));
        }
        // It may have been merged since it was chosen, and lives on in the other one.
        if aliases.counts_as(race) != race {
            continue;
        }
        let names: Vec<&str> = std::iter::once(&**race)
            .chain(aliases.others(race))
            .collect();
        if keeps_touched && (names.len() > 1 || is_touched(&mut *all, race).await?) {
            continue;
        }
        // Somebody may have caught it again since it was chosen.
        let mut last: Option<i64> = None;
        for name in &names {
            let of_name: Option<i64> =
                sqlx::query_scalar("SELECT last_seen FROM race WHERE id = $1")
                    .bind(*name)
                    .fetch_optional(&mut *all)
                    .await?;
            last = last.max(of_name);
        }
        if last.is_none_or(|last| last >= before) {
            continue;
        }
        forgotten += 1;
        for name in names {
            for sql in [
                "DELETE FROM evidence WHERE race = $1",
                "DELETE FROM sighting WHERE race = $1",
                "DELETE FROM pair WHERE race = $1",
                "DELETE FROM triage WHERE name = $1",
                "DELETE FROM alias WHERE name = $1",
                "DELETE FROM race WHERE id = $1",
            ] {
                sqlx::query(sql).bind(name).execute(&mut *all).await?;
            }
        }
    }
    Ok((races.len(), forgotten))
}

/// Whether somebody has said something of a race or of its issue, or has merged its issue.
async fn is_touched(all: &mut Connection, race: &str) -> sqlx::Result<bool> {
    let touched: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM race WHERE id = $1 AND (triage > 0 OR issue_as <> issue)",
    )
    .bind(race)
    .fetch_one(all)
    .await?;
    Ok(touched > 0)
}

/// Builds that were not watched since a time, and in which no race was caught, by what summaries tell.
async fn idle_builds(connection: &mut Connection, before: i64) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar(
        "SELECT id FROM build WHERE last_seen < $1
         AND NOT EXISTS (SELECT 1 FROM race_build WHERE race_build.build = build.id) ORDER BY id",
    )
    .bind(before)
    .fetch_all(connection)
    .await
}

/// Forgets those of these builds that have nothing, as far as a turn has time for them: how many were looked at, and how many are forgotten.
async fn forget_builds(
    all: &mut Connection,
    builds: &[String],
    before: i64,
    turn: Turn,
) -> sqlx::Result<(usize, u64)> {
    let mut forgotten = 0;
    for (nth, build) in (0..).zip(builds) {
        if nth > 0 && turn.is_over() {
            return Ok((nth, forgotten));
        }
        // Each by an index, also where the engine looks itself who refers to it.
        let done = sqlx::query(
            "DELETE FROM build WHERE id = $1 AND last_seen < $2
             AND NOT EXISTS (SELECT 1 FROM sighting WHERE sighting.build = $1)
             AND NOT EXISTS (SELECT 1 FROM evidence WHERE evidence.build = $1)",
        )
        .bind(build)
        .bind(before)
        .execute(&mut *all)
        .await?;
        forgotten += done.rows_affected();
    }
    Ok((builds.len(), forgotten))
}

/// Forgets names that mean nothing any more, and senders.
async fn forget_others(all: &mut Connection, before: i64) -> sqlx::Result<()> {
    let aliases = Aliases::read(&mut *all).await?;
    forget_names(&mut *all, &aliases).await?;
    for sql in [
        "DELETE FROM gap WHERE sender IN (SELECT id FROM sender WHERE last_seen < $1)",
        "DELETE FROM sender WHERE last_seen < $1",
    ] {
        let silent = sqlx::query(sql).bind(before.saturating_sub(LONGER));
        silent.execute(&mut *all).await?;
    }
    Ok(())
}

/// Forgets what was said of names that mean nothing any more: no race has them, and none counts as them.
async fn forget_names(all: &mut Connection, aliases: &Aliases) -> sqlx::Result<()> {
    let left: Vec<String> = sqlx::query_scalar("SELECT id FROM race UNION SELECT issue FROM race")
        .fetch_all(&mut *all)
        .await?;
    let left: HashSet<&str> = left.iter().map(|name| aliases.counts_as(name)).collect();
    for (names, delete) in [
        (
            "SELECT DISTINCT name FROM triage",
            "DELETE FROM triage WHERE name = $1",
        ),
        (
            "SELECT DISTINCT name FROM alias",
            "DELETE FROM alias WHERE name = $1",
        ),
        ("SELECT id FROM issue", "DELETE FROM issue WHERE id = $1"),
    ] {
        let mut names: Vec<String> = sqlx::query_scalar(names).fetch_all(&mut *all).await?;
        names.retain(|name| !left.contains(aliases.counts_as(name)));
        for name in names {
            sqlx::query(delete).bind(name).execute(&mut *all).await?;
        }
    }
    Ok(())
}
