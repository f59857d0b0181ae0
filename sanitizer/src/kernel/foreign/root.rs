//! The root of a process, in which the names that it chooses are looked up.

use std::{
    collections::VecDeque,
    ffi::OsString,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat, readlinkat},
    sys::stat::Mode,
};

use super::{
    about::About,
    error::ForeignError,
    file::{ForeignFile, Purpose, about, check, failed},
    mounts::{Kind, Mounts},
};

/// Links followed on one path, as in the kernel (`MAXSYMLINKS` in `include/linux/namei.h`).
const MOST_LINKS: usize = 40;
/// Bytes of a name, as in the kernel (`PATH_MAX` in `include/uapi/linux/limits.h`).
const LONGEST: usize = 4096;
/// Folders within each other; each is held while what is in it is looked up.
const DEEPEST: usize = 128;

/// The root folder of a process, held: it stays what it was, whatever becomes of the process.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    about: About,
    /// The kind of its file system, whose mount cannot become another one while it is held.
    kind: Kind,
    /// Of a process: its id, or that of a thread.
    id: Option<u32>,
    /// What it is called in ours.
    name: PathBuf,
}

/// A folder on the way.
struct Folder {
    fd: OwnedFd,
    name: OsString,
}

impl Root {
    /// That of a process. `id` may be that of any of its threads.
    ///
    /// # Errors
    /// Fails where the process has ended, and without the right to trace it.
    pub fn of(id: u32) -> Result<Self, ForeignError> {
        let link = PathBuf::from(format!("/proc/{id}/root"));
        let name = std::fs::read_link(&link).map_err(|cause| failed("readlink", &link, cause))?;
        Self::at(&link, Some(id), name)
    }

    /// That of the calling process, for files that the user has named.
    ///
    /// # Errors
    /// Fails where no descriptor can be had.
    pub fn ours() -> Result<Self, ForeignError> {
        Self::at(Path::new("/"), None, "/".into())
    }

    /// A folder that the user has named, as a root: whatever names in it are looked up, none leads out of it.
    ///
    /// # Errors
    /// Fails where it is none, or may not be searched.
    pub fn folder(path: &Path) -> Result<Self, ForeignError> {
        Self::at(path, None, path.to_owned())
    }

    fn at(path: &Path, id: Option<u32>, name: PathBuf) -> Result<Self, ForeignError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(|cause| failed("open", path, cause))?;
        let about = about(&fd, path)?;
        Ok(Self {
            kind: Mounts::seen_by(id).kind_of(&about)?,
            fd,
            about,
            id,
            name,
        })
    }

    /// Sees that it is in a file system that is asked for such a purpose.
    ///
    /// # Errors
    /// Fails where it is not, and so nothing in it is found.
    pub fn is_asked(&self, purpose: Purpose) -> Result<(), ForeignError> {
        check(&self.kind, purpose, &self.about, &self.name)
    }

    /// Whether two are the same folder, reached through the same mount.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    /// What tells it from others, as long as it is held: device, inode and mount.
    #[must_use]
    pub fn identity(&self) -> (u64, u64, u64) {
        (self.about.device, self.about.inode, self.about.mount)
    }

    /// What a file is called in it, of which the kernel has told the name in our root, as it does of processes that have changed their
    /// root.
    #[must_use]
    pub fn inside<'path>(&self, name: &'path Path) -> Option<&'path Path> {
        name.strip_prefix(&self.name).ok()
    }

    /// The file of that name. A relative one begins at the root.
    ///
    /// # Errors
    /// Fails where there is none, it is not regular, or the way leads through a file system that is not to be asked.
    pub fn file(&self, path: &Path, purpose: Purpose) -> Result<ForeignFile, ForeignError> {
        let mut mounts = Mounts::seen_by(self.id);
        let mut folders: Vec<Folder> = Vec::new();
        check(&self.kind, purpose, &self.about, Path::new("/"))?;
        if path.as_os_str().len() >= LONGEST {
            return Err(failed("openat", Path::new("/"), Errno::ENAMETOOLONG));
        }
        let mut left: VecDeque<OsString> = parts(path).collect();
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            if name == ".." {
                // The root's own parent is the root.
                folders.pop();
                continue;
            }
            let shown = || shown(&folders, &name);
            let folder = folders.last().map_or(&self.fd, |folder| &folder.fd);
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let next = openat(folder, name.as_os_str(), flags, Mode::empty())
                .map_err(|cause| failed("openat", &shown(), cause))?;
            let about = about(&next, &shown())?;
            let kind = if about.mount == self.about.mount {
                self.kind.clone()
            } else {
                mounts.kind_of(&about)?
            };
            check(&kind, purpose, &about, &shown())?;
            if about.is_link() {
                links += 1;
                let to = readlinkat(&next, "")
                    .and_then(|to| (links <= MOST_LINKS).then_some(to).ok_or(Errno::ELOOP))
                    .map_err(|cause| failed("readlinkat", &shown(), cause))?;
                let to = PathBuf::from(to);
                if to.is_absolute() {
                    folders.clear();
                }
                for part in parts(&to).collect::<Vec<_>>().into_iter().rev() {
                    left.push_front(part);
                }
            } else if about.is_folder() {
                if folders.len() >= DEEPEST {
                    return Err(failed("openat", &shown(), Errno::ENAMETOOLONG));
                }
                folders.push(Folder { fd: next, name });
            } else if left.is_empty() {
                return ForeignFile::new(next, about, &kind, purpose, shown());
            } else {
                return Err(failed("openat", &shown(), Errno::ENOTDIR));
            }
        }
        Err(ForeignError::NoFile { path: path.into() })
    }
}

/// The name of what is in these folders, as the process sees it.
fn shown(folders: &[Folder], name: &OsString) -> PathBuf {
    let folders = folders.iter().map(|folder| &folder.name);
    let root = OsString::from("/");
    std::iter::once(&root)
        .chain(folders)
        .chain(std::iter::once(name))
        .collect()
}

/// The names on a path, `..` included.
fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}

#[cfg(test)]
mod tests;
