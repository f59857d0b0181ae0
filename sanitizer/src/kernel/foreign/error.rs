//! Why a file is not opened.

use std::path::PathBuf;

use crate::kernel::{KernelError, limits::is_shortage};

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// A system call failed.
    #[error(transparent)]
    Call(#[from] KernelError),
    /// It has no bytes of its own.
    #[error(
        "{path} is not a regular file, and nothing else is opened for a watched program; look at what it is: stat {path}"
    )]
    NoFile {
        /// Its name, as the process sees it.
        path: PathBuf,
    },
    /// Its file system is not asked for anything.
    #[error(
        "{path} is in a file system of type {kind}, in which nothing is opened for a watched program; copy it to an \
         ordinary one (see \"Files of watched programs\" in docs/safety.md)"
    )]
    FileSystem {
        /// The name of what is in it.
        path: PathBuf,
        /// The type, as mountinfo has it.
        kind: String,
    },
    /// A process serves its file system, and whoever asks may not wait for an answer.
    #[error(
        "{path} is in a file system that a process serves, which is asked by a process of its own alone; copy it to an \
         ordinary one (see \"Files of watched programs\" in docs/safety.md)"
    )]
    Served {
        /// The name of what is in it.
        path: PathBuf,
        /// The file system's device, as `st_dev` has it.
        device: u64,
    },
}

impl ForeignError {
    /// The device of the file system that was not asked because a process serves it, where others may ask it.
    #[must_use]
    pub const fn served(&self) -> Option<u64> {
        match self {
            Self::Served { device, .. } => Some(*device),
            _ => None,
        }
    }

    /// Whether descriptors or memory have run out.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        matches!(self, Self::Call(error) if is_shortage(&error.source))
    }

    /// The kernel's answer, where a call failed.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call(error) => error.source.raw_os_error(),
            Self::NoFile { .. } | Self::FileSystem { .. } | Self::Served { .. } => None,
        }
    }
}
