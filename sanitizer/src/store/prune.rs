//! Forgetting what is old.

use super::{Store, connect::begin, error::StoreError};

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
    /// Forgets those of these races that were not caught since `before`, and builds without any that were not watched since then (milliseconds since 1970). What was said of an issue is forgotten with
    /// its last race. The file gets smaller.
    ///
    /// # Errors
    /// The store cannot be written to; nothing is forgotten then, unless it was only that there is no room for the copy by which the file gets smaller.
    pub fn forget(&mut self, races: &[String], before: i64) -> Result<Pruned, StoreError> {
        let pruned = self.with(async |connection| {
            let mut all = begin(connection).await?;
            let mut forgotten = 0;
            for race in races {
                // Somebody may have caught it again since it was chosen.
                let is_old: i64 =
                    sqlx::query_scalar("SELECT count(*) FROM race WHERE id = $1 AND last_seen < $2")
                        .bind(race)
                        .bind(before)
                        .fetch_one(&mut *all)
                        .await?;
                if is_old == 0 {
                    continue;
                }
                forgotten += 1;
                for sql in [
                    "DELETE FROM evidence WHERE race = $1",
                    "DELETE FROM sighting WHERE race = $1",
                    "DELETE FROM pair WHERE race = $1",
                    "DELETE FROM triage WHERE name = $1",
                    "DELETE FROM race WHERE id = $1",
                ] {
                    sqlx::query(sql).bind(race).execute(&mut *all).await?;
                }
            }
            for sql in [
                "DELETE FROM triage WHERE name NOT IN (SELECT id FROM race) AND name NOT IN (SELECT issue FROM race)",
                "DELETE FROM issue WHERE id NOT IN (SELECT issue FROM race)",
            ] {
                sqlx::query(sql).execute(&mut *all).await?;
            }
            let builds = sqlx::query(
                "DELETE FROM build WHERE last_seen < $1 AND id NOT IN (SELECT build FROM sighting)
                 AND id NOT IN (SELECT build FROM evidence)",
            )
            .bind(before)
            .execute(&mut *all)
            .await?;
            for sql in [
                "DELETE FROM gap WHERE sender IN (SELECT id FROM sender WHERE last_seen < $1)",
                "DELETE FROM sender WHERE last_seen < $1",
            ] {
                let silent = sqlx::query(sql).bind(before.saturating_sub(LONGER));
                silent.execute(&mut *all).await?;
            }
            all.commit().await?;
            Ok(Pruned {
                races: forgotten,
                builds: builds.rows_affected(),
            })
        })?;
        self.with(async |connection| sqlx::query("VACUUM").execute(connection).await)?;
        Ok(pruned)
    }
}
