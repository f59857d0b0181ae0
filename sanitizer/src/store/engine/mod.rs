//! What is particular to an engine: how a database is found and opened, whose it is, how to write alone, and what failures mean. All other statements are the same for each.

mod postgres;
mod sqlite;

use std::time::Duration;

use sqlx::{Database as _, any::AnyConnectOptions};

use super::{
    address::Address,
    error::{Kind, StoreError},
    schema::{Access, Connection, Found, Schema},
};
pub(super) use postgres::CANCEL;
use postgres::days::Range;

/// A process of a server, with when it began (seconds since 1970, as that server writes it): others may have its number before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Backend {
    pub(in crate::store) number: i32,
    pub(in crate::store) began: String,
}

/// How finely it is kept how often a race was caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Grain {
    /// A row a place and hour.
    Hours,
    /// A row a place and day, which has the last of its hours.
    Days,
    /// As good as a row a build and machine (`store/condense.rs`).
    Machines,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    pub(super) const fn of(address: &Address) -> Self {
        match address {
            Address::File(_) => Self::Sqlite,
            Address::Server(_) => Self::Postgres,
        }
    }

    /// That of a connection.
    pub(super) fn behind(connection: &Connection) -> Self {
        if connection.backend_name() == sqlx::Postgres::NAME {
            Self::Postgres
        } else {
            Self::Sqlite
        }
    }

    /// Whether it is at the other end of a socket, which may fall silent; the other one works in a thread of its own.
    pub(super) const fn is_server(self) -> bool {
        matches!(self, Self::Postgres)
    }

    /// The time in which a connection is made or is not, where one that is locked is waited for as long as `patience`.
    pub(super) fn connects_within(self, patience: Duration) -> Option<Duration> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Some(patience.max(postgres::CONNECTS)),
        }
    }

    /// What is to be said to it at the beginning of each connection.
    pub(super) fn settings(self, patience: Duration) -> String {
        match self {
            Self::Sqlite => sqlite::settings(patience),
            Self::Postgres => postgres::settings(patience),
        }
    }

    /// After how long at most somebody who waits for another one to end his transaction looks again; nothing where all have their turns as they have come.
    pub(super) const fn looks_again_after(self) -> Option<Duration> {
        match self {
            Self::Sqlite => Some(sqlite::LOOKS_AGAIN_AFTER),
            Self::Postgres => None,
        }
    }

    /// Begins a transaction beside which nobody else writes.
    pub(super) const fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => sqlite::BEGIN,
            Self::Postgres => postgres::BEGIN,
        }
    }

    /// Begins a transaction that sees one moment, in which no statement takes longer than this, where the engine can have it so.
    pub(super) fn look_within(self, limit: Duration) -> String {
        match self {
            Self::Sqlite => sqlite::LOOK.to_owned(),
            Self::Postgres => postgres::look_within(limit),
        }
    }

    /// Gives room back after much was deleted, where it does not do so by itself.
    pub(super) const fn shrink(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => Some("VACUUM"),
            Self::Postgres => None,
        }
    }

    /// What a migration of a schema tells it.
    pub(super) fn migration(
        self,
        schema: &Schema,
        (version, _, sql): (i64, &'static str, &'static str),
    ) -> &'static str {
        let mut own = schema.of_servers.iter();
        match own.find(|(number, _)| *number == version) {
            Some((_, own)) if self.is_server() => own,
            _ => sql,
        }
    }

    /// Makes one of the places for what will be seen from this hour on, where it has none by itself; whether one was missing. It is a transaction's, beside which nobody else writes.
    pub(super) async fn arrange(
        self,
        connection: &mut Connection,
        hour: i64,
    ) -> sqlx::Result<bool> {
        match self {
            Self::Sqlite => Ok(false),
            Self::Postgres => postgres::days::arrange(connection, hour).await,
        }
    }

    /// What was seen before an hour and is kept together, and more finely than this.
    pub(super) async fn due(
        self,
        connection: &mut Connection,
        end: i64,
        grain: Grain,
    ) -> sqlx::Result<Vec<Range>> {
        match (self, grain) {
            (Self::Sqlite, _) | (Self::Postgres, Grain::Hours) => Ok(Vec::new()),
            (Self::Postgres, Grain::Days) => postgres::days::due(connection, end).await,
            (Self::Postgres, Grain::Machines) => {
                postgres::days::due_to_condense(connection, end).await
            }
        }
    }

    /// Keeps that no more finely than this; how many rows there are less. It is a transaction's, beside which nobody else writes.
    pub(super) async fn roll_up(
        self,
        connection: &mut Connection,
        range: Range,
        grain: Grain,
    ) -> sqlx::Result<u64> {
        match self {
            Self::Sqlite => Ok(0),
            Self::Postgres => postgres::days::roll_up(connection, range, grain).await,
        }
    }

    /// The table whose sightings are not kept together by days.
    pub(super) const fn loose(self) -> &'static str {
        match self {
            Self::Sqlite => "sighting",
            Self::Postgres => postgres::days::OTHER,
        }
    }

    /// Gives back the room of what was seen before an hour and is not there any more, where it can be given back at once. It is a transaction's, beside which nobody else writes.
    pub(super) async fn drop_empty(
        self,
        connection: &mut Connection,
        end: i64,
    ) -> sqlx::Result<()> {
        match self {
            Self::Sqlite => Ok(()),
            Self::Postgres => postgres::days::drop_empty(connection, end).await,
        }
    }

    /// Whether a database has a table of this name.
    pub(super) async fn has_table(
        self,
        connection: &mut Connection,
        name: &str,
    ) -> sqlx::Result<bool> {
        let found: i64 = sqlx::query_scalar(match self {
            Self::Sqlite => sqlite::TABLES_OF_NAME,
            Self::Postgres => postgres::TABLES_OF_NAME,
        })
        .bind(name)
        .fetch_one(connection)
        .await?;
        Ok(found > 0)
    }

    /// The server's process behind a connection, for [`CANCEL`].
    pub(super) async fn backend(
        self,
        connection: &mut Connection,
    ) -> sqlx::Result<Option<Backend>> {
        match self {
            Self::Sqlite => Ok(None),
            Self::Postgres => postgres::backend(connection).await.map(Some),
        }
    }

    /// What a database holds.
    pub(super) async fn look(
        self,
        connection: &mut Connection,
        schema: &Schema,
    ) -> sqlx::Result<Found> {
        match self {
            Self::Sqlite => sqlite::look(connection, schema).await,
            Self::Postgres => postgres::look(connection, schema).await,
        }
    }

    /// Prepares an empty database, before the transaction in which it gets its tables.
    pub(super) async fn prepare(
        self,
        connection: &mut Connection,
        patience: Duration,
    ) -> sqlx::Result<()> {
        match self {
            Self::Sqlite => sqlite::write_ahead(connection, patience).await,
            Self::Postgres => Ok(()),
        }
    }

    /// Makes it one of ours, for [`Engine::look`].
    pub(super) async fn mark(
        self,
        connection: &mut Connection,
        schema: &Schema,
    ) -> sqlx::Result<()> {
        match self {
            Self::Sqlite => sqlite::mark(connection, schema).await,
            Self::Postgres => postgres::mark(connection, schema).await,
        }
    }

    fn kind(self, error: &sqlx::Error) -> Kind {
        if let Some(code) = error.as_database_error().and_then(|error| error.code()) {
            return match self {
                Self::Sqlite => sqlite::kind(&code),
                Self::Postgres => postgres::kind(&code),
            };
        }
        match error {
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => Kind::Damaged,
            sqlx::Error::Io(_) if self.is_server() => Kind::Away,
            _ => Kind::Other,
        }
    }
}

/// The real address of a database, which is made where it is to be and can be.
pub(super) fn find(address: &Address, access: Access) -> Result<Address, StoreError> {
    match address {
        Address::File(path) => sqlite::find(path, access).map(Address::File),
        Address::Server(_) => Ok(address.clone()),
    }
}

/// How it is connected to.
pub(super) fn options(address: &Address) -> sqlx::Result<AnyConnectOptions> {
    sqlx::any::install_default_drivers();
    match address {
        Address::File(path) => sqlite::options(path),
        Address::Server(url) => postgres::options(url),
    }
}

impl StoreError {
    /// What the engine says of a database.
    pub(crate) fn of(what: &'static str, address: &Address, error: &sqlx::Error) -> Self {
        let engine = Engine::of(address);
        let kind = engine.kind(error);
        Self::Database {
            what,
            place: address.place(),
            kind,
            said: match error.as_database_error() {
                Some(error) => error.message().to_owned(),
                None => error.to_string(),
            },
            mend: match engine {
                Engine::Sqlite => sqlite::mend(kind),
                Engine::Postgres => postgres::mend(kind),
            },
        }
    }
}
