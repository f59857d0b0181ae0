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
    /// What a server is told instead, by versions.
    pub(crate) of_servers: &'static [(i64, &'static str)],
    /// Those of its versions that only add to what was there (tables, indexes, columns that have a value by themselves), each with the oldest version whose programs can go on with a database that has it: they write as they did, and
    /// whoever has added something sees to it that nothing is missing there when they have.
    pub(crate) additions: &'static [(i64, i64)],
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
