//! What is wanted beside a file when its debug information is read: debug files, what they have in common, packages, split units.
//! Whoever reads opens nothing himself: he says what he means, and whoever may open files looks for that
//! ([`Source`](super::Source)). So the two can be different processes.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use serde::{Deserialize, Serialize};

use crate::kernel::nameless::{DIRECTORIES, nameless_file};

/// What ELF files begin with.
const MAGIC: &[u8; 4] = b"\x7fELF";

/// Names a file's content: the same identity, the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    /// Its size in bytes.
    pub(super) size: u64,
    modified: (i64, i64),
}

impl FileIdentity {
    /// Whether it is of this device and inode.
    #[must_use]
    pub const fn is_at(&self, device: u64, inode: u64) -> bool {
        self.device == device && self.inode == inode
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Whether another file was modified after this one, by the seconds and nanoseconds of both.
    #[must_use]
    pub fn is_before(&self, modified: (i64, i64)) -> bool {
        self.modified < modified
    }
}

/// A file that was opened, and what tells it from others.
#[derive(Debug)]
pub struct Opened {
    /// It can be read, or is for whoever has asked for it alone.
    pub file: File,
    /// See there.
    pub identity: FileIdentity,
}

impl Opened {
    /// An ELF file: nothing else is handed to whoever reads.
    ///
    /// # Errors
    /// Fails for what is none, and where it cannot be read.
    pub fn elf(file: File) -> io::Result<Self> {
        let about = file.metadata()?;
        let no_elf = || io::Error::new(ErrorKind::InvalidData, "no ELF file");
        if !about.is_file() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let mut magic = [0; MAGIC.len()];
        file.read_exact_at(&mut magic, 0).map_err(|_| no_elf())?;
        if magic != *MAGIC {
            return Err(no_elf());
        }
        let identity = FileIdentity {
            device: about.dev(),
            inode: about.ino(),
            size: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
        };
        Ok(Self { file, identity })
    }

    /// Another descriptor of the same file.
    ///
    /// # Errors
    /// Fails where no descriptor can be had.
    pub fn again(&self) -> io::Result<Self> {
        Ok(Self {
            file: self.file.try_clone()?,
            identity: self.identity,
        })
    }
}

/// What is looked for. Where it may be in several places, these are tried one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Wanted {
    /// The debug file of this build id, in the Nth place.
    BuildId(Vec<u8>, u32),
    /// The debug file of this build id that a server has sent before.
    Served(Vec<u8>),
    /// What `.gnu_debuglink` names, in the Nth place.
    DebugLink(String, u32),
    /// What `.gnu_debugaltlink` names, in the Nth place.
    Supplementary(String, u32),
    /// The package of all split units.
    Package,
    /// The split unit that is named so, from the folder in which it was compiled.
    Unit(Option<String>, String),
    /// An empty file without a name, to be written to.
    Scratch,
}

/// What came of looking for something in a place.
#[derive(Debug)]
pub enum Looked {
    /// This is there.
    Found(Opened),
    /// Nothing is there that may be opened.
    Nothing,
    /// There is no such place.
    NoPlace,
}

/// Whoever looks for things beside one file.
pub trait Beside: Send + Sync {
    /// Looks for something.
    fn look(&self, wanted: &Wanted) -> Looked;
}

/// An empty file without a name in a directory that is on a disk.
pub(super) fn scratch() -> Looked {
    let file = DIRECTORIES.iter().find_map(|at| nameless_file(at));
    file.map_or(Looked::Nothing, |file| {
        Looked::Found(Opened {
            file,
            identity: FileIdentity::default(),
        })
    })
}

/// Only empty files can be had.
#[cfg(test)]
pub(super) struct NothingBeside;

#[cfg(test)]
impl Beside for NothingBeside {
    fn look(&self, wanted: &Wanted) -> Looked {
        match wanted {
            Wanted::Scratch => scratch(),
            _ => Looked::NoPlace,
        }
    }
}
