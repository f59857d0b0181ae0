//! Opening the very file that is mapped into a process: by its name inside the target's root
//! if that still leads to the same inode, otherwise by `/proc/PID/map_files`, which also works
//! for files that were deleted, replaced, or never had a name.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use super::maps::Mapping;
use super::process;

/// Why a mapped file cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum MappedFileError {
    /// It is not mapped there any more, or its process is gone.
    #[error("{path} is no longer mapped by process {pid}; it is looked at again if it returns")]
    Unmapped {
        /// The process.
        pid: Pid,
        /// The file, as the target names it.
        path: PathBuf,
    },
    /// The kernel does not let us open it.
    #[error(
        "cannot open {path}, which process {pid} has mapped: {source}; it was deleted, replaced \
         or is in another mount namespace, and opening {open_path} needs `setcap \
         cap_checkpoint_restore,cap_sys_ptrace+ep` on the gwp-race binary, or root"
    )]
    Denied {
        /// The process.
        pid: Pid,
        /// The file, as the target names it.
        path: PathBuf,
        /// The last name that was tried.
        open_path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A file that a process has mapped, and where it can be opened.
#[derive(Clone, Debug)]
pub(super) struct MappedFile {
    pid: Pid,
    /// Its name as the target sees it, without the kernel's ` (deleted)`.
    pub(super) path: PathBuf,
    /// The name by which this process opens it.
    pub(super) open_path: PathBuf,
    /// Whether its name leads elsewhere or nowhere now.
    pub(super) deleted: bool,
}

impl MappedFile {
    /// Opens it.
    pub(super) fn open(&self) -> Result<File, MappedFileError> {
        // Should the name have come to mean a FIFO or a terminal meanwhile, opening it must
        // neither block nor make it ours.
        std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(&self.open_path)
            .map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> MappedFileError {
        let (pid, path) = (self.pid, self.path.clone());
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => MappedFileError::Unmapped { pid, path },
            _ => MappedFileError::Denied {
                pid,
                path,
                open_path: self.open_path.clone(),
                source,
            },
        }
    }
}

/// Finds by which name the file behind a mapping can be opened.
pub(super) fn locate(pid: Pid, mapping: &Mapping) -> Result<MappedFile, MappedFileError> {
    let name = Path::new(&mapping.name);
    // The main thread's entry leads nowhere once that thread has exited.
    let id = process::live_thread(pid).map_err(|_| MappedFileError::Unmapped {
        pid,
        path: name.to_owned(),
    })?;
    let is_mapped_file = |path: &Path| {
        std::fs::metadata(path)
            .is_ok_and(|file| (file.dev(), file.ino()) == (mapping.dev, mapping.inode))
    };
    // The name first, which lasts longer than the mapping. A relative path: joining an absolute
    // one would leave the target's root.
    let in_root = |path: &Path| {
        let relative = path.strip_prefix("/").unwrap_or(path);
        process::path(id, "root").join(relative)
    };
    // The name that maps shows is the reader's: in a chroot it is the one outside of it.
    for open_path in [in_root(name), name.to_owned()] {
        if is_mapped_file(&open_path) {
            return Ok(MappedFile {
                pid,
                path: name.to_owned(),
                open_path,
                deleted: false,
            });
        }
    }
    let entry = format!("map_files/{:x}-{:x}", mapping.start.0, mapping.end.0);
    let file = MappedFile {
        pid,
        path: mapping.deleted_name().unwrap_or(name).to_owned(),
        open_path: process::path(id, &entry),
        deleted: mapping.deleted_name().is_some(),
    };
    match std::fs::metadata(&file.open_path) {
        Ok(_) => Ok(file),
        Err(source) => Err(file.error(source)),
    }
}
