//! The folder of a report file, reached without following links that others may have laid.
//!
//! In a folder that everybody may write to (`/tmp`), anybody may put a symbolic link under the name
//! that a privileged user is about to use. The rule is that of the kernel's own
//! `fs.protected_symlinks`, which not every machine has switched on: such a link is followed only if
//! it belongs to the user or to the owner of the folder that it stands in.

use std::{
    collections::VecDeque,
    ffi::OsString,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
};

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
            if !folder.trusts(&stat) {
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

    /// Whether something in this folder was put there by somebody whom the user trusts: by the user,
    /// by the folder's owner, or, in a folder to which others may not write, by anybody.
    pub fn trusts(&self, entry: &FileStat) -> bool {
        self.stat.st_mode & libc::S_IWOTH == 0
            || entry.st_uid == geteuid().as_raw()
            || entry.st_uid == self.stat.st_uid
    }
}

/// The names on a path, `..` included.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}
