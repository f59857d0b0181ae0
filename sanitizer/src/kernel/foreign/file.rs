//! A file that was found and not opened yet.

use std::{
    fs::File,
    io,
    ops::Range,
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
};

use super::{
    about::About,
    error::ForeignError,
    mounts::{Kind, Mounts},
};
use crate::kernel::KernelError;

/// What a file is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is code that a process has mapped or executes. It may be in a file system that root or the user serves, who
    /// could have harmed this process anyway.
    Code,
    /// The same, for somebody who waits for no process: where one serves the file system, that is told
    /// ([`ForeignError::Served`]), and it is not asked.
    Promptly,
    /// The same, for somebody who may be held up by nobody at all: no file system is asked for which a process or another machine
    /// answers.
    Local,
    /// To know more, and nobody would be worse off without: no file system that anybody serves is asked.
    Debug,
}

/// A regular file in a file system that holds files. It is held, but not opened for reading.
#[derive(Debug)]
pub struct ForeignFile {
    fd: OwnedFd,
    about: About,
    path: PathBuf,
    is_served: bool,
}

impl ForeignFile {
    /// What a process has mapped at these addresses: a mapping's first one and the first one behind it. Also what was deleted or
    /// replaced since. `id` may be that of any of its threads.
    ///
    /// # Errors
    /// Fails where nothing or something else is mapped, nothing may be seen (`CAP_CHECKPOINT_RESTORE`), or what is mapped is
    /// not to be opened.
    pub fn mapped(id: u32, addresses: &Range<u64>, purpose: Purpose) -> Result<Self, ForeignError> {
        let Range { start, end } = addresses;
        Self::linked(id, &format!("map_files/{start:x}-{end:x}"), purpose)
    }

    /// What a process executes. `id` may be that of any of its threads.
    ///
    /// # Errors
    /// Fails where it has ended, nothing may be seen, or it is not to be opened.
    pub fn executed(id: u32, purpose: Purpose) -> Result<Self, ForeignError> {
        Self::linked(id, "exe", purpose)
    }

    fn linked(id: u32, entry: &str, purpose: Purpose) -> Result<Self, ForeignError> {
        let link = PathBuf::from(format!("/proc/{id}/{entry}"));
        let fd = open(&link, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(|cause| failed("open", &link, cause))?;
        let about = about(&fd, &link)?;
        let kind = Mounts::seen_by(Some(id)).kind_of(&about)?;
        Self::new(fd, about, &kind, purpose, link)
    }

    /// Takes what was found, whose file system is of this kind.
    pub(super) fn new(
        fd: OwnedFd,
        about: About,
        kind: &Kind,
        purpose: Purpose,
        path: PathBuf,
    ) -> Result<Self, ForeignError> {
        check(kind, purpose, &about, &path)?;
        if !about.is_regular() {
            return Err(ForeignError::NoFile { path });
        }
        Ok(Self {
            fd,
            about,
            path,
            is_served: matches!(kind, Kind::Served { .. }),
        })
    }

    /// What is known of it.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.about
    }

    /// Whether a process answers for its file system, when that pleases.
    #[must_use]
    pub const fn is_served(&self) -> bool {
        self.is_served
    }

    /// Whether it is the one of this device and inode.
    #[must_use]
    pub fn is(&self, (device, inode): (u64, u64)) -> bool {
        (self.about.device, self.about.inode) == (device, inode)
    }

    /// Opens it for reading.
    ///
    /// # Errors
    /// Fails where open(2) does: there may be no right to read it, and whoever holds a lease is not waited for.
    pub fn open(&self) -> Result<File, ForeignError> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        // Of the thread: it may have descriptors of its own.
        let own = format!("/proc/thread-self/fd/{}", self.fd.as_raw_fd());
        let fd = open(own.as_str(), flags, Mode::empty())
            .map_err(|cause| failed("open", &self.path, cause))?;
        Ok(fd.into())
    }
}

/// Nothing in a file system that is not to be asked is looked at.
pub(super) fn check(
    kind: &Kind,
    purpose: Purpose,
    about: &About,
    path: &Path,
) -> Result<(), ForeignError> {
    let kind = match (kind, purpose) {
        (Kind::Served { is_trusted: true }, Purpose::Promptly) => {
            return Err(ForeignError::Served {
                path: path.to_owned(),
                device: about.device,
            });
        }
        (Kind::Remote(kind), Purpose::Local) => kind,
        (Kind::Files | Kind::Remote(_), _) | (Kind::Served { is_trusted: true }, Purpose::Code) => {
            return Ok(());
        }
        (Kind::Served { .. }, _) => "fuse",
        (Kind::Other(kind), _) => kind,
        (Kind::Unknown, _) => "unknown",
    };
    Err(ForeignError::FileSystem {
        path: path.to_owned(),
        kind: kind.to_owned(),
    })
}

pub(super) fn about(fd: &OwnedFd, path: &Path) -> Result<About, ForeignError> {
    About::of(fd).map_err(|cause| failed("statx", path, cause))
}

pub(super) fn failed(call: &'static str, path: &Path, cause: impl Into<io::Error>) -> ForeignError {
    ForeignError::Call(KernelError {
        call,
        object: path.display().to_string(),
        source: cause.into(),
    })
}
