//! The folder in which all clients of a user keep what servers have sent, as elfutils' client lays it out: `ID/debuginfo`. An empty file says that no server had
//! it when it was made.
//!
//! Whoever owns a folder on the way to a file, or may write to one, can lay a link in the file's place, and gwp-race may be root: so the folder of a build id is opened once, and used by its descriptor
//! only if nobody else has a say in it or in the cache.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    num::NonZeroU64,
    os::{fd::AsRawFd as _, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, openat, renameat},
    sys::{
        stat::{FileStat, Mode},
        statvfs::fstatvfs,
    },
    unistd::{UnlinkatFlags, unlinkat},
};

use crate::{
    kernel::folder::{Folder, FolderError},
    reader::{HeaderReader, Unidentified},
    symbols::hexadecimal,
};

/// For how long nobody is asked again for what no server had (`cache_miss_s` of elfutils).
pub(super) const MISS: Duration = Duration::from_secs(600);
/// A temporary file to which nothing was written for so long is nobody's any more: whoever wrote it was killed.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Bytes after which it is looked again how much room there is.
const LOOK_EVERY: u64 = 16 << 20;
/// The name of a file in its build id's folder.
const NAME: &str = "debuginfo";
/// How those begin that it has before it is whole, as with elfutils' client.
const TEMPORARY: &str = "debuginfo.";

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    reserve: Reserve,
}

/// What of a disk stays free: what is fetched is worth less than that others can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserve {
    /// Bytes of any disk.
    pub(super) bytes: u64,
    /// One of so many of its bytes, where that is more.
    pub(super) part: NonZeroU64,
}

impl Reserve {
    /// Unless a test says otherwise.
    pub(super) const USUAL: Self = Self {
        bytes: 1 << 30,
        part: NonZeroU64::new(20).unwrap(),
    };

    /// Bytes that stay free on a disk of so many.
    pub(super) fn of(self, all: u64) -> u64 {
        self.bytes.max(all / self.part)
    }
}

/// Why it is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum CacheError {
    /// A folder cannot be opened or made, or what is in it not be looked at.
    #[error("{path} cannot be used: {source}")]
    Call {
        /// What it is about.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another user may lay links there.
    #[error("{0} belongs to another user, or others may write to it")]
    Foreign(PathBuf),
    /// Something else has its name.
    #[error("{0} is no file; remove it")]
    NoFile(PathBuf),
    /// What it is is not known.
    #[error("the headers of {path} could not be read: {why}")]
    Unread {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Another user may have laid it.
    #[error("{0} is a symbolic link that another user may have laid")]
    ForeignLink(PathBuf),
}

/// What is there of a build id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Its debug file.
    File,
    /// A note that no server had it, not long ago.
    Miss,
    /// Nothing that counts.
    Nothing,
}

impl Cache {
    pub(super) const fn new(folder: PathBuf, reserve: Reserve) -> Self {
        Self { folder, reserve }
    }

    /// The place of a build id, whose folder is made if it is missing.
    pub(super) fn place(&self, build_id: &[u8]) -> Result<Place, CacheError> {
        let id = hexadecimal(build_id);
        let path = self.folder.join(&id);
        let cache = own(made(&self.folder)?, &self.folder)?;
        let folder = cache.below(id.as_ref());
        let folder = folder.map_err(|error| failed(&path, error))?;
        Ok(Place {
            folder: Arc::new(own(folder, &path)?),
            path: path.join(NAME),
            build_id: build_id.to_owned(),
            reserve: self.reserve,
        })
    }
}

fn failed(path: &Path, error: Errno) -> CacheError {
    CacheError::Call {
        path: path.to_owned(),
        source: error.into(),
    }
}

/// A folder in which nobody else may put anything.
fn own(folder: Folder, path: &Path) -> Result<Folder, CacheError> {
    if folder.is_foreign() || folder.is_open_to_all() {
        return Err(CacheError::Foreign(path.to_owned()));
    }
    Ok(folder)
}

/// The folder of a path. What is missing of it is made, unless that would be in a folder of another user, whose programs could not use it then.
fn made(path: &Path) -> Result<Folder, CacheError> {
    match (Folder::open(path), path.parent(), path.file_name()) {
        (Ok(folder), ..) => Ok(folder),
        (Err(FolderError::Call(Errno::ENOENT)), Some(parent), Some(name)) => {
            let folder = made(parent)?;
            if folder.is_of_another() {
                return Err(CacheError::Foreign(parent.to_owned()));
            }
            folder.below(name).map_err(|error| failed(path, error))
        }
        (Err(FolderError::Call(error)), ..) => Err(failed(path, error)),
        (Err(FolderError::ForeignLink(link)), ..) => Err(CacheError::ForeignLink(link)),
    }
}

/// The folder of a build id.
#[derive(Debug)]
pub(super) struct Place {
    folder: Arc<Folder>,
    /// The file's, for messages.
    path: PathBuf,
    build_id: Vec<u8>,
    reserve: Reserve,
}

