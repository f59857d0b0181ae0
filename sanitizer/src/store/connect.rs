//! A database that is open while it is needed, by whatever engine.

mod cancel;
mod driver;
mod look;
mod version;

use std::{
    fs,
    future::Future,
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, Instant},
};

use futures_executor::block_on;
use sqlx::{
    Any, ConnectOptions as _, Connection as _, SqlSafeStr as _, Transaction,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};
use tokio::task::unconstrained;

use super::{
    address::Address,
    engine::{self, Backend, Engine},
    error::StoreError,
    schema::Found,
};
use crate::kernel::rights::as_caller;
use driver::Driver;
use look::Look;
use version::{check, note_additions, number_of};

pub(crate) use super::schema::{Access, Connection, Schema};

/// How long somebody who has locked it is waited for: transactions of gwp-race take some milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest that a server is told good-bye.
const PARTING: Duration = Duration::from_secs(1);

/// See the module. Dropped, it is closed, which waits until the last one who has a file of SQLite open has put all into one file.
pub(crate) struct Database {
    schema: &'static Schema,
    address: Address,
    /// What is done where there is none, when it is opened again, too.
    access: Access,
    /// How long somebody who has locked it is waited for.
    patience: Duration,
    /// How long a server may take for one piece of work; for ever where nothing is said.
    limit: Option<Duration>,
    /// What is read of one moment.
    look: Option<Look>,
    driver: Option<Driver>,
    connection: Option<Connection>,
    /// The server's process at the other end, where there is one for all that this connection does.
    backend: Option<Backend>,
    /// Device and inode of the file that is open.
    file: Option<(u64, u64)>,
}

/// Device and inode of the file of a name.
fn file_of(path: &Path) -> Option<(u64, u64)> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

/// Whether something was broken off by [`within`].
fn is_late(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut)
}

/// Ends what takes longer. It is for servers, whose [`Driver`] has a clock.
async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    let Some(limit) = limit else {
        return work.await;
    };
    let late = |_| {
        let said = format!("no answer within {limit:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, said).into())
    };
    tokio::time::timeout(limit, work).await.unwrap_or_else(late)
}

impl Database {
    /// Opens one, and makes of one by an older gwp-race one of this version.
    pub(crate) fn open(
        address: &Address,
        access: Access,
        schema: &'static Schema,
    ) -> Result<Self, StoreError> {
        let mut database = Self {
            schema,
            address: address.clone(),
            access,
            patience: PATIENCE,
            limit: None,
            look: None,
            driver: None,
            connection: None,
            backend: None,
            file: None,
        };
        database.connection = Some(database.connect(access)?);
        Ok(database)
    }

    /// Where it is, for messages.
    pub(crate) fn place(&self) -> String {
        self.address.place()
    }

