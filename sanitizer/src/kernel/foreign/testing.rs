//! What tells tests that something was opened, and a file system that never answers.

use std::{
    ffi::{CString, OsString},
    io,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
};

/// Notices what is opened in a folder (inotify(7)). What is only looked at (`O_PATH`) is not.
pub struct Opens(OwnedFd);

impl Opens {
    /// From now on.
    pub fn of(folder: &Path) -> Self {
        let path = CString::new(folder.as_os_str().as_bytes()).expect("a name");
        // SAFETY: inotify_init1 touches no memory; its descriptor is nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::inotify_init1(libc::IN_NONBLOCK)) };
        // SAFETY: the path is a C string.
        let watch =
            unsafe { libc::inotify_add_watch(fd.as_raw_fd(), path.as_ptr(), libc::IN_OPEN) };
        assert!(watch >= 0, "{}", io::Error::last_os_error());
        Self(fd)
    }

    /// What was opened since the last time.
    pub fn take(&mut self) -> Vec<OsString> {
        /// `struct inotify_event` without its name.
        const HEADER: usize = 16;
        let mut buffer = [0; 4096];
        let mut names = Vec::new();
        while let Ok(read) = nix::unistd::read(&self.0, &mut buffer) {
            let mut rest = buffer.get(..read).expect("what was read");
            while let Some((header, tail)) = rest.split_at_checked(HEADER) {
                let len = u32::from_ne_bytes(header[12..16].try_into().expect("four bytes"));
                let (name, tail) = tail.split_at(len as usize);
                let end = name
                    .iter()
                    .position(|&byte| byte == 0)
                    .unwrap_or(name.len());
                names.push(OsString::from_vec(name[..end].to_vec()));
                rest = tail;
            }
        }
        names.dedup();
        names
    }
}

/// A FUSE file system of which nobody reads the requests (`include/uapi/linux/fuse.h`).
pub struct ServedByNobody {
    connection: OwnedFd,
    folder: CString,
}

impl ServedByNobody {
    /// `FUSE_INIT`, which the kernel sends by itself.
    pub const GREETING: u32 = 26;

    /// Mounts it as served by a user.
    pub fn mount(folder: &Path, user: u32) -> io::Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let connection = open("/dev/fuse", flags, Mode::empty())?;
        let options = format!(
            "fd={},rootmode=40000,user_id={user},group_id=0,allow_other",
            connection.as_raw_fd()
        );
        let options = CString::new(options).expect("text");
        let folder = PathBuf::from(folder).into_os_string().into_vec();
        let folder = CString::new(folder).expect("a name");
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        // SAFETY: all are C strings.
        let result = unsafe {
            libc::mount(
                c"nobody".as_ptr(),
                folder.as_ptr(),
                c"fuse".as_ptr(),
                flags,
                options.as_ptr().cast(),
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { connection, folder })
    }

    /// The kinds of the requests that were made.
    pub fn requests(&self) -> Vec<u32> {
        // The kernel wants room for the largest one.
        let mut buffer = vec![0; 1 << 17];
        let mut kinds = Vec::new();
        while let Ok(read) = nix::unistd::read(&self.connection, &mut buffer) {
            // `struct fuse_in_header`: the length, then the kind.
            let kind = buffer.get(4..8).filter(|_| read >= 8).expect("a header");
            kinds.push(u32::from_ne_bytes(kind.try_into().expect("four bytes")));
        }
        kinds
    }
}

impl Drop for ServedByNobody {
    fn drop(&mut self) {
        // SAFETY: the path is a C string.
        unsafe { libc::umount2(self.folder.as_ptr(), libc::MNT_DETACH) };
    }
}
