//! The folder of a report file, reached without following links that others may have laid.
//!
//! Whoever may write to a folder may put a symbolic link there under the name that a privileged user is about to
//! use: anybody in `/tmp`, its owner in any. So a link is followed only if it belongs to the user or to root, or stands where
//! nobody else can have laid it. (The kernel's own `fs.protected_symlinks` looks at `/tmp` and its like only, and not every
//! machine has it switched on.)

use std::{
    collections::VecDeque,
    ffi::OsString,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
};

use libc::uid_t;
use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat, readlinkat},
    sys::stat::{FileStat, Mode, fstat},
    unistd::geteuid,
};

/// Links followed on one path, as in the kernel (`MAXSYMLINKS` in `include/linux/namei.h`).
const MOST_LINKS: usize = 40;

/// An open folder.
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

    fn at(path: &str) -> Result<Self, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = open(path, flags, Mode::empty())?;
        let stat = fstat(&fd)?;
        Ok(Self { fd, stat })
    }

    /// Whether something in this folder was put there by the user or by root, as far as its owner or the folder's tells.
    pub fn is_safe(&self, entry: &FileStat) -> bool {
        let others_may_write = self.stat.st_mode & (libc::S_IWGRP | libc::S_IWOTH) != 0;
        is_trusted(entry.st_uid) || is_trusted(self.stat.st_uid) && !others_may_write
    }

    /// Whether another user owns it, who may put something else in the place of anything that is in it; where gwp-race is root, also whether others of its group may.
    pub fn is_foreign(&self) -> bool {
        let is_root = geteuid().is_root();
        !is_trusted(self.stat.st_uid) || is_root && self.stat.st_mode & libc::S_IWGRP != 0
    }

    /// Whether everybody may put something into this folder.
    pub const fn is_open_to_all(&self) -> bool {
        self.stat.st_mode & libc::S_IWOTH != 0
    }

    /// Whether something in this folder is the folder's owner's, who loses nothing but his own when it is written to.
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
