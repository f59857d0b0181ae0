//! What was learned of programs, from one run to the next: a database of SQLite beside the [store](crate::store), whose file is another one, as that is what nobody may lose.
//!
//! [`Ledger::open`] opens it, [`Ledger::add`] adds what was gained, and [`Ledger::remembered`] tells what of it is about a module. The schema stands in
//! `sanitizer/migrations/ledger`.
//!
//! What other machines have learned is beside it, where somebody tells it ([`Ledger::take_hints`]), and is remembered with it.
//!
//! It is hints: they say where to look first, and change neither what is a race nor what may be spent. So what is in it is not trusted. A record that can be none is left
//! out, and what is wrong in a way that nobody can see costs time.

mod add;
mod hints;
mod recall;
#[cfg(test)]
mod tests;

use std::{path::Path, time::Duration};

use crate::{
    learned::Decay,
    store::{
        Access, Address, StoreError,
        connect::{Connection, Database, Schema},
    },
};

pub use crate::learned::{HALF_LIFE, Module};
pub use add::Gains;

/// What has been released is never changed.
const SCHEMA: Schema = Schema {
    what: "ledger",
    application: i64::from_be_bytes(*b"\0\0\0\0gwpl"),
    migrations: &[
        (
            1,
            "functions",
            include_str!("../../migrations/ledger/0001_functions.sql"),
        ),
        (
            2,
            "hints",
            include_str!("../../migrations/ledger/0002_hints.sql"),
        ),
    ],
    of_servers: &[],
};

/// What a function takes beside what was seen in it, and the most that those of a build take together, bytes; and those of one function.
const ROW: i64 = 32;
const MOST_OF_BUILD: i64 = 1 << 20;
const MOST_OF_FUNCTION: i64 = crate::learned::MOST_OF_FUNCTION as i64;
/// Builds of one name, and of all.
const MOST_BUILDS: i64 = 8;
const MOST_MODULES: i64 = 1024;

/// See the module.
pub struct Ledger {
    half_life: Duration,
    database: Database,
}

impl Ledger {
    /// Opens a ledger, of which half is forgotten in that time, or makes one.
    ///
    /// # Errors
    /// Says what is wrong with the file.
    pub fn open(path: &Path, half_life: Duration) -> Result<Self, StoreError> {
        let database = Database::open(&Address::of_file(path), Access::Create, &SCHEMA)?;
        Ok(Self {
            half_life,
            database,
        })
    }

    /// How it forgets, at a time, ms since 1970.
    fn decay(&self, now: i64) -> Decay {
        Decay::new(now, self.half_life)
    }

    /// Carries something out; after a failure the file is opened again for the next call.
    fn with<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        self.database.with(work)
    }
}
