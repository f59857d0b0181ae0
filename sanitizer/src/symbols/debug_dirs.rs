//! Folders of debug files, laid out as GDB's manual describes in "Debugging Information in Separate Files": `.build-id/ab/cdef.debug`, and below
//! the path of a program's folder what its `.gnu_debuglink` names.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::beside::Opened;
use crate::kernel::foreign::{ForeignError, Purpose, Root, Via};
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
            let root = Root::folder(name)?;
            // Else nothing in it would ever be found, and nobody told.
            root.is_asked(Purpose::Debug)?;
            let name = name.clone();
            Ok(DebugDir::Here { name, root })
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

    /// How the debug file of a build id is opened in each of them as this process sees it, for files that are not at hand themselves.
    #[must_use]
    pub fn files_of(&self, build_id: &[u8]) -> Vec<Via> {
        let Some(file) = by_build_id(build_id) else {
            return Vec::new();
        };
        let dirs = self.0.iter().map(|dir| match dir {
            DebugDir::There(dir) => within_ours(dir.join(&file)),
            DebugDir::Here { name, .. } => Via::Below {
                folder: name.clone(),
                path: file.clone().into(),
            },
        });
        dirs.collect()
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

/// How a file is opened that a file names, such as a report, and that is looked up in the root of this process: as debug files are.
#[must_use]
pub fn within_ours(path: PathBuf) -> Via {
    let folder = "/".into();
    Via::Below { folder, path }
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

/// The bytes of a build id that is written so; nothing of what is none.
#[must_use]
pub fn build_id_of_digits(digits: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let byte = |&[high, low]: &[u8; 2]| u8::try_from(digit(high)? << 4 | digit(low)?).ok();
    let build_id: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>()?;
    is_build_id(&build_id).then_some(build_id)
}

/// Whether it has a length that one may have.
#[must_use]
pub const fn is_build_id(build_id: &[u8]) -> bool {
    build_id.len() > 1 && build_id.len() <= LONGEST_BUILD_ID
}

/// The name of a build id's debug file in a folder; none of what is no build id.
fn by_build_id(build_id: &[u8]) -> Option<String> {
    let (first, rest) = build_id.split_first()?;
    let name = || format!(".build-id/{first:02x}/{}.debug", hexadecimal(rest));
    is_build_id(build_id).then(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::kernel::foreign::testing::ServedByNobody;

    /// Check that a build id's file is found in a folder that is named, and that no link leads from there to another place, not even to where the file is.
    #[test]
    fn no_link_leads_out_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("debug");
        let place = dir.join(".build-id/ab/cdef.debug");
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let outside = folder.path().join("outside");
        fs::write(&outside, "outside").unwrap();
        let dirs = DebugDirs::of_user(&[dir]).unwrap();
        let find = || dirs.files_of(&[0xab, 0xcd, 0xef])[0].open(Purpose::Code);
        symlink(&outside, &place).unwrap();
        assert!(find().is_err());
        fs::remove_file(&place).unwrap();
        fs::rename(&outside, &place).unwrap();
        assert!(find().is_ok());
    }

    /// Check that a folder in which nothing would be opened is refused with the reason: an interface of the kernel, and what a process serves, which is not asked.
    #[test]
    fn folders_that_are_not_asked() {
        let refused = |dir: &Path| {
            let error = DebugDirs::of_user(&[dir.to_owned()]).unwrap_err();
            error.to_string()
        };
        let error = refused(Path::new("/proc"));
        assert!(
            error.contains("/proc is in a file system of type proc"),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let served = match ServedByNobody::mount(folder.path(), 0) {
            Ok(served) => served,
            Err(error) => return println!("FUSE cannot be mounted here: {error}"),
        };
        let error = refused(folder.path());
        assert!(error.contains("of type fuse"), "{error}");
        assert_eq!(served.requests(), [ServedByNobody::GREETING]);
    }

    /// Check which digits are a build id.
    #[test]
    fn digits() {
        assert_eq!(build_id_of_digits("0aFf"), Some(vec![0x0a, 0xff]));
        let long = "00".repeat(LONGEST_BUILD_ID + 1);
        for none in ["", "ab", "abc", "+a+b", "../..", &long] {
            assert_eq!(build_id_of_digits(none), None, "{none}");
        }
    }
}
