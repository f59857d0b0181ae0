//! Failed system calls, with the object they were made for and what to do about it.

use std::io;

/// A system call, or a step made of several, that failed.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed for {object}: {source}; {}", mend(call, source))]
pub struct KernelError {
    /// The call.
    pub call: &'static str,
    /// What it was made for: a thread, an event, a map.
    pub object: String,
    /// The kernel's answer.
    #[source]
    pub source: io::Error,
}

impl KernelError {
    /// An error from the calling thread's `errno`.
    pub(crate) fn last(call: &'static str, object: impl Into<String>) -> Self {
        Self {
            call,
            object: object.into(),
            source: io::Error::last_os_error(),
        }
    }

    /// An error from any kind of cause.
    pub(crate) fn other(
        call: &'static str,
        object: impl Into<String>,
        cause: impl std::fmt::Display,
    ) -> Self {
        Self {
            call,
            object: object.into(),
            source: io::Error::other(cause.to_string()),
        }
    }

    /// The same, as one that was not permitted.
    pub(crate) fn into_refusal(self) -> Self {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, self.source.to_string());
        Self { source, ..self }
    }

    /// Whether it was not permitted.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }

    /// Whether the thread or process concerned is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.source.raw_os_error() == Some(libc::ESRCH)
    }
}

/// The last line of each message says what to do.
fn mend(call: &str, source: &io::Error) -> &'static str {
    match (call, source.raw_os_error()) {
        (_, Some(libc::ESRCH)) => "the process or thread has ended",
        ("ptrace(PTRACE_SEIZE)", Some(libc::EPERM)) => {
            "it may be traced by another debugger (see TracerPid in /proc/PID/status), or run as \
             root, or set /proc/sys/kernel/yama/ptrace_scope to 0"
        }
        (_, Some(libc::EPERM | libc::EACCES)) => {
            "run as root, or see `gwp-race doctor` for the capability that is missing"
        }
        ("perf_event_open", Some(libc::ENOSPC)) => {
            "all hardware breakpoints are taken: end the debugger or profiler that uses them"
        }
        (_, Some(libc::EMFILE)) => "raise the limit of open files (ulimit -n)",
        (_, Some(libc::ENOMEM)) => "free memory, or raise the limit of locked memory (ulimit -l)",
        ("perf_event_open", Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOENT)) => {
            "the kernel lacks what is needed (Linux 6.10 or later with perf events and hardware \
             breakpoints); `gwp-race doctor` tells what"
        }
        _ => "`gwp-race doctor` tells what this machine allows",
    }
}
