//! Folders of debug files, laid out as GDB's manual describes in "Debugging Information in Separate Files": `.build-id/ab/cdef.debug`, and below
//! the path of a program's folder what its `.gnu_debuglink` names.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::beside::Opened;
use crate::kernel::foreign::{ForeignError, Purpose, Root};
use crate::kernel::named::open_file;
use crate::kernel::rights::as_caller;

/// Where distributions install debug files.
const DEFAULT: &str = "/usr/lib/debug";
/// Bytes of a build id at most.
const LONGEST_BUILD_ID: usize = 64;

/// A folder.
#[derive(Debug)]
enum DebugDir {
    /// In the root of the process that has mapped the file.
    There(PathBuf),
    /// One that the user has named. No name leads out of it, and it is opened with what he may do himself.
    Here {
        /// What he calls it.
        name: PathBuf,
        /// The folder, held.
        root: Root,
    },
}

/// Where something of a folder would be.
#[derive(Debug)]
pub(super) struct Place<'dirs> {
    /// Where its name is looked up.
    within: Within<'dirs>,
    /// Its name there.
    pub(super) path: PathBuf,
}

/// Where a name is looked up.
#[derive(Debug)]
enum Within<'dirs> {
    /// In the root of the process that has mapped the file.
    There,
    /// In a folder that the user has named.
    Named(&'dirs Root),
    /// By the user himself.
    Ours,
}

impl Place<'_> {
    /// In the root of the process that has mapped the file.
    pub(super) const fn there(path: PathBuf) -> Self {
        let within = Within::There;
        Self { within, path }
    }

    /// In the cache of what servers have sent to the user.
    pub(super) fn served(cache: &Path, build_id: &[u8]) -> Option<Self> {
        is_build_id(build_id).then(|| Self {
            within: Within::Ours,
            path: served_file(cache, build_id),
        })
    }

    /// Opens what is there, if it is an ELF file. `root`: that of the process that has mapped the file, if names lead anywhere.
    pub(super) fn open(&self, root: Option<&Root>) -> Option<Opened> {
        let open = |root: &Root| -> Result<File, ForeignError> {
            root.file(&self.path, Purpose::Debug)?.open()
        };
        let file = match self.within {
            Within::Named(named) => as_caller(|| open(named)).ok()?.ok()?,
            Within::Ours => as_caller(|| open_file(&self.path)).ok()?.ok()?,
            Within::There => open(root?).ok()?,
        };
        Opened::elf(file).ok()
    }
}

impl DebugDir {
    fn place(&self, below: impl AsRef<Path>) -> Place<'_> {
        match self {
            Self::There(dir) => Place::there(dir.join(below)),
            Self::Here { root, .. } => Place {
                within: Within::Named(root),
                path: below.as_ref().to_owned(),
            },
        }
    }
}

/// All of them, in the order in which they are looked into.
#[derive(Debug)]
pub struct DebugDirs(Vec<DebugDir>);

impl DebugDirs {
    /// These of the user, then where distributions have them.
    ///
    /// # Errors
    /// Fails where one of them cannot be used.
    pub fn of_user(dirs: &[PathBuf]) -> Result<Self, ForeignError> {
        let named = dirs.iter().map(|name| {
            Ok(DebugDir::Here {
                root: Root::folder(name)?,
                name: name.clone(),
            })
        });
        let mut dirs: Vec<_> = named.collect::<Result<_, ForeignError>>()?;
        dirs.push(DebugDir::There(DEFAULT.into()));
        Ok(Self(dirs))
    }

    /// These in the root of whatever process has mapped a file, and no others.
    #[must_use]
    pub fn there(dirs: Vec<PathBuf>) -> Self {
        Self(dirs.into_iter().map(DebugDir::There).collect())
    }

    /// Where the debug file of a build id is in each of them as this process sees it, for files that are not at hand themselves.
    #[must_use]
    pub fn files_of(&self, build_id: &[u8]) -> Vec<PathBuf> {
        let Some(name) = by_build_id(build_id) else {
            return Vec::new();
        };
        let dirs = self.0.iter().map(|dir| match dir {
            DebugDir::There(dir) => dir,
            DebugDir::Here { name, .. } => name,
        });
        dirs.map(|dir| dir.join(&name)).collect()
    }

    /// The debug file of a build id in the Nth of them.
    pub(super) fn build_id(&self, build_id: &[u8], nth: usize) -> Option<Place<'_>> {
        Some(self.0.get(nth)?.place(by_build_id(build_id)?))
    }

    /// What is below a path without its root in the Nth of them.
    pub(super) fn below(&self, path: &Path, nth: usize) -> Option<Place<'_>> {
        Some(self.0.get(nth)?.place(path))
    }
}

impl Default for DebugDirs {
    /// Where distributions install them.
    fn default() -> Self {
        Self::there(vec![DEFAULT.into()])
    }
}

/// Where a cache as elfutils' client lays it out has the debug file of a build id (debuginfod-client-config(7)).
#[must_use]
pub fn served_file(cache: &Path, build_id: &[u8]) -> PathBuf {
    cache.join(hexadecimal(build_id)).join("debuginfo")
}

/// A build id as it is written.
#[must_use]
pub fn hexadecimal(build_id: &[u8]) -> String {
    build_id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether it has a length that one may have.
const fn is_build_id(build_id: &[u8]) -> bool {
    build_id.len() > 1 && build_id.len() <= LONGEST_BUILD_ID
}

/// The name of a build id's debug file in a folder; none of what is no build id.
fn by_build_id(build_id: &[u8]) -> Option<String> {
    let (first, rest) = build_id.split_first()?;
    let name = || format!(".build-id/{first:02x}/{}.debug", hexadecimal(rest));
    is_build_id(build_id).then(name)
}
