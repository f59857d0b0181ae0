//! Opening a database of SQLite.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use futures_executor::block_on;
use sqlx::{
    ConnectOptions as _, Connection as _, SqlSafeStr as _, SqliteConnection, Transaction,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
    sqlite::{Sqlite, SqliteConnectOptions, SqliteSynchronous},
};

use super::error::StoreError;
use crate::{
    kernel::rights::as_caller,
    report::{DatabaseFileError, database_file},
};

/// How long somebody who has locked it is waited for: transactions of gwp-race take some milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long it is before something that was locked is tried again, where SQLite does not do so itself.
const PAUSE: Duration = Duration::from_millis(5);

/// Stands in the head of the file, so that nobody's other database is taken for a store (<https://www.sqlite.org/fileformat2.html#application_id>).
const APPLICATION: i64 = i64::from_be_bytes(*b"\0\0\0\0gwpr");

/// The schema, by versions; what has been released is never changed.
const MIGRATIONS: [(i64, &str, &str); 3] = [
    (1, "races", include_str!("../../migrations/0001_races.sql")),
    (
        2,
        "naming",
        include_str!("../../migrations/0002_naming.sql"),
    ),
    (
        3,
        "cgroups",
        include_str!("../../migrations/0003_cgroups.sql"),
    ),
];

/// What to do where there is no store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Make one.
    Create,
    /// There must be one.
    Existing,
}

/// Opens a file; its real path, too.
pub(super) fn open(
    path: &Path,
    access: Access,
    patience: Duration,
) -> Result<(PathBuf, SqliteConnection), StoreError> {
    // The thread that works with the file is started here, and has these rights for good.
    as_caller(|| {
        let path = database_file(path, access == Access::Create)?;
        if path.to_str().is_none() {
            return Err(DatabaseFileError::Name { path }.into());
        }
        let connection = block_on(connect(&path, patience))?;
        Ok((path, connection))
    })?
}

async fn connect(path: &Path, patience: Duration) -> Result<SqliteConnection, StoreError> {
    let fail = |error| StoreError::of(path, error);
    let options = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(patience)
        // Functions that a schema calls are not to do anything but compute.
        .pragma("trusted_schema", "OFF")
        // Races are few, and one may have taken a week to be caught: it is on the disk when a transaction has ended.
        .synchronous(SqliteSynchronous::Full)
        .thread_name(|_| "store".to_owned())
        .disable_statement_logging();
    let mut connection = options.connect().await.map_err(fail)?;
    if let Err(error) = prepare(&mut connection, path, patience).await {
        let _ = connection.close().await;
        return Err(error);
    }
    Ok(connection)
}

/// Sees that it is a store of this version, or makes it one.
async fn prepare(
    connection: &mut SqliteConnection,
    path: &Path,
    patience: Duration,
) -> Result<(), StoreError> {
    let fail = |error| StoreError::of(path, error);
    let [.., (known, ..)] = MIGRATIONS;
    let mut version = version(connection, path).await?;
    if version.is_none() {
        write_ahead(connection, path, patience).await?;
    }
    if version < Some(known) {
        let mut all = begin(connection).await.map_err(fail)?;
        // Somebody else may have done it meanwhile.
        version = self::version(&mut all, path).await?;
        if version < Some(known) {
            migrate(&mut all, path).await?;
            all.commit().await.map_err(fail)?;
            return Ok(());
        }
        all.rollback().await.map_err(fail)?;
    }
    match version {
        Some(version) if version > known => Err(StoreError::Newer {
            path: path.to_owned(),
            version,
            known,
        }),
        _ => Ok(()),
    }
}

/// Has changes written to a file of their own first: whoever lists races while they are written waits for nobody so.
async fn write_ahead(
    connection: &mut SqliteConnection,
    path: &Path,
    patience: Duration,
) -> Result<(), StoreError> {
    let end = Instant::now() + patience;
    loop {
        let wal = sqlx::query("PRAGMA journal_mode = WAL");
        let done = wal.execute(&mut *connection).await;
        match done.map_err(|error| StoreError::of(path, error)) {
            // SQLite does not wait here by itself for another one who does the same: that could be for ever.
            Err(error) if error.is_locked() && Instant::now() < end => thread::sleep(PAUSE),
            done => return done.map(drop),
        }
    }
}

/// The version of a store; nothing of an empty file.
async fn version(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<Option<i64>, StoreError> {
    let fail = |error| StoreError::of(path, error);
    let number = |sql: &'static str| sqlx::query_scalar::<_, i64>(sql);
    let application = number("PRAGMA application_id")
        .fetch_one(&mut *connection)
        .await
        .map_err(fail)?;
    let tables = number("SELECT count(*) FROM sqlite_master")
        .fetch_one(&mut *connection)
        .await
        .map_err(fail)?;
    if tables == 0 {
        return Ok(None);
    }
    // They would be carried out, and can drop or change what is written; a store has none.
    let programs = number("SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view')")
        .fetch_one(&mut *connection)
        .await
        .map_err(fail)?;
    if application != APPLICATION || programs > 0 {
        return Err(StoreError::Foreign {
            path: path.to_owned(),
        });
    }
    number("SELECT coalesce(max(version), 0) FROM _sqlx_migrations")
        .fetch_one(connection)
        .await
        .map(Some)
        .map_err(fail)
}

async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    let of = |(version, name, sql): (i64, &'static str, &'static str)| {
        let sql = sql.into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, sql, false)
    };
    let migrator = Migrator::with_migrations(MIGRATIONS.map(of).into());
    let application = sqlx::AssertSqlSafe(format!("PRAGMA application_id = {APPLICATION}"));
    let fail = |error| StoreError::of(path, error);
    sqlx::query(application)
        .execute(&mut *connection)
        .await
        .map_err(fail)?;
    let done = migrator.run_direct(None, connection, false).await;
    done.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => fail(error),
        other => fail(sqlx::Error::Migrate(Box::new(other))),
    })
}

/// Begins a transaction that will write: two that have only read would both wait for the other one to end.
pub(super) async fn begin(
    connection: &mut SqliteConnection,
) -> sqlx::Result<Transaction<'_, Sqlite>> {
    connection.begin_with("BEGIN IMMEDIATE").await
}
