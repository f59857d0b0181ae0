//! A folder in which something is written, such as a report file, reached without following links that others may have laid.
//!
//! Whoever may write to a folder may put a symbolic link there under the name that a privileged user is about to
//! use: anybody in `/tmp`, its owner in any. So a link is followed only if it belongs to the user or to root, or stands where
//! nobody else can have laid it. (The kernel's own `fs.protected_symlinks` looks at `/tmp` and its like only, and not every
//! machine has it switched on.)

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
};

use libc::uid_t;
use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat, readlinkat},
    sys::stat::{FileStat, Mode, fstat, mkdirat},
    unistd::geteuid,
};

/// Links followed on one path, as in the kernel (`MAXSYMLINKS` in `include/linux/namei.h`).
const MOST_LINKS: usize = 40;

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    /// Opened with `O_PATH`.
    pub fd: OwnedFd,
    stat: FileStat,
}

/// Why a folder was not opened.
#[derive(Debug)]
pub enum FolderError {
    /// A system call failed.
    Call(Errno),
    /// This link is not to be trusted.
    ForeignLink(PathBuf),
}

impl From<Errno> for FolderError {
    fn from(error: Errno) -> Self {
        Self::Call(error)
    }
}

impl Folder {
    /// Opens the folder of this path.
    ///
    /// # Errors
    /// Fails where openat(2) does, and for a link that is not to be followed.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let mut folder = Self::at(if path.is_absolute() { "/" } else { "." })?;
        let mut left: VecDeque<OsString> = names(path).collect();
        // Of the folder in hand: for messages only.
        let mut shown = PathBuf::from(if path.is_absolute() { "/" } else { "" });
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            shown.push(&name);
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let next = openat(&folder.fd, name.as_os_str(), flags, Mode::empty())?;
            let stat = fstat(&next)?;
            if stat.st_mode & libc::S_IFMT != libc::S_IFLNK {
                folder = Self { fd: next, stat };
                continue;
            }
            if !folder.is_safe(&stat) {
                return Err(FolderError::ForeignLink(shown));
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(Errno::ELOOP.into());
            }
            let to = PathBuf::from(readlinkat(&next, "")?);
            if to.is_absolute() {
                folder = Self::at("/")?;
                shown = PathBuf::from("/");
            } else {
                shown.pop();
            }
            for name in names(&to).collect::<Vec<_>>().into_iter().rev() {
                left.push_front(name);
            }
        }
        Ok(folder)
    }

    /// Opens a folder in this one, through no link; it is made where it is missing, for the user alone.
    ///
    /// # Errors
    /// Fails where openat(2) or mkdirat(2) do, and for what is no folder.
    pub fn below(&self, name: &OsStr) -> Result<Self, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let open = || openat(&self.fd, name, flags, Mode::empty());
        let fd = match open() {
            Err(Errno::ENOENT) => match mkdirat(&self.fd, name, Mode::S_IRWXU) {
                // Another one who has just made it has done what was wanted.
                Ok(()) | Err(Errno::EEXIST) => open(),
                Err(error) => Err(error),
            },
            opened => opened,
        }?;
        let stat = fstat(&fd)?;
        Ok(Self { fd, stat })
    }

    fn at(path: &str) -> Result<Self, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = open(path, flags, Mode::empty())?;
        let stat = fstat(&fd)?;
        Ok(Self { fd, stat })
    }

    /// What has a name in this folder now, looked at without opening it: that can block, or do things.
    ///
    /// # Errors
    /// Fails where openat(2) does, but for what is not there.
    pub fn entry(&self, name: &OsStr) -> Result<Option<(OwnedFd, FileStat)>, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(entry) => {
                let stat = fstat(&entry)?;
                Ok(Some((entry, stat)))
            }
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether something in this folder was put there by the user or by root, as far as its owner or the folder's tells.
    #[must_use]
    pub fn is_safe(&self, entry: &FileStat) -> bool {
        let others_may_write = self.stat.st_mode & (libc::S_IWGRP | libc::S_IWOTH) != 0;
        is_trusted(entry.st_uid) || is_trusted(self.stat.st_uid) && !others_may_write
    }

    /// Whether another user owns it, who may put something else in the place of anything that is in it; where gwp-race is root, also whether others of its group may.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        let is_root = geteuid().is_root();
        !is_trusted(self.stat.st_uid) || is_root && self.stat.st_mode & libc::S_IWGRP != 0
    }

    /// Whether another user owns it.
    #[must_use]
    pub fn is_of_another(&self) -> bool {
        !is_trusted(self.stat.st_uid)
    }

    /// Whether everybody may put something into this folder.
    #[must_use]
    pub const fn is_open_to_all(&self) -> bool {
        self.stat.st_mode & libc::S_IWOTH != 0
    }

    /// Whether something in this folder is the folder's owner's, who loses nothing but his own when it is written to.
    #[must_use]
    pub fn is_of_owner(&self, entry: &FileStat) -> bool {
        entry.st_uid == self.stat.st_uid
    }
}

fn is_trusted(owner: uid_t) -> bool {
    owner == 0 || owner == geteuid().as_raw()
}

/// The names on a path, `..` included.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}
