//! How a file of a watched program can be opened, by this process or another one of ours.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    error::ForeignError,
    file::{ForeignFile, Purpose, failed},
    root::Root,
};
use crate::kernel::named;

/// See the module. Ids are those of processes, or of threads of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Via {
    /// By a name in the root of a process.
    Root {
        /// The process.
        id: u32,
        /// The name.
        path: PathBuf,
    },
    /// By the name in our root of a file that a process has mapped, and that is not in its own root any more.
    Outside {
        /// The name.
        path: PathBuf,
        /// The device, as `st_dev` has it: it must be this very file.
        device: u64,
        /// The inode number.
        inode: u64,
    },
    /// As what a process has mapped.
    Mapping {
        /// The process.
        id: u32,
        /// The mapping's first address.
        start: u64,
        /// The first address behind it.
        end: u64,
    },
    /// By a name below a folder that the user has named. It does not lead out of that, and nothing that a process serves is asked.
    Below {
        /// The folder.
        folder: PathBuf,
        /// The name.
        path: PathBuf,
    },
    /// By a name that the user has given himself.
    Name(PathBuf),
}

impl Via {
    /// Opens it. It is not waited for, and no terminal becomes ours.
    ///
    /// # Errors
    /// Fails where it is not there any more, may not be read, or is nothing to be opened for a watched program.
    pub fn open(&self, purpose: Purpose) -> Result<File, ForeignError> {
        match self {
            Self::Root { id, path } => Root::of(*id)?.file(path, purpose)?.open(),
            Self::Outside {
                path,
                device,
                inode,
            } => {
                let file = Root::ours()?.file(path, purpose)?;
                if !file.is((*device, *inode)) {
                    return Err(failed("openat", path, nix::errno::Errno::ENOENT));
                }
                file.open()
            }
            Self::Mapping { id, start, end } => {
                ForeignFile::mapped(*id, &(*start..*end), purpose)?.open()
            }
            Self::Below { folder, path } => {
                Root::folder(folder)?.file(path, Purpose::Debug)?.open()
            }
            Self::Name(path) => named::open_file(path).map_err(|cause| failed("open", path, cause)),
        }
    }

    /// Where the names in it lead: the root of the process that has mapped it, and ours for what the user has named. Of a file
    /// that is outside of its process's root no name is followed.
    ///
    /// # Errors
    /// Fails where [`Root::of`] does.
    pub fn root(&self) -> Result<Option<Root>, ForeignError> {
        match self {
            Self::Root { id, .. } | Self::Mapping { id, .. } => Root::of(*id).map(Some),
            Self::Below { .. } | Self::Name(_) => Root::ours().map(Some),
            Self::Outside { .. } => Ok(None),
        }
    }

    /// Its name in that root, where it is known.
    #[must_use]
    pub fn path_in_root(&self) -> Option<&Path> {
        match self {
            Self::Root { path, .. } => Some(path),
            Self::Outside { .. } | Self::Mapping { .. } | Self::Below { .. } | Self::Name(_) => {
                None
            }
        }
    }
}

impl Default for Via {
    /// No file.
    fn default() -> Self {
        Self::Name(PathBuf::new())
    }
}

impl From<PathBuf> for Via {
    fn from(path: PathBuf) -> Self {
        Self::Name(path)
    }
}
