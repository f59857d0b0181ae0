//! PostgreSQL. Whatever is not in the address is taken from the environment (`PGHOST`, `PGUSER`, `PGPASSWORD` and so on) and from `~/.pgpass`, as by its own programs.

pub(super) mod days;

use std::{env, time::Duration};

use sqlx::{ConnectOptions as _, any::AnyConnectOptions};
use url::Url;

use super::Backend;
use crate::store::{
    error::Kind,
    schema::{Connection, Found, Schema},
};

/// The shortest time in which a connection can be made: some trips to a server far away and back.
pub(super) const CONNECTS: Duration = Duration::from_secs(2);

/// Statements of one transaction see what was written until each began, and whoever writes holds this lock (`gwpr`) until the end: so the store can look and then write, as with SQLite.
pub(super) const BEGIN: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(1735880818)";

/// How many tables there are in the schema in which new ones are made, but for those that extensions have brought; -1 where one of them says whose they are. In one statement, since somebody may make them meanwhile.
const TABLES: &str =
    "SELECT CASE WHEN to_regclass('gwp_race') IS NULL THEN (SELECT count(*) FROM pg_class AS found
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
    AND relkind IN ('r', 'p', 'v', 'm', 'f')
    AND NOT EXISTS (SELECT 1 FROM pg_depend
        WHERE classid = 'pg_class'::regclass AND objid = found.oid AND deptype = 'e')) ELSE -1 END";

/// How many tables are called so.
pub(super) const TABLES_OF_NAME: &str =
    "SELECT CAST(CASE WHEN to_regclass(CAST($1 AS TEXT)) IS NULL THEN 0 ELSE 1 END AS BIGINT)";

/// Has a process break off its statement, if it is the one that was meant: by now another one may have its number, or another server answer. Each user may have that of his own ones.
pub(in crate::store) const CANCEL: &str = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
    WHERE pid = $1 AND CAST(EXTRACT(EPOCH FROM backend_start) AS TEXT) = $2";

/// The process behind a connection.
pub(super) async fn backend(connection: &mut Connection) -> sqlx::Result<Backend> {
    let (number, began) = sqlx::query_as(
        "SELECT pid, CAST(EXTRACT(EPOCH FROM backend_start) AS TEXT) FROM pg_stat_activity WHERE pid = pg_backend_pid()",
    )
    .fetch_one(connection)
    .await?;
    Ok(Backend { number, began })
}

pub(super) fn options(url: &Url) -> sqlx::Result<AnyConnectOptions> {
    const NAME: &str = "application_name";
    let mut url = url.clone();
    let is_named = url.query_pairs().any(|(name, _)| name == NAME);
    if !is_named && env::var_os("PGAPPNAME").is_none() {
        url.query_pairs_mut().append_pair(NAME, "gwp-race");
    }
    AnyConnectOptions::from_url(&url)
}

/// Begins a transaction that writes nothing, and sees what was there when its first statement began. The server gives up itself what takes longer: nobody would wait for it any more.
pub(super) fn look_within(limit: Duration) -> String {
    format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {}",
        limit.as_millis().max(1)
    )
}

pub(super) fn settings(patience: Duration) -> String {
    // A process that is stopped within a transaction keeps all others from writing; a statement that takes ten minutes comes to no end.
    format!(
        "SET lock_timeout = {}; SET statement_timeout = '10min'; \
         SET idle_in_transaction_session_timeout = '30s'; SET client_min_messages = warning",
        patience.as_millis().max(1)
    )
}

/// Whose a database is stands in a table. Those who may make triggers and views there are trusted, since they administer it.
pub(super) async fn look(connection: &mut Connection, schema: &Schema) -> sqlx::Result<Found> {
    let tables: i64 = sqlx::query_scalar(TABLES)
        .fetch_one(&mut *connection)
        .await?;
    if tables == 0 {
        return Ok(Found::Nothing);
    }
    if tables > 0 {
        return Ok(Found::Foreign);
    }
    let holds: Option<String> = sqlx::query_scalar("SELECT holds FROM gwp_race")
        .fetch_optional(connection)
        .await?;
    Ok(if holds.as_deref() == Some(schema.what) {
        Found::Ours
    } else {
        Found::Foreign
    })
}

pub(super) async fn mark(connection: &mut Connection, schema: &Schema) -> sqlx::Result<()> {
    sqlx::query("CREATE TABLE IF NOT EXISTS gwp_race (holds TEXT NOT NULL)")
        .execute(&mut *connection)
        .await?;
    sqlx::query("INSERT INTO gwp_race (holds) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM gwp_race)")
        .bind(schema.what)
        .execute(connection)
        .await
        .map(drop)
}

/// By its codes (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
pub(super) fn kind(code: &str) -> Kind {
    match code {
        // serialization_failure, deadlock_detected, lock_not_available, query_canceled
        "40001" | "40P01" | "55P03" | "57014" => Kind::Locked,
        // disk_full
        "53100" => Kind::Full,
        // data_corrupted, index_corrupted
        "XX001" | "XX002" => Kind::Damaged,
        // read_only_sql_transaction, insufficient_privilege
        "25006" | "42501" => Kind::ReadOnly,
        // invalid_catalog_name
        "3D000" => Kind::Missing,
        // invalid_authorization_specification, invalid_password
        "28000" | "28P01" => Kind::Refused,
        // too_many_connections, idle_in_transaction_session_timeout, admin_shutdown, crash_shutdown, cannot_connect_now, idle_session_timeout
        "53300" | "25P03" | "57P01" | "57P02" | "57P03" | "57P05" => Kind::Away,
        // connection_exception and its kind
        code if code.starts_with("08") => Kind::Away,
        _ => Kind::Other,
    }
}

pub(super) const fn mend(kind: Kind) -> &'static str {
    match kind {
        Kind::Locked => {
            "somebody else keeps it busy (`SELECT * FROM pg_stat_activity` tells who): try again later"
        }
        Kind::Away => {
            "see that the server runs and can be reached from here (`psql` with the same address), or try again later"
        }
        Kind::Refused => {
            "see the user, the password ($PGPASSWORD or ~/.pgpass) and the server's pg_hba.conf"
        }
        Kind::Missing => "make it (`createdb --owner USER DATABASE`), or name another one",
        Kind::Full => "make room on the server's disk",
        Kind::Damaged => "its content is not what was written: restore a copy of before",
        Kind::ReadOnly => {
            "let the user own the database (`ALTER DATABASE NAME OWNER TO USER`), and name a server that is no standby"
        }
        Kind::Other => {
            "see that the address is right, that it is PostgreSQL 12 or newer, and what the server's log says"
        }
    }
}