impl Place {
    /// The file's path, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What is there. A file that is not what it is called is removed: a machine may have lost its power, and other clients may be anything. `reader`: tells what it is.
    pub(super) fn look(
        &self,
        now: SystemTime,
        reader: &mut HeaderReader,
    ) -> Result<Kept, CacheError> {
        let failed = |error| failed(&self.path, error);
        let entry = self.folder.entry(NAME.as_ref()).map_err(failed)?;
        let Some((_, about)) = entry else {
            return Ok(Kept::Nothing);
        };
        if !is_file(&about) {
            return Err(CacheError::NoFile(self.path.clone()));
        }
        if about.st_size > 0 {
            let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            let file = openat(&self.folder.fd, NAME, flags, Mode::empty()).map_err(failed)?;
            match reader.build_id(file.into(), &self.path) {
                Ok(found) if found == self.build_id => return Ok(Kept::File),
                Ok(_) | Err(Unidentified::NotWhole) => {}
                Err(Unidentified::Unread(why)) => {
                    let path = self.path.clone();
                    return Err(CacheError::Unread { path, why });
                }
            }
            remove(&self.folder, NAME.as_ref()).map_err(failed)?;
            tracing::debug!(path = %self.path.display(), "not the debug file of its build id: removed");
            return Ok(Kept::Nothing);
        }
        Ok(match age(&about, now) {
            Some(age) if age < MISS => Kept::Miss,
            _ => Kept::Nothing,
        })
    }

    /// A file to be written, which has its name once it is [kept](Partial::keep).
    pub(super) fn begin(&self) -> io::Result<Partial> {
        self.remove_abandoned(SystemTime::now());
        let name = format!("{TEMPORARY}{:08x}", fastrand::u32(..));
        let flags =
            OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let file = openat(&self.folder.fd, name.as_str(), flags, mode)?;
        Ok(Partial {
            file: file.into(),
            written: 0,
            looked: None,
            reserve: self.reserve,
            unfinished: Unfinished {
                folder: Arc::clone(&self.folder),
                name,
            },
        })
    }

    /// Removes temporary files of whoever was killed.
    pub(super) fn remove_abandoned(&self, now: SystemTime) {
        // Of the thread: it may have descriptors of its own.
        let own = format!("/proc/thread-self/fd/{}", self.folder.fd.as_raw_fd());
        for entry in fs::read_dir(own).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_temporary = name.as_bytes().starts_with(TEMPORARY.as_bytes());
            let is_old = || {
                let (_, about) = self.folder.entry(&name).ok()??;
                Some(is_file(&about) && age(&about, now)? >= ABANDONED)
            };
            if is_temporary && is_old() == Some(true) {
                // It is in nobody's way.
                let _ = remove(&self.folder, &name);
            }
        }
    }

    /// Notes that no server has it.
    pub(super) fn note_miss(&self) -> io::Result<()> {
        self.begin()?.keep()
    }
}

fn is_file(about: &FileStat) -> bool {
    about.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// How long ago a file was written to; nothing where that is still to come.
fn age(about: &FileStat, now: SystemTime) -> Option<Duration> {
    let written = Duration::from_secs(about.st_mtime.try_into().ok()?);
    now.duration_since(SystemTime::UNIX_EPOCH.checked_add(written)?)
        .ok()
}

/// The temporary name of a file that has not come to its end.
#[derive(Clone, Debug)]
pub(super) struct Unfinished {
    folder: Arc<Folder>,
    name: String,
}

impl Unfinished {
    /// Removes the file, unless it has come to its end.
    pub(super) fn remove(&self) {
        // It has another name where it is kept.
        let _ = remove(&self.folder, self.name.as_ref());
    }
}

fn remove(folder: &Folder, name: &OsStr) -> Result<(), Errno> {
    unlinkat(&folder.fd, name, UnlinkatFlags::NoRemoveDir)
}

/// A file that has not come to its end. It is gone when this is.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) file: File,
    /// Bytes that were written.
    written: u64,
    /// How many these were when it was looked how much room there is.
    looked: Option<u64>,
    reserve: Reserve,
    unfinished: Unfinished,
}

impl Partial {
    pub(super) const fn unfinished(&self) -> &Unfinished {
        &self.unfinished
    }

    /// Writes more of it.
    pub(super) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let since = self.looked.map(|looked| self.written - looked);
        if since.is_none_or(|since| since >= LOOK_EVERY) {
            self.see_room()?;
            self.looked = Some(self.written);
        }
        self.file.write_all(piece)?;
        self.written += piece.len() as u64;
        Ok(())
    }

    fn see_room(&self) -> io::Result<()> {
        /// Bytes of the unit in which it is told.
        const MIB: u64 = 1 << 20;
        let disk = fstatvfs(&self.file)?;
        let free = disk.blocks_available().saturating_mul(disk.fragment_size());
        let all = disk.blocks().saturating_mul(disk.fragment_size());
        let least = self.reserve.of(all);
        if free < least {
            let (free, least) = (free / MIB, least / MIB);
            return Err(io::Error::other(format!(
                "{free} MiB are free there, and {least} MiB are to stay so"
            )));
        }
        Ok(())
    }

    /// Gives it its name, once its contents are on the disk: the name must not be there without them.
    pub(super) fn keep(self) -> io::Result<()> {
        self.file.sync_data()?;
        let Unfinished { folder, name } = &self.unfinished;
        Ok(renameat(&folder.fd, name.as_str(), &folder.fd, NAME)?)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        self.unfinished.remove();
    }
}
