//! What was learned of programs, from one run to the next: a database of SQLite beside the [store](crate::store), whose file is another one, as that is what nobody may lose.
//!
//! [`Ledger::open`] opens it, [`Ledger::add`] adds what was gained, and [`Ledger::remembered`] tells what of it is about a module. The schema stands in
//! `sanitizer/migrations/ledger`.
//!
//! It is hints: they say where to look first, and change neither what is a race nor what may be spent. So what is in it is not trusted. A record that can be none is left
//! out, and what is wrong in a way that nobody can see costs time.

mod add;
mod recall;
#[cfg(test)]
mod tests;

use std::{path::Path, time::Duration};

use crate::{
    hunt::memory::{Raced, Sites},
    store::{
        Access, Address, StoreError,
        connect::{Connection, Database, Schema},
    },
};

pub use add::Gains;

/// What has been released is never changed.
const SCHEMA: Schema = Schema {
    what: "ledger",
    application: i64::from_be_bytes(*b"\0\0\0\0gwpl"),
    migrations: &[(
        1,
        "functions",
        include_str!("../../migrations/ledger/0001_functions.sql"),
    )],
    of_servers: &[],
    additions: &[],
};

/// The time in which half of what was learned is forgotten, unless somebody says otherwise: a week.
pub const HALF_LIFE: Duration = Duration::from_hours(7 * 24);

/// What a function takes beside what was seen in it, and the most that those of a build take together, bytes; and those of one function.
const ROW: i64 = 32;
const MOST_OF_BUILD: i64 = 1 << 20;
const MOST_OF_FUNCTION: i64 = 64 << 10;
/// Builds of one name, and of all.
const MOST_BUILDS: i64 = 8;
const MOST_MODULES: i64 = 1024;

/// A module, as it is known again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Module {
    /// The name of its file, without folders: the next build may be in another one.
    pub name: String,
    /// The build id, in hexadecimal digits; empty where there is none.
    pub build: String,
}

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
        let half_life = self.half_life.as_secs_f64() * 1e3;
        Decay { now, half_life }
    }

    /// Carries something out; after a failure the file is opened again for the next call.
    fn with<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        self.database.with(work)
    }
}

/// How what was learned is forgotten as time passes.
#[derive(Clone, Copy, Debug)]
struct Decay {
    /// ms since 1970.
    now: i64,
    /// ms.
    half_life: f64,
}

impl Decay {
    /// What part is left now of what was seen at a time, ms since 1970. A clock may have been put back.
    fn left(self, seen: i64) -> f64 {
        let passed = self.now.saturating_sub(seen).max(0) as f64;
        (-passed / self.half_life).exp2()
    }
}

/// What was seen in a function, as it is kept; nothing where it is none.
fn read(seen: &[u8]) -> Option<(Sites, Vec<Raced>)> {
    let (seen, rest) = postcard::take_from_bytes(seen).ok()?;
    rest.is_empty().then_some(seen)
}
