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

/// A connection to a database.
pub(crate) type Connection = SqliteConnection;

/// How long somebody who has locked it is waited for: transactions of gwp-race take some milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long it is before something that was locked is tried again, where SQLite does not do so itself.
const PAUSE: Duration = Duration::from_millis(5);

/// What a database of gwp-race has in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema {
    /// What it is called in messages.
    pub(crate) what: &'static str,
    /// Stands in the head of the file, so that nobody's other database is taken for one (<https://www.sqlite.org/fileformat2.html#application_id>).
    pub(crate) application: i64,
    /// Its tables, by versions.
    pub(crate) migrations: &'static [(i64, &'static str, &'static str)],
}

impl Schema {
    /// The newest version.
    fn version(&self) -> i64 {
        self.migrations.last().map_or(0, |(version, ..)| *version)
    }
}

/// What to do where there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Make one.
    Create,
    /// There must be one.
    Existing,
}

/// A connection that is made when it is needed. Dropped, it is closed, which waits until the last one who has the file open has put all into one file.
pub(crate) struct Kept(Option<Connection>);

impl Kept {
    pub(crate) const fn new(connection: Connection) -> Self {
        Self(Some(connection))
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Carries something out. After a failure the file is opened again for the next call: what has failed may have left the connection in any state.
    pub(crate) fn with<T>(
        &mut self,
        open: impl FnOnce() -> Result<Connection, StoreError>,
        work: impl AsyncFnOnce(&mut Connection) -> sqlx::Result<T>,
        failed: impl FnOnce(sqlx::Error) -> StoreError,
    ) -> Result<T, StoreError> {
        let mut connection = match self.0.take() {
            Some(connection) => connection,
            None => open()?,
        };
        match block_on(work(&mut connection)) {
            Ok(value) => {
                self.0 = Some(connection);
                Ok(value)
            }
            Err(error) => {
                let _ = block_on(connection.close());
                Err(failed(error))
            }
        }
    }

    /// The next call opens the file again.
    pub(crate) fn close(&mut self) {
        if let Some(connection) = self.0.take() {
            let _ = block_on(connection.close());
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens a file; its real path, too.
pub(crate) fn open(
    path: &Path,
    access: Access,
    patience: Duration,
    schema: &Schema,
) -> Result<(PathBuf, Connection), StoreError> {
    // The thread that works with the file is started here, and has these rights for good.
    as_caller(|| {
        let path = database_file(path, access == Access::Create)?;
        if path.to_str().is_none() {
            return Err(DatabaseFileError::Name { path }.into());
        }
        let connection = block_on(connect(&path, patience, schema))?;
        Ok((path, connection))
    })?
}

async fn connect(
    path: &Path,
    patience: Duration,
    schema: &Schema,
) -> Result<Connection, StoreError> {
    let fail = |error| StoreError::of(schema.what, path, error);
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
    if let Err(error) = prepare(&mut connection, path, patience, schema).await {
        let _ = connection.close().await;
        return Err(error);
    }
    Ok(connection)
}

/// Sees that it is one of this version, or makes it one.
async fn prepare(
    connection: &mut Connection,
    path: &Path,
    patience: Duration,
    schema: &Schema,
) -> Result<(), StoreError> {
    let fail = |error| StoreError::of(schema.what, path, error);
    let known = schema.version();
    let mut version = version(connection, path, schema).await?;
    if version.is_none() {
        write_ahead(connection, path, patience, schema).await?;
    }
    if version < Some(known) {
        let mut all = begin(connection).await.map_err(fail)?;
        // Somebody else may have done it meanwhile.
        version = self::version(&mut all, path, schema).await?;
        if version < Some(known) {
            migrate(&mut all, path, schema).await?;
            all.commit().await.map_err(fail)?;
            return Ok(());
        }
        all.rollback().await.map_err(fail)?;
    }
    match version {
        Some(version) if version > known => Err(StoreError::Newer {
            what: schema.what,
            path: path.to_owned(),
            version,
            known,
        }),
        _ => Ok(()),
    }
}

/// Has changes written to a file of their own first: whoever lists races while they are written waits for nobody so.
async fn write_ahead(
    connection: &mut Connection,
    path: &Path,
    patience: Duration,
    schema: &Schema,
) -> Result<(), StoreError> {
    let end = Instant::now() + patience;
    loop {
        let wal = sqlx::query("PRAGMA journal_mode = WAL");
        let done = wal.execute(&mut *connection).await;
        match done.map_err(|error| StoreError::of(schema.what, path, error)) {
            // SQLite does not wait here by itself for another one who does the same: that could be for ever.
            Err(error) if error.is_locked() && Instant::now() < end => thread::sleep(PAUSE),
            done => return done.map(drop),
        }
    }
}

/// The version of a database; nothing of an empty file.
async fn version(
    connection: &mut Connection,
    path: &Path,
    schema: &Schema,
) -> Result<Option<i64>, StoreError> {
    let fail = |error| StoreError::of(schema.what, path, error);
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
    // They would be carried out, and can drop or change what is written; none of ours has any.
    let programs = number("SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view')")
        .fetch_one(&mut *connection)
        .await
        .map_err(fail)?;
    if application != schema.application || programs > 0 {
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

async fn migrate(
    connection: &mut Connection,
    path: &Path,
    schema: &Schema,
) -> Result<(), StoreError> {
    let of = |(version, name, sql): (i64, &'static str, &'static str)| {
        let sql = sql.into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, sql, false)
    };
    let migrator = Migrator::with_migrations(schema.migrations.iter().copied().map(of).collect());
    let application =
        sqlx::AssertSqlSafe(format!("PRAGMA application_id = {}", schema.application));
    let fail = |error| StoreError::of(schema.what, path, error);
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
pub(crate) async fn begin(connection: &mut Connection) -> sqlx::Result<Transaction<'_, Sqlite>> {
    connection.begin_with("BEGIN IMMEDIATE").await
}
