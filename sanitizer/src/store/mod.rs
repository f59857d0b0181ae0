//! Races that are kept from one run to the next: what was caught in which build, how often, and what people have said of it.
//!
//! [`Store::open`] opens a database, [`Store::write`] puts a [`Batch`] into it, [`Store::races`] reads what is there. The schema stands in
//! `sanitizer/migrations`; whatever is particular to SQLite is in `connect.rs` and `error.rs`, and the other statements are such that PostgreSQL takes them, too.
//!
//! Calls wait until they are done. SQLite works in a thread of its own, which `sqlx` starts: that thread has the caller's rights over
//! files alone (`kernel/rights.rs`). SQLite remembers which files a process has open by the numbers of descriptors: threads that have descriptors of their own
//! (`descriptors::own_table`) must not have a store open that others have open as well.

mod address;
mod alias;
mod batch;
pub(crate) mod connect;
mod error;
mod known;
mod log;
mod name;
mod number;
pub mod page;
mod prune;
mod races;
mod receive;
mod renew;
mod state;
mod summary;
#[cfg(test)]
mod tests;
mod time;
mod triage;
mod verdict;
mod write;

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::report::IDENTITY_VERSION;

pub use address::Address;
pub use alias::{Done, Merge, Speaker};
pub use batch::{Batch, Caught, Counted, Seen, Unsound, Whereabouts, is_whole};
use connect::{Connection, Kept, Schema};

pub use connect::Access;
pub use error::StoreError;
pub use log::Entry;
pub use name::Named;
pub use prune::Pruned;
pub use races::{Build, SeenIn, StoredRace};
pub use receive::{Lost, Received, Sender, Stamp};
pub use state::State;
pub use time::{begin_of, day, day_of, hour, millis, millis_of, rfc3339};
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
    ],
};

/// A database of races.
pub struct Store {
    path: PathBuf,
    connection: Kept,
    /// How long somebody who has locked it is waited for.
    patience: Duration,
    /// Device and inode of the file that is open.
    file: Option<(u64, u64)>,
}

/// Device and inode of the file of a name.
fn file_of(path: &Path) -> Option<(u64, u64)> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

impl Store {
    /// Opens a store, and makes of one by an older gwp-race one of this version.
    ///
    /// # Errors
    /// Says what is wrong with the file.
    pub fn open(address: &Address, access: Access) -> Result<Self, StoreError> {
        let patience = connect::PATIENCE;
        let (path, connection) = connect::open(address.path(), access, patience, &SCHEMA)?;
        let mut store = Self {
            file: file_of(&path),
            path,
            connection: Kept::new(connection),
            patience,
        };
        let version = store.with(async |connection| {
            renew::renew(connection).await?;
            renew::named_by(connection).await
        })?;
        let known = i64::from(IDENTITY_VERSION);
        if version > known {
            return Err(StoreError::Newer {
                what: SCHEMA.what,
                path: store.path.clone(),
                version,
                known,
            });
        }
        Ok(store)
    }

    /// Whoever has locked the store is waited for as long from now on.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
        // It is told when the file is opened.
        self.connection.close();
    }

    /// Closes a file that was moved away or deleted, in which nobody would find what is written: the next call makes a new one.
    fn leave_moved(&mut self) {
        if self.connection.is_open() && file_of(&self.path) != self.file {
            tracing::warn!(
                "the store {} was moved away or deleted; what is found from now on is kept in a new one",
                self.path.display()
            );
            self.set_patience(self.patience);
        }
    }

    /// Carries something out.
    fn with<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let Self {
            path,
            connection,
            patience,
            file,
            ..
        } = self;
        let open = || {
            let connection = connect::open(path, Access::Create, *patience, &SCHEMA)?.1;
            *file = file_of(path);
            Ok(connection)
        };
        connection.with(open, work, |error| StoreError::of(SCHEMA.what, path, error))
    }
}
