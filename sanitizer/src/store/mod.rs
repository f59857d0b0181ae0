//! Races that are kept from one run to the next: what was caught in which build, how often, and what people have said of it.
//!
//! [`Store::open`] opens a database, [`Store::write`] puts a [`Batch`] into it, [`Store::races`] reads what is there. The schema stands in
//! `sanitizer/migrations`. It is a file of SQLite, or a database of a PostgreSQL server: whatever is particular to one of these is in `engine`, and all other statements are such that both take them.
//!
//! Calls wait until they are done. SQLite works in a thread of its own, which `sqlx` starts: that thread has the caller's rights over
//! files alone (`kernel/rights.rs`). SQLite remembers which files a process has open by the numbers of descriptors: threads that have descriptors of their own
//! (`descriptors::own_table`) must not have a store open that others have open as well.

mod address;
mod alias;
mod arrange;
mod batch;
mod build;
mod catch_up;
mod condense;
pub(crate) mod connect;
mod engine;
mod error;
mod known;
mod learned;
mod left;
mod log;
mod name;
mod number;
pub mod page;
mod prune;
mod races;
mod receive;
mod renew;
mod roll_up;
mod schema;
mod state;
mod summary;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod triage;
mod turn;
mod verdict;
mod write;

use std::time::Duration;

use crate::report::IDENTITY_VERSION;

pub use address::Address;
pub use alias::{Done, Merge, Speaker};
pub use batch::{Batch, Caught, Counted, Seen, Unsound, Whereabouts, is_whole};
use connect::{Connection, Database, Schema};

pub use build::Build;
pub use condense::Rows;
pub use error::{Kind, StoreError};
pub use log::Entry;
pub use name::Named;
pub use prune::Pruned;
pub use races::{SeenIn, StoredRace};
pub use receive::{Lost, Received, Sender, Stamp};
pub use roll_up::Fewer;
pub use schema::Access;
pub use state::State;
pub(crate) use text::{digest_of, digest_of_bytes};
pub use time::{begin_of, day, day_of, hour, millis, millis_of, millis_of_day, rfc3339};
pub use triage::{Said, Saying};
pub use verdict::Verdict;

/// What has been released is never changed.
const SCHEMA: Schema = Schema {
    what: "store",
    application: i64::from_be_bytes(*b"\0\0\0\0gwpr"),
    migrations: &[
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
        (
            4,
            "delivery",
            include_str!("../../migrations/0004_delivery.sql"),
        ),
        (
            5,
            "triage",
            include_str!("../../migrations/0005_triage.sql"),
        ),
        (6, "page", include_str!("../../migrations/0006_page.sql")),
        (7, "days", include_str!("../../migrations/0007_days.sql")),
        (
            8,
            "builds",
            include_str!("../../migrations/0008_builds.sql"),
        ),
        (
            9,
            "learned",
            include_str!("../../migrations/0009_learned.sql"),
        ),
        #[cfg(all(feature = "fault-injection", not(test)))]
        FICTITIOUS,
    ],
    of_servers: &[
        (7, include_str!("../../migrations/postgres/0007_days.sql")),
        (8, include_str!("../../migrations/postgres/0008_builds.sql")),
        (
            9,
            include_str!("../../migrations/postgres/0009_learned.sql"),
        ),
    ],
    additions: &[
        (8, 7),
        (9, 7),
        #[cfg(all(feature = "fault-injection", not(test)))]
        (FICTITIOUS.0, 7),
    ],
};

/// What a next version may add. The gwp-race for tests is of that, so that end-to-end tests see this one and a newer one take turns; unit tests make a next version themselves.
#[cfg(all(feature = "fault-injection", not(test)))]
const FICTITIOUS: (i64, &str, &str) = (
    1_000_000,
    "fictitious",
    "ALTER TABLE race ADD COLUMN fictitious BIGINT NOT NULL DEFAULT 7; CREATE TABLE fictitious (race TEXT NOT NULL PRIMARY KEY);",
);

/// A database of races.
pub struct Store {
    database: Database,
    /// The hour for which it was seen last that there is a place for what comes.
    arranged: Option<i64>,
}

impl Store {
    /// Opens a store, and makes of one by an older gwp-race one of this version.
    ///
    /// # Errors
    /// Says what is wrong with the file or the server.
    pub fn open(address: &Address, access: Access) -> Result<Self, StoreError> {
        let database = Database::open(address, access, &SCHEMA)?;
        let mut store = Self {
            database,
            arranged: None,
        };
        let known = i64::from(IDENTITY_VERSION);
        let version = store.with(async |connection| {
            renew::renew(connection).await?;
            let version = renew::named_by(connection).await?;
            if version <= known {
                catch_up::catch_up(connection).await?;
            }
            Ok(version)
        })?;
        if version > known {
            return Err(StoreError::Newer {
                what: SCHEMA.what,
                place: store.database.place(),
                version,
                known,
            });
        }
        Ok(store)
    }

    /// Whoever has locked the store is waited for as long from now on.
    pub fn set_patience(&mut self, patience: Duration) {
        self.database.set_patience(patience);
    }

    /// A server that takes longer for one call from now on counts as one that is away: for whoever must not wait for it.
    pub const fn set_limit(&mut self, limit: Duration) {
        self.database.set_limit(limit);
    }

    /// Reads several things as they are at one moment, in at most this time: on a server it is broken off then, in a file between two statements.
    ///
    /// # Errors
    /// The store cannot be read, or not in this time; what `work` says.
    pub fn look<T, E: From<StoreError>>(
        &mut self,
        limit: Duration,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.database.begin_look(limit)?;
        let found = work(self);
        self.database.end_look();
        found
    }

    /// Whether the file that is open was moved away or deleted.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.database.is_moved()
    }

    /// Carries something out.
    fn with<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        self.database.with(work)
    }
}
