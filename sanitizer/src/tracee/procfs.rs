//! Files below `/proc/PID` (proc(5)).

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use nix::unistd::Pid;

use super::error::TargetError;

/// The path of a file below `/proc/PID`.
pub(crate) fn path(id: Pid, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{id}/{file}"))
}

/// Reads a whole file below `/proc/ID`, where `ID` is the process or one of its threads.
pub(crate) fn read(pid: Pid, id: Pid, file: &str) -> Result<Vec<u8>, TargetError> {
    let path = path(id, file);
    // The kernel says 0 for the size of these files: without room in advance, reading a large
    // memory map would take many system calls and give a less consistent picture.
    let mut text = Vec::with_capacity(64 * 1024);
    // What `read_to_end` does of a file begins with asking for its size, twice. Of a reader it does not.
    File::open(&path)
        .and_then(|file| file.take(u64::MAX).read_to_end(&mut text))
        .map_err(|error| TargetError::from_io(pid, &path, error))?;
    Ok(text)
}

/// Whether `/proc` is mounted, and shows the processes that this one means by their ids: not those of
/// another pid namespace.
#[must_use]
pub fn proc_is_ours() -> bool {
    std::fs::read_link("/proc/self")
        .is_ok_and(|link| link.as_os_str() == std::process::id().to_string().as_str())
}