    /// Whoever has locked it is waited for as long from now on.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
        // It is told when it is opened.
        self.close();
    }

    /// A server that takes longer for one piece of work counts as one that is away.
    pub(crate) const fn set_limit(&mut self, limit: Duration) {
        self.limit = Some(limit);
    }

    /// Carries something out. After a failure it is opened again for the next call: what has failed may have left the connection in any state.
    pub(crate) fn with<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let mut connection = match (self.lively(), self.look) {
            (Some(connection), _) => connection,
            (None, Some(look)) if look.has_begun => {
                return Err(self.failed(&io::Error::from(io::ErrorKind::ConnectionAborted).into()));
            }
            (None, _) => self.connect(self.access)?,
        };
        if self.look.is_some_and(|look| look.until <= Instant::now()) {
            self.part(connection);
            return Err(self.failed(&io::Error::from(io::ErrorKind::TimedOut).into()));
        }
        match self.wait(within(self.limit(), work(&mut connection))) {
            Ok(value) => {
                self.connection = Some(connection);
                Ok(value)
            }
            Err(error) => {
                if is_late(&error) {
                    self.cancel();
                }
                self.part(connection);
                Err(self.failed(&error))
            }
        }
    }

    /// Whether the file that is open was moved away or deleted: it is not the one of this name.
    pub(crate) fn is_moved(&self) -> bool {
        let path = self.address.path();
        self.connection.is_some() && path.is_some_and(|path| file_of(path) != self.file)
    }

    /// Closes a file that was moved away or deleted, in which nobody would find what is written: the next call makes a new one.
    pub(crate) fn leave_moved(&mut self) {
        if self.is_moved() {
            tracing::warn!(
                "the {} {} was moved away or deleted; what is found from now on is kept in a new one",
                self.schema.what,
                self.place()
            );
            self.close();
        }
    }

    /// The next call opens it again.
    pub(crate) fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.part(connection);
        }
    }

    fn failed(&self, error: &sqlx::Error) -> StoreError {
        if let Some((version, known)) = version::of_newer(error) {
            return StoreError::Newer {
                what: self.schema.what,
                place: self.place(),
                version,
                known,
            };
        }
        StoreError::of(self.schema.what, &self.address, error)
    }

    fn limit(&self) -> Option<Duration> {
        let left = self
            .look
            .map(|look| look.until.saturating_duration_since(Instant::now()));
        let limit = self.limit.into_iter().chain(left).min();
        self.driver.as_ref().and(limit)
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        let _entered = self.driver.as_ref().map(Driver::enter);
        // A runtime that the caller is part of lets its tasks do so much before they have to give way to others, and would not know here that they have.
        block_on(unconstrained(work))
    }

    /// The connection of before, unless it has ended since: a server may have been started anew.
    fn lively(&mut self) -> Option<Connection> {
        let mut connection = self.connection.take()?;
        if self.driver.is_none() {
            return Some(connection);
        }
        let limit = Engine::of(&self.address).connects_within(self.patience);
        match self.wait(within(limit, connection.ping())) {
            Ok(()) => Some(connection),
            Err(_) => {
                self.part(connection);
                None
            }
        }
    }

    fn part(&self, connection: Connection) {
        let limit = self.driver.as_ref().map(|_| PARTING);
        let _ = self.wait(within(limit, connection.close()));
    }

    fn connect(&mut self, access: Access) -> Result<Connection, StoreError> {
        // The threads that are started here have these rights for good, and files and sockets are opened with them.
        as_caller(|| {
            self.address = engine::find(&self.address, access)?;
            if self.driver.is_none() && Engine::of(&self.address).is_server() {
                let driver = Driver::start().map_err(|error| self.failed(&error.into()))?;
                self.driver = Some(driver);
            }
            let mut connection = self.wait(self.connected(access))?;
            self.backend = None;
            if !self.address.is_pooled() {
                let backend = Engine::of(&self.address).backend(&mut connection);
                let backend = self.wait(within(self.limit(), backend));
                self.backend = backend.map_err(|error| self.failed(&error))?;
            }
            self.file = self.address.path().and_then(file_of);
            Ok(connection)
        })?
    }

    async fn connected(&self, access: Access) -> Result<Connection, StoreError> {
        let engine = Engine::of(&self.address);
        let options = engine::options(&self.address).map_err(|error| self.failed(&error))?;
        let options = options.disable_statement_logging();
        let limit = engine.connects_within(self.patience);
        let settings = sqlx::AssertSqlSafe(engine.settings(self.patience));
        let connected = within(limit, async {
            let mut connection = match &self.driver {
                Some(driver) => driver.connect(options).await?,
                None => options.connect().await?,
            };
            match sqlx::raw_sql(settings).execute(&mut connection).await {
                Ok(_) => Ok(connection),
                Err(error) => {
                    let _ = connection.close().await;
                    Err(error)
                }
            }
        });
        let mut connection = connected.await.map_err(|error| self.failed(&error))?;
        // What it finds wrong is no matter of time.
        let prepared = within(self.limit(), async {
            Ok(self.prepare(&mut connection, access).await)
        });
        let prepared = prepared.await.map_err(|error| self.failed(&error));
        if let Err(error) = prepared.and_then(|prepared| prepared) {
            let limit = self.driver.as_ref().map(|_| PARTING);
            let _ = within(limit, connection.close()).await;
            return Err(error);
        }
        Ok(connection)
    }

    /// Sees that it is one of this version, or makes it one.
    async fn prepare(&self, connection: &mut Connection, access: Access) -> Result<(), StoreError> {
        let fail = |error| self.failed(&error);
        let known = self.schema.version();
        let mut version = self.version(connection).await?;
        if version.is_none() {
            if access == Access::Existing {
                return Err(StoreError::Absent {
                    what: self.schema.what,
                    place: self.place(),
                });
            }
            let engine = Engine::of(&self.address);
            let prepared = engine.prepare(connection, self.patience).await;
            prepared.map_err(fail)?;
        }
        if version < Some(known) {
            let mut all = alone(connection).await.map_err(fail)?;
            // Somebody else may have done it meanwhile.
            version = self.version(&mut all).await?;
            if version < Some(known) {
                self.migrate(&mut all).await?;
                all.commit().await.map_err(fail)?;
                return Ok(());
            }
            all.rollback().await.map_err(fail)?;
        }
        match version {
            Some(version) if version > known => check(connection, self.schema).await.map_err(fail),
            _ => Ok(()),
        }
    }

    /// The version of a database; nothing of an empty one.
    async fn version(&self, connection: &mut Connection) -> Result<Option<i64>, StoreError> {
        let fail = |error| self.failed(&error);
        let engine = Engine::of(&self.address);
        match engine.look(connection, self.schema).await.map_err(fail)? {
            Found::Nothing => return Ok(None),
            Found::Foreign => {
                return Err(StoreError::Foreign {
                    place: self.place(),
                });
            }
            Found::Ours => {}
        }
        number_of(connection).await.map(Some).map_err(fail)
    }

    async fn migrate(&self, connection: &mut Connection) -> Result<(), StoreError> {
        let fail = |error| self.failed(&error);
        let engine = Engine::of(&self.address);
        let of = |migration: (i64, &'static str, &'static str)| {
            let (version, name, _) = migration;
            let sql = engine.migration(self.schema, migration).into_sql_str();
            Migration::new(version, name.into(), MigrationType::Simple, sql, false)
        };
        let migrations = self.schema.migrations.iter().copied().map(of);
        let mut migrator = Migrator::with_migrations(migrations.collect());
        // Nobody else writes beside this transaction.
        migrator.set_locking(false);
        let marked = engine.mark(connection, self.schema).await;
        marked.map_err(fail)?;
        let done = migrator.run_direct(None, connection, false).await;
        done.map_err(|error| match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => fail(error),
            other => fail(sqlx::Error::Migrate(Box::new(other))),
        })?;
        let noted = note_additions(connection, self.schema).await;
        noted.map_err(fail)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.close();
    }
}

/// Begins a transaction beside which nobody else writes.
async fn alone(connection: &mut Connection) -> sqlx::Result<Transaction<'_, Any>> {
    let statement = Engine::behind(connection).begin();
    connection.begin_with(statement).await
}

/// Begins a transaction that will write, beside which nobody else does: what it reads stays so until it ends. A database that a newer gwp-race has changed meanwhile is not written to, unless it has only added something.
pub(crate) async fn begin<'a>(
    connection: &'a mut Connection,
    schema: &Schema,
) -> sqlx::Result<Transaction<'a, Any>> {
    let mut all = alone(connection).await?;
    check(&mut all, schema).await?;
    Ok(all)
}

/// Gives room back after much was deleted.
pub(super) async fn shrink(connection: &mut Connection) -> sqlx::Result<()> {
    match Engine::behind(connection).shrink() {
        Some(statement) => sqlx::query(statement).execute(connection).await.map(drop),
        None => Ok(()),
    }
}
