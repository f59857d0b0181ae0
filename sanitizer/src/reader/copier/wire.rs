//! What the daemon and its copier say to each other.

use std::path::PathBuf;

use gwp_race_abi::descent::ExecutedFile;
use serde::{Deserialize, Serialize};

use crate::{
    kernel::{executed::Executed, foreign::Via},
    symbols::FileIdentity,
};

/// The longest message from the copier.
pub(super) const LONGEST_REPLY: usize = 1 << 16;
/// The longest message to it: a process may have thousands of files.
pub(super) const LONGEST_REQUEST: usize = 16 << 20;

/// Whether some files carry metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Question {
    /// The one that was executed.
    Executed {
        /// Device, inode, size, and seconds of its last change, as the kernel told them.
        file: (u64, u64, u64, i64),
        /// See [`Executed::path`].
        path: PathBuf,
        /// See [`Executed::parent`].
        parent: u32,
        /// The process that executes it.
        by: Option<u32>,
        /// Others that may find it by its name.
        others: Vec<u32>,
    },
    /// Those whose code a process has mapped, of which these (by device and inode) are served.
    Mapped(u32, Vec<(u64, u64)>),
}

impl Question {
    /// About an executed file; see [`Executed::find`].
    #[must_use]
    pub fn executed(executed: &Executed, by: Option<u32>, others: &[u32]) -> Self {
        let ExecutedFile {
            device,
            inode,
            size,
            changed,
        } = executed.file;
        Self::Executed {
            file: (device, inode, size, changed),
            path: executed.path.clone(),
            parent: executed.parent,
            by,
            others: others.to_vec(),
        }
    }
}

/// What the daemon says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Answered by `Carries`.
    Carries(Question),
    /// Answered by `Found`.
    Find(Via),
    /// The file that was found last: answered by `Copied`.
    Copy,
}

/// What the copier says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// It takes a while, and goes on.
    Going,
    /// Whether one does, nothing where they cannot be found or read; and what readers have worked for that, ns.
    Carries(Option<bool>, u64),
    /// What tells the file from others, or why there is none.
    Found(Result<FileIdentity, String>),
    /// The copy's descriptor comes with this, or it cannot be copied.
    Copied(Result<(), String>),
}
