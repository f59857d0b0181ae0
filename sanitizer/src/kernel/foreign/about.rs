//! What is known of an open file without asking its file system (statx(2), `AT_STATX_DONT_SYNC`): one that a program serves itself
//! answers when that program pleases.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd as _},
    path::Path,
};

use nix::{
    fcntl::{OFlag, open},
    sys::stat::{Mode, makedev},
};

/// What tells a file's content from another one's, without reading it: device, inode, size, and when it was changed
/// last (seconds and nanoseconds).
pub type FileIdentity = (u64, u64, u64, i64, i64);

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The file system's device number, as `st_dev` has it.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed last, in seconds and nanoseconds.
    pub changed: (i64, i64),
    /// Its type, of the bits of `st_mode`.
    kind: u32,
    /// The id of the mount through which it was opened, as `mountinfo` has it.
    pub(super) mount: u64,
}

impl About {
    /// Of an open file.
    ///
    /// # Errors
    /// Fails where statx(2) does, and before Linux 5.8, which does not tell of mounts.
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        const WANTED: u32 = libc::STATX_BASIC_STATS | libc::STATX_MNT_ID;
        const NEEDED: u32 = libc::STATX_TYPE | libc::STATX_INO | libc::STATX_MNT_ID;
        let flags = libc::AT_EMPTY_PATH | libc::AT_NO_AUTOMOUNT | libc::AT_STATX_DONT_SYNC;
        let mut about = MaybeUninit::<libc::statx>::zeroed();
        // SAFETY: the path is a C string, the descriptor is open, and the structure is writable.
        let result = unsafe {
            let fd = fd.as_fd().as_raw_fd();
            libc::statx(fd, c"".as_ptr(), flags, WANTED, about.as_mut_ptr())
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was zeroed, which is valid for integers, and the kernel has filled it in.
        let about = unsafe { about.assume_init() };
        if about.stx_mask & NEEDED != NEEDED {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            device: makedev(about.stx_dev_major.into(), about.stx_dev_minor.into()),
            inode: about.stx_ino,
            size: about.stx_size,
            changed: (about.stx_ctime.tv_sec, about.stx_ctime.tv_nsec.into()),
            kind: u32::from(about.stx_mode) & libc::S_IFMT,
            mount: about.stx_mnt_id,
        })
    }

    /// Of what a name leads to, which is only looked at. For names that the kernel gives, such as `/proc/PID/exe`.
    ///
    /// # Errors
    /// Fails where open(2) or [`About::of`] does.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::of(open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?)
    }

    /// What tells the file from another one, and from itself after a change.
    #[must_use]
    pub const fn identity(&self) -> FileIdentity {
        let (seconds, nanoseconds) = self.changed;
        (self.device, self.inode, self.size, seconds, nanoseconds)
    }

    pub(super) const fn is_folder(&self) -> bool {
        self.kind == libc::S_IFDIR
    }

    pub(super) const fn is_link(&self) -> bool {
        self.kind == libc::S_IFLNK
    }

    pub(super) const fn is_regular(&self) -> bool {
        self.kind == libc::S_IFREG
    }
}
