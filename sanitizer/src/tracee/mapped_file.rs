//! Finding the very file that is mapped into a process: by its name inside the target's root
//! if that still leads to the same inode, otherwise by `/proc/PID/map_files`, which also works
//! for files that were deleted, replaced, or never had a name.

use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use super::TargetError;
use super::maps::{Mapping, Maps};
use super::threads;
use crate::kernel::foreign::{FileIdentity, ForeignError, ForeignFile, Purpose, Root, Via};

/// So many modules are looked at, more than the gates can hold, and so many files at most for whether they are worth that.
pub(super) const MODULES: usize = 1 << 10;

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
        "cannot open {path}, which process {pid} has mapped: {source}; it was deleted, replaced or is in \
         another mount namespace, and that needs CAP_CHECKPOINT_RESTORE; {}",
        crate::kernel::setcap::for_own()
    )]
    Denied {
        /// The process.
        pid: Pid,
        /// The file, as the target names it.
        path: PathBuf,
        /// The last call that failed.
        source: ForeignError,
    },
    /// It is nothing that is opened for a watched program.
    #[error("code of process {pid} is not watched: {source}")]
    Refused {
        /// The process.
        pid: Pid,
        /// What it is.
        source: ForeignError,
    },
}

impl MappedFileError {
    /// The device of the file system that was not asked because a process serves it, where others may ask it.
    const fn served(&self) -> Option<u64> {
        match self {
            Self::Refused { source, .. } => source.served(),
            Self::Unmapped { .. } | Self::Denied { .. } => None,
        }
    }

    /// Whether descriptors or memory have run out.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        match self {
            Self::Denied { source, .. } | Self::Refused { source, .. } => source.is_shortage(),
            Self::Unmapped { .. } => false,
        }
    }
}

/// A file that a process has mapped. It is held.
#[derive(Debug)]
pub(super) struct MappedFile {
    pid: Pid,
    /// Its name as the target sees it, without the kernel's ` (deleted)`.
    pub(super) path: PathBuf,
    /// How it can be opened later.
    pub(super) via: Via,
    /// Whether its name leads elsewhere or nowhere now.
    pub(super) deleted: bool,
    file: ForeignFile,
}

impl MappedFile {
    /// Opens it.
    pub(super) fn open(&self) -> Result<File, MappedFileError> {
        self.file
            .open()
            .map_err(|error| sorted(self.pid, &self.path, error))
    }

    /// Whether it is served by somebody who may never answer.
    pub(super) fn is_served(&self) -> bool {
        self.file.is_served()
    }

    /// What tells it from another one.
    pub(super) fn identity(&self) -> FileIdentity {
        self.file.about().identity()
    }
}

fn sorted(pid: Pid, path: &Path, source: ForeignError) -> MappedFileError {
    let path = path.to_owned();
    match source.errno() {
        Some(libc::ENOENT | libc::ESRCH) => MappedFileError::Unmapped { pid, path },
        Some(_) => MappedFileError::Denied { pid, path, source },
        None => MappedFileError::Refused { pid, source },
    }
}

/// A file whose code a process has mapped.
#[derive(Clone, Debug)]
pub struct CodeFile {
    pid: Pid,
    path: PathBuf,
    via: Via,
    /// See there.
    pub identity: FileIdentity,
}

impl CodeFile {
    /// Its name as the process sees it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it.
    ///
    /// # Errors
    /// Fails where it is not mapped any more, or may not be opened.
    pub fn open(&self, purpose: Purpose) -> Result<File, MappedFileError> {
        self.via
            .open(purpose)
            .map_err(|error| sorted(self.pid, &self.path, error))
    }
}

/// A file whose code a process has mapped, in a file system that a process serves and that was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServedFile {
    /// The device of a file system that would have to be asked, as `st_dev` has it.
    pub device: u64,
    /// The device and inode that are mapped, as the map of the process tells them.
    pub mapped: (u64, u64),
}

/// The files whose code a process has mapped.
#[derive(Clone, Debug, Default)]
pub struct CodeFiles {
    /// Those that were found.
    pub found: Vec<CodeFile>,
    /// Those that whoever asks may not wait for ([`Purpose::Promptly`]).
    pub served: Vec<ServedFile>,
    /// Some were not found for want of descriptors or memory.
    pub are_short: bool,
}

