//! Why a database cannot be used, and what to do about it.

use crate::{kernel::KernelError, report::DatabaseFileError};

/// See the module. Places are files, or addresses of servers.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is none that a store may be.
    #[error("cannot use the database: {0}")]
    File(#[from] DatabaseFileError),
    /// What the database says.
    #[error("cannot use the {what} {place}: {said}; {mend}")]
    Database {
        /// What it is called.
        what: &'static str,
        /// Where it is.
        place: String,
        /// Which kind of failure it is.
        kind: Kind,
        /// The engine's words.
        said: String,
        /// What to do.
        mend: &'static str,
    },
    /// It was written by a newer gwp-race.
    #[error(
        "the {what} {place} is of version {version}, and this gwp-race knows up to {known}; use the gwp-race that has written it, or another one"
    )]
    Newer {
        /// What it is called.
        what: &'static str,
        /// Where it is.
        place: String,
        /// Its version.
        version: i64,
        /// The newest one that is known.
        known: i64,
    },
    /// It is something else's.
    #[error(
        "{place} is a database, but not of gwp-race, or has triggers or views that are not; name another one"
    )]
    Foreign {
        /// Where it is.
        place: String,
    },
    /// There is nothing in it.
    #[error(
        "there is no {what} in {place}, which is empty; a run with --store makes it, name that one"
    )]
    Absent {
        /// What is wanted.
        what: &'static str,
        /// Where.
        place: String,
    },
    /// A record in it is not one that was written.
    #[error(
        "the store {place} has a record that is none ({said}); it was changed by another program: take a copy of before that, or begin a new one"
    )]
    Record {
        /// Where it is.
        place: String,
        /// What is wrong.
        said: String,
    },
    /// The name of a race that nobody has, or several have.
    #[error("{0}")]
    Name(String),
    /// Capabilities could not be laid down to open it.
    #[error(transparent)]
    Rights(#[from] KernelError),
}

impl StoreError {
    /// Whether somebody else had locked it, so that it was left as it is.
    pub(super) const fn is_locked(&self) -> bool {
        matches!(
            self,
            Self::Database {
                kind: Kind::Locked,
                ..
            }
        )
    }

    /// Whether it may be for what was to be written, or for the tables to which, and be so each time that is tried: the database is there, and says no.
    #[must_use]
    pub const fn is_about_contents(&self) -> bool {
        matches!(
            self,
            Self::Database {
                kind: Kind::Other | Kind::ReadOnly | Kind::Damaged,
                ..
            }
        )
    }
}

/// Kinds of failures, of whatever engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody else has locked it.
    Locked,
    /// The server cannot be reached, or does not answer.
    Away,
    /// The server does not let the user in.
    Refused,
    /// The server has no such database.
    Missing,
    /// There is no room.
    Full,
    /// It is no database, or not a whole one.
    Damaged,
    /// It cannot be written to.
    ReadOnly,
    /// Anything else.
    Other,
}
