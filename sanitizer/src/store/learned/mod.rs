//! What hosts have learned of functions, summed up: `receive` adds what a message has, [`Store::learned`] reads the sums of a build.
//!
//! Sums fade by a half-life, by this store's own clock; of a build there is a megabyte at most, of a name and of all there is a number of builds, and what nobody has told anything of for long is forgotten. It is hints, and not trusted by whoever reads it.

mod add;
mod read;

use std::time::Duration;

use super::{
    connect::Connection,
    text::{key, number_of},
    turn::Turn,
};
use crate::learned::Module;

pub(super) use add::add_all;

/// What a function takes beside what was seen in it, and the most that those of a build take together, bytes.
const ROW: i64 = 32;
const MOST_OF_BUILD: i64 = 1 << 20;
/// Builds of one name, and of all.
const MOST_BUILDS: i64 = 16;
const MOST_OF_ALL: i64 = 1024;
/// After so long, milliseconds, what was told of a build last is forgotten: five half-lives.
const LONGEST: i64 = 35 * 86_400_000;
/// The time in which half of what was learned is forgotten.
const HALF_LIFE: Duration = crate::learned::HALF_LIFE;

/// The number of a build.
fn id_of(module: &Module) -> i64 {
    number_of(&format!("{}/{}", module.build, module.name))
}

/// The name of a module as every engine takes it.
fn name_of(module: &Module) -> String {
    key(&module.name)
}

/// Forgets a build.
async fn forget(connection: &mut Connection, id: i64) -> sqlx::Result<()> {
    for sql in [
        "DELETE FROM learned WHERE build = $1",
        "DELETE FROM learned_build WHERE id = $1",
    ] {
        sqlx::query(sql).bind(id).execute(&mut *connection).await?;
    }
    Ok(())
}

/// The builds of which nothing was told since then (milliseconds since 1970).
pub(super) async fn old_builds(connection: &mut Connection, before: i64) -> sqlx::Result<Vec<i64>> {
    sqlx::query_scalar("SELECT id FROM learned_build WHERE told < $1 ORDER BY id")
        .bind(before)
        .fetch_all(connection)
        .await
}

/// Forgets those of these builds of which nothing was told meanwhile either, as far as a turn has time for them: how many were looked at.
pub(super) async fn forget_old(
    all: &mut Connection,
    builds: &[i64],
    before: i64,
    turn: Turn,
) -> sqlx::Result<usize> {
    for (nth, build) in (0..).zip(builds) {
        if nth > 0 && turn.is_over() {
            return Ok(nth);
        }
        let told: Option<i64> = sqlx::query_scalar("SELECT told FROM learned_build WHERE id = $1")
            .bind(build)
            .fetch_optional(&mut *all)
            .await?;
        if told.is_some_and(|told| told < before) {
            forget(&mut *all, *build).await?;
        }
    }
    Ok(builds.len())
}
