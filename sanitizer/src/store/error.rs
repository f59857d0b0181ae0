//! Why a database cannot be used, and what to do about it.

use std::path::{Path, PathBuf};

use crate::{kernel::KernelError, report::DatabaseFileError};

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is none that a store may be.
    #[error("cannot use the database: {0}")]
    File(#[from] DatabaseFileError),
    /// What the database says.
    #[error("cannot use the {what} {path}: {said}; {}", .kind.mend())]
    Database {
        /// What it is called.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Which kind of failure it is.
        kind: Kind,
        /// SQLite's words.
        said: String,
    },
    /// It was written by a newer gwp-race.
    #[error(
        "the {what} {path} is of version {version}, and this gwp-race knows up to {known}; use the gwp-race that has written it, or another file"
    )]
    Newer {
        /// What it is called.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
        /// The newest one that is known.
        known: i64,
    },
    /// It is something else's.
    #[error(
        "{path} is a database, but not of gwp-race, or has triggers or views that are not; name another file"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A record in it is not one that was written.
    #[error(
        "the store {path} has a record that is none ({said}); it was changed by another program: take a copy of before that, or begin a new one"
    )]
    Record {
        /// The file.
        path: PathBuf,
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

/// Kinds of failures of SQLite, by its result codes (<https://www.sqlite.org/rescode.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody else has locked it.
    Locked,
    /// There is no room.
    Full,
    /// It is no database, or not a whole one.
    Damaged,
    /// It cannot be written to.
    ReadOnly,
    /// Anything else.
    Other,
}

impl Kind {
    /// The primary result code is the lowest byte of what SQLite returns.
    const fn of(code: i32) -> Self {
        match code & 0xff {
            // SQLITE_BUSY, SQLITE_LOCKED
            5 | 6 => Self::Locked,
            // SQLITE_FULL
            13 => Self::Full,
            // SQLITE_CORRUPT, SQLITE_NOTADB
            11 | 26 => Self::Damaged,
            // SQLITE_READONLY
            8 => Self::ReadOnly,
            _ => Self::Other,
        }
    }

    const fn mend(self) -> &'static str {
        match self {
            Self::Locked => {
                "another process has locked it (`fuser FILE` tells which): end that one, or try again later"
            }
            Self::Full => "make room there, or name a file on another disk",
            Self::Damaged => {
                "it is none, or a damaged one: take a copy of before, or move it away and begin a new one"
            }
            Self::ReadOnly => {
                "gwp-race must be able to write to the file and to its folder, also to read it: copy it to a folder of your own"
            }
            Self::Other => "see that the file and its folder can be read and written",
        }
    }
}

impl StoreError {
    /// Whether somebody else has locked it.
    pub(super) const fn is_locked(&self) -> bool {
        matches!(
            self,
            Self::Database {
                kind: Kind::Locked,
                ..
            }
        )
    }

    /// What SQLite says of a file that is called so.
    pub(crate) fn of(what: &'static str, path: &Path, error: sqlx::Error) -> Self {
        let (kind, said) = match error.as_database_error() {
            Some(error) => {
                let code = error.code().and_then(|code| code.parse().ok());
                (
                    Kind::of(code.unwrap_or_default()),
                    error.message().to_owned(),
                )
            }
            None => match &error {
                sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => {
                    (Kind::Damaged, error.to_string())
                }
                _ => (Kind::Other, error.to_string()),
            },
        };
        Self::Database {
            what,
            path: path.to_owned(),
            kind,
            said,
        }
    }
}
