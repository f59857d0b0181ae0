//! Rights that a program would get by its file, and does not get under a tracer without
//! CAP_SYS_PTRACE: the kernel withholds them at the exec (execve(2), "the calling process is being
//! ptraced").

use std::{
    ffi::OsStr,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use nix::unistd::{Gid, Pid, Uid};

use crate::{
    kernel::{
        process::has_file_capabilities,
        rights::{CAP_SYS_PTRACE, as_caller},
        setcap::for_others,
    },
    tracee::status::Status,
};

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// What to tell of a program that loses rights when this process's tracer holds it.
pub(super) fn lost_by(program: &OsStr) -> Option<String> {
    let own = Status::of_process(Pid::this()).ok()?;
    if own.capabilities >> CAP_SYS_PTRACE & 1 == 1 {
        return None;
    }
    let (path, what) = as_caller(|| given_by(program)).ok()??;
    Some(format!(
        "{} is {what}, and does not get those rights while gwp-race traces it, so it may fail; {}",
        path.display(),
        for_others()
    ))
}

/// The file of a program that gives whoever executes it other rights, and which.
fn given_by(program: &OsStr) -> Option<(PathBuf, &'static str)> {
    let path = found(program)?;
    let file = path.metadata().ok()?;
    let mode = file.permissions().mode();
    let what = if mode & SET_USER_ID != 0 && file.uid() != Uid::effective().as_raw() {
        "set-user-id"
    } else if mode & SET_GROUP_ID != 0 && file.gid() != Gid::effective().as_raw() {
        "set-group-id"
    } else if has_file_capabilities(&path) {
        "given capabilities by its file"
    } else {
        return None;
    };
    Some((path, what))
}

/// The file that the program's name stands for, as execvp(3) finds it.
pub(super) fn found(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|directory| directory.join(program));
    files.find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    let metadata = file.metadata();
    metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
