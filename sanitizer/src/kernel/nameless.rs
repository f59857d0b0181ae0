//! Files without a name, on a disk: for what is too large for memory, and is gone with its last descriptor (open(2), `O_TMPFILE`).

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
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
