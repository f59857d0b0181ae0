//! Files without a name, on a disk: for what is too large for memory, and is gone with its last descriptor (open(2), `O_TMPFILE`).

use std::{
    fs::{File, OpenOptions},
    io,
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
};

use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};

/// Where they go: a place on a disk, as a rule.
pub const DIRECTORIES: [&str; 2] = ["/var/tmp", "/tmp"];

/// A file in a directory that is on a disk.
#[must_use]
pub fn nameless_file(directory: &str) -> Option<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE | libc::O_NOFOLLOW)
        .open(directory)
        .ok()?;
    let kind = fstatfs(&file).ok()?.filesystem_type();
    (kind != TMPFS_MAGIC).then_some(file)
}

/// The same file, from its beginning on, for whoever may only read it.
///
/// # Errors
/// It cannot be opened once more.
pub fn for_reading(file: &File) -> io::Result<File> {
    // A thread may have descriptors of its own.
    let own = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).open(own)
}
