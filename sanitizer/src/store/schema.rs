//! What a database is to hold.

use sqlx::AnyConnection;

/// A connection to a database.
pub(crate) type Connection = AnyConnection;

/// What a database of gwp-race has in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema {
    /// What it is called in messages.
    pub(crate) what: &'static str,
    /// Stands in the head of a file of SQLite, so that nobody's other database is taken for one (<https://www.sqlite.org/fileformat2.html#application_id>).
    pub(crate) application: i64,
    /// Its tables, by versions.
    pub(crate) migrations: &'static [(i64, &'static str, &'static str)],
}

impl Schema {
    /// The newest version.
    pub(super) fn version(&self) -> i64 {
        self.migrations.last().map_or(0, |(version, ..)| *version)
    }
}

/// What to do where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Make one.
    Create,
    /// There must be one.
    Existing,
}

/// What a database holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Ours,
    Foreign,
}
