//! Summaries (`summary.rs`) that are behind: of a store of before they were kept, of races that have got other names, and of what was written by somebody who does not keep them. They are made anew when a store
//! is opened, some races in a turn, so that others can write meanwhile; whoever is ended before that is done leaves the others to who opens it next.

use sqlx::AssertSqlSafe;

use super::{
    SCHEMA,
    alias::Aliases,
    connect::{Connection, begin},
    engine::Engine,
    summary,
    turn::{Turn, give_way},
};

/// Races whose names are read at once. One that is caught often has a hundred thousand sightings.
const BATCH: i64 = 32;

/// All summaries are behind from now on.
pub(super) async fn leave_behind(connection: &mut Connection) -> sqlx::Result<()> {
    let all = sqlx::query("UPDATE race SET behind = 1");
    all.execute(connection).await.map(drop)
}

/// The names of the next races whose summaries are behind.
async fn behind(connection: &mut Connection) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar("SELECT id FROM race WHERE behind <> 0 ORDER BY id LIMIT $1")
        .bind(BATCH)
        .fetch_all(connection)
        .await
}

/// Races that were caught after what their summaries tell.
const LATER: &str = "FROM race AS own JOIN race AS other ON other.id = own.counts_as WHERE own.last_seen > other.last_caught";

/// Makes those anew that are behind.
pub(super) async fn catch_up(connection: &mut Connection) -> sqlx::Result<()> {
    let later = AssertSqlSafe(format!("SELECT count(*) {LATER}"));
    let later: i64 = sqlx::query_scalar(later)
        .fetch_one(&mut *connection)
        .await?;
    if later == 0 && behind(connection).await?.is_empty() {
        return Ok(());
    }
    let mut all = begin(connection, &SCHEMA).await?;
    let later = format!("UPDATE race SET behind = 1 WHERE id IN (SELECT other.id {LATER})");
    let later = sqlx::query(AssertSqlSafe(later));
    later.execute(&mut *all).await?;
    let aliases = Aliases::read(&mut all).await?;
    summary::regroup(&mut all, &aliases.pairs(), &[]).await?;
    // What counts as another race counts there.
    sqlx::query("UPDATE race SET behind = 1 WHERE id IN (SELECT counts_as FROM race AS other WHERE other.behind <> 0)")
        .execute(&mut *all)
        .await?;
    all.commit().await?;
    loop {
        let engine = Engine::behind(connection);
        let mut all = begin(connection, &SCHEMA).await?;
        let is_done = renew_some(&mut all).await?;
        all.commit().await?;
        if is_done {
            return Ok(());
        }
        give_way(engine);
    }
}

/// Makes those anew for which there is time in a turn; whether none is left.
async fn renew_some(all: &mut Connection) -> sqlx::Result<bool> {
    let turn = Turn::begin();
    loop {
        let names = behind(&mut *all).await?;
        if names.is_empty() {
            return Ok(true);
        }
        for name in &names {
            summary::renew(&mut *all, name).await?;
            if turn.is_over() {
                return Ok(false);
            }
        }
    }
}