/// The files whose code a process has mapped, each once, in the order of their addresses. Those that cannot be reached are
/// left out, and so are those behind the first 1,024: a process may have mapped as many as it likes, and each takes whoever looks some time.
///
/// # Errors
/// Fails when the process is gone.
pub fn code_files(pid: Pid, purpose: Purpose) -> Result<CodeFiles, TargetError> {
    let mut files = CodeFiles::default();
    let mut seen = std::collections::HashSet::new();
    let maps = Maps::read(pid)?;
    let reach = Reach::to(pid, purpose)?;
    for mapping in maps.iter() {
        let is_new =
            mapping.perms.exec && mapping.is_file() && seen.insert((mapping.dev, mapping.inode));
        if !is_new {
            continue;
        }
        if seen.len() > MODULES {
            break;
        }
        match reach.locate(mapping) {
            Ok(file) => files.found.push(CodeFile {
                pid,
                identity: file.identity(),
                path: file.path,
                via: file.via,
            }),
            Err(error) => {
                files.are_short |= error.is_shortage();
                files.served.extend(error.served().map(|device| ServedFile {
                    device,
                    mapped: (mapping.dev, mapping.inode),
                }));
            }
        }
    }
    Ok(files)
}

/// The ways to the files of a process, for some looks at them.
pub(super) struct Reach {
    pid: Pid,
    /// A thread that lives: the main thread's entry leads nowhere once that thread has exited.
    id: u32,
    /// Its root, where that may be seen.
    theirs: Option<Root>,
    ours: Option<Root>,
    purpose: Purpose,
}

impl Reach {
    /// The ways to those of a process.
    ///
    /// # Errors
    /// Fails when it is gone.
    pub(super) fn to(pid: Pid, purpose: Purpose) -> Result<Self, TargetError> {
        let id = threads::live_thread(pid)?.as_raw().cast_unsigned();
        let visible = |root: Result<Root, ForeignError>| {
            root.inspect_err(|error| tracing::debug!(%error, "a root is not seen"))
                .ok()
        };
        Ok(Self {
            pid,
            id,
            theirs: visible(Root::of(id)),
            ours: visible(Root::ours()),
            purpose,
        })
    }

    /// Finds the file behind a mapping, and how it can be opened later.
    pub(super) fn locate(&self, mapping: &Mapping) -> Result<MappedFile, MappedFileError> {
        let name = Path::new(&*mapping.name);
        let found = |path: &Path, via, file, deleted| MappedFile {
            pid: self.pid,
            path: path.to_owned(),
            via,
            deleted,
            file,
        };
        // The name first, which lasts longer than the mapping. The one that maps shows is the reader's: in a chroot it is the one
        // outside of it.
        let served = Cell::new(None);
        let named = |root: &Root, name: &Path| {
            let file = root.file(name, self.purpose);
            let file = file.inspect_err(|error| {
                if error.served().is_some() {
                    served.set(error.served());
                }
            });
            file.ok()
                .filter(|file| file.is((mapping.dev, mapping.inode)))
        };
        if let Some(root) = &self.theirs {
            for path in std::iter::once(name).chain(root.inside(name)) {
                if let Some(file) = named(root, path) {
                    let (id, path) = (self.id, path.to_owned());
                    return Ok(found(name, Via::Root { id, path }, file, false));
                }
            }
        }
        // It was mapped before the process changed its root. Nothing else is opened by that name.
        if let Some(file) = self.ours.as_ref().and_then(|ours| named(ours, name)) {
            let via = Via::Outside {
                path: name.to_owned(),
                device: mapping.dev,
                inode: mapping.inode,
            };
            return Ok(found(name, via, file, false));
        }
        let deleted = mapping.deleted_name();
        let path = deleted.unwrap_or(name);
        let file = ForeignFile::mapped(self.id, &mapping.range(), self.purpose);
        let file = file.map_err(|error| match served.get() {
            // Its name may lead to it, for somebody who may wait.
            Some(device) => {
                let path = path.to_owned();
                let source = ForeignError::Served { path, device };
                MappedFileError::Refused {
                    pid: self.pid,
                    source,
                }
            }
            None => sorted(self.pid, path, error),
        })?;
        let via = Via::Mapping {
            id: self.id,
            start: mapping.start.0,
            end: mapping.end.0,
        };
        Ok(found(path, via, file, deleted.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::tracee::testing::{Child, compile};

    /// Check that of a process which has mapped code from many files so many are looked at and no more.
    #[test]
    fn many_code_files() {
        const SOURCE: &str = r#"
            #include <fcntl.h>
            #include <stdio.h>
            #include <sys/mman.h>
            #include <unistd.h>
            int main(int count, char **arguments) {
                for (int i = 0; i < 1100; i++) {
                    char name[16];
                    snprintf(name, sizeof name, "code%d", i);
                    int file = open(name, O_RDWR | O_CREAT, 0600);
                    if (ftruncate(file, 4096) < 0) return 1;
                    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
                    if (code == MAP_FAILED) return 2;
                    close(file);
                }
                puts("ready");
                fflush(stdout);
                pause();
            }"#;
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(compile(dir.path(), "program", SOURCE, &[]));
        command.current_dir(dir.path());
        let child = Child::start(dir, command);
        child.wait_for_line("ready");
        let files = code_files(child.pid(), Purpose::Promptly).unwrap();
        assert_eq!(files.found.len(), MODULES);
    }
}
