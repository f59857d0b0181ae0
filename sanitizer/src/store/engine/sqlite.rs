//! SQLite, which works in a thread of its own that `sqlx` starts.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use sqlx::any::AnyConnectOptions;

use crate::{
    report::{DatabaseFileError, database_file},
    store::{
        error::{Kind, StoreError},
        schema::{Access, Connection, Found, Schema},
    },
};

/// How long it is before something that was locked is tried again, where SQLite does not do so itself.
const PAUSE: Duration = Duration::from_millis(5);

/// The longest that who waits for a lock sleeps before he looks again (`sqliteDefaultBusyCallback` in SQLite's main.c), and some more.
pub(super) const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(110);

/// Two that have only read would both wait for the other one to end before they write.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

/// What is read then is as it is when the first statement reads.
pub(super) const LOOK: &str = "BEGIN";

/// How many tables are called so.
pub(super) const TABLES_OF_NAME: &str =
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1";

/// The real path of a file.
pub(super) fn find(path: &Path, access: Access) -> Result<PathBuf, StoreError> {
    let path = database_file(path, access == Access::Create)?;
    if path.to_str().is_none() {
        return Err(DatabaseFileError::Name { path }.into());
    }
    Ok(path)
}

pub(super) fn options(path: &Path) -> sqlx::Result<AnyConnectOptions> {
    let mut url = "sqlite://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => url.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => url.push(char::from(*byte)),
            byte => {
                write!(url, "%{byte:02X}").map_err(|error| sqlx::Error::Encode(error.into()))?
            }
        }
    }
    url.parse()
}

pub(super) fn settings(patience: Duration) -> String {
    // Functions that a schema calls are not to do anything but compute. And races are few, and one may have taken a week to be caught: it is on the disk when a transaction has ended.
    format!(
        "PRAGMA busy_timeout = {}; PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL",
        patience.as_millis()
    )
}

/// Whose a file is stands in its head.
pub(super) async fn look(connection: &mut Connection, schema: &Schema) -> sqlx::Result<Found> {
    let number = |sql: &'static str| sqlx::query_scalar::<sqlx::Any, i64>(sql);
    // First of all, since somebody may make them meanwhile.
    let tables = number("SELECT count(*) FROM sqlite_master")
        .fetch_one(&mut *connection)
        .await?;
    if tables == 0 {
        return Ok(Found::Nothing);
    }
    let application = number("PRAGMA application_id")
        .fetch_one(&mut *connection)
        .await?;
    // They would be carried out, and can drop or change what is written; none of ours has any.
    let programs = number("SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view')")
        .fetch_one(connection)
        .await?;
    Ok(if application == schema.application && programs == 0 {
        Found::Ours
    } else {
        Found::Foreign
    })
}

/// Has changes written to a file of their own first: whoever lists races while they are written waits for nobody so.
pub(super) async fn write_ahead(
    connection: &mut Connection,
    patience: Duration,
) -> sqlx::Result<()> {
    let end = Instant::now() + patience;
    loop {
        let wal = sqlx::query("PRAGMA journal_mode = WAL");
        let done = wal.execute(&mut *connection).await;
        let code = |error: &sqlx::Error| {
            let error = error.as_database_error()?;
            error.code().map(|code| kind(&code))
        };
        match done {
            // SQLite does not wait here by itself for another one who does the same: that could be for ever.
            Err(error) if code(&error) == Some(Kind::Locked) && Instant::now() < end => {
                thread::sleep(PAUSE);
            }
            done => return done.map(drop),
        }
    }
}

pub(super) async fn mark(connection: &mut Connection, schema: &Schema) -> sqlx::Result<()> {
    let sql = format!("PRAGMA application_id = {}", schema.application);
    let done = sqlx::query(sqlx::AssertSqlSafe(sql));
    done.execute(connection).await.map(drop)
}

/// By its result codes (<https://www.sqlite.org/rescode.html>), of which the lowest byte is the primary one.
pub(super) fn kind(code: &str) -> Kind {
    match code.parse::<i32>().unwrap_or_default() & 0xff {
        // SQLITE_BUSY, SQLITE_LOCKED
        5 | 6 => Kind::Locked,
        // SQLITE_FULL
        13 => Kind::Full,
        // SQLITE_CORRUPT, SQLITE_NOTADB
        11 | 26 => Kind::Damaged,
        // SQLITE_READONLY
        8 => Kind::ReadOnly,
        _ => Kind::Other,
    }
}

pub(super) const fn mend(kind: Kind) -> &'static str {
    match kind {
        Kind::Locked => {
            "another process has locked it (`fuser FILE` tells which): end that one, or try again later"
        }
        Kind::Full => "make room there, or name a file on another disk",
        Kind::Damaged => {
            "it is none, or a damaged one: take a copy of before, or move it away and begin a new one"
        }
        Kind::ReadOnly => {
            "gwp-race must be able to write to the file and to its folder, also to read it: copy it to a folder of your own"
        }
        Kind::Away | Kind::Refused | Kind::Missing | Kind::Other => {
            "see that the file and its folder can be read and written"
        }
    }
}
