//! Why something about a live process cannot be told. A process that is gone is kept apart
//! from everything else: for a watcher it is an ordinary event, not a failure.

use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use crate::kernel::{limits, rights, setcap};

/// Why a live process cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The process or thread has exited (or is a zombie), or never was.
    #[error("process {0} does not exist (any more); list what runs with `ps -e`")]
    Vanished(Pid),
    /// A process that has ended, and whose parent has not taken note of it.
    #[error(
        "process {0} has ended: only its parent has not taken note of that yet (it is a zombie); list what runs with `ps -e`"
    )]
    Zombie(Pid),
    /// A thread of the kernel.
    #[error(
        "process {0} is a thread of the kernel, which executes no program, so there is nothing to watch; list programs with \
         `ps --ppid 2 -p 2 --deselect`"
    )]
    KernelThread(Pid),
    /// The kernel does not let us look.
    #[error("not allowed to read {path} of process {pid}: {source}; {}", mend())]
    Denied {
        /// The process.
        pid: Pid,
        /// What was to be read.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Reading failed otherwise.
    #[error("cannot read {path} of process {pid}: {source}; is /proc mounted?")]
    Unreadable {
        /// The process.
        pid: Pid,
        /// What was to be read.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of `/proc` does not look as its manual page says.
    #[error(
        "{path} of process {pid} has an unexpected {what}: {text:?}; please report it with the \
         output of `uname -r`"
    )]
    Malformed {
        /// The process.
        pid: Pid,
        /// The file.
        path: PathBuf,
        /// What was expected there.
        what: &'static str,
        /// The text that stands there.
        text: String,
    },
}

/// Why gwp-race may not, if that is its file's doing, and who may.
fn mend() -> String {
    match rights::lent_to_all() {
        Some(why) => format!("{why}; {}", setcap::for_others()),
        None => setcap::for_others(),
    }
}

impl TargetError {
    /// Whether the process is gone.
    #[must_use]
    pub fn is_vanished(&self) -> bool {
        matches!(self, Self::Vanished(_))
    }

    /// Whether descriptors or memory have run out, so that nothing is known of the process.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        matches!(self, Self::Unreadable { source, .. } if limits::is_shortage(source))
    }

    /// Sorts an error of a read below `/proc/PID` into its kind.
    pub(crate) fn from_io(pid: Pid, path: &Path, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Self::Vanished(pid),
            Some(libc::EACCES | libc::EPERM) => Self::Denied {
                pid,
                path: path.to_owned(),
                source,
            },
            _ => Self::Unreadable {
                pid,
                path: path.to_owned(),
                source,
            },
        }
    }
}
