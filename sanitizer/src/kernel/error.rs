//! Failed system calls, with the object they were made for and what to do about it.

use std::{any::Any, borrow::Cow, error::Error, fmt, io};

use super::{limits, settings};

/// A system call, or a step made of several, that failed.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed for {object}: {source}; {}", mend(call, errno(source)))]
pub struct KernelError {
    /// The call.
    pub call: &'static str,
    /// What it was made for: a thread, an event, a map.
    pub object: String,
    /// The kernel's answer.
    #[source]
    pub source: io::Error,
}

/// What a library tells of a failed call: its words, and the kernel's answer behind them.
#[derive(Debug)]
struct Told {
    text: String,
    errno: Option<i32>,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Told {}

impl KernelError {
    /// An error from the calling thread's `errno`.
    pub(crate) fn last(call: &'static str, object: impl Into<String>) -> Self {
        Self {
            call,
            object: object.into(),
            source: io::Error::last_os_error(),
        }
    }

    /// An error from a cause that may be the kernel's answer, or words of ours.
    pub(crate) fn other(
        call: &'static str,
        object: impl Into<String>,
        cause: impl fmt::Display + 'static,
    ) -> Self {
        let any: &dyn Any = &cause;
        let errno = match (any.downcast_ref(), any.downcast_ref::<nix::Error>()) {
            (Some(error), _) => errno(error),
            (_, Some(error)) => Some(*error as i32),
            _ => None,
        };
        Self::told(call, object, cause.to_string(), errno)
    }

    /// An error from what a library tells, with all of its causes.
    pub(crate) fn caused(
        call: &'static str,
        object: impl Into<String>,
        cause: &(dyn Error + 'static),
    ) -> Self {
        let (mut next, mut answer) = (Some(cause), None);
        while let Some(error) = next.filter(|_| answer.is_none()) {
            answer = error.downcast_ref().and_then(errno);
            next = error.source();
        }
        Self::told(call, object, chain(cause), answer)
    }

    fn told(
        call: &'static str,
        object: impl Into<String>,
        text: String,
        errno: Option<i32>,
    ) -> Self {
        Self {
            call,
            object: object.into(),
            source: io::Error::other(Told { text, errno }),
        }
    }

    /// A breakpoint is not to be had, for another reason than that the kernel has none.
    pub(crate) fn without_breakpoint(object: impl Into<String>, cause: &str) -> Self {
        let errno = Some(libc::ENOSPC);
        Self::told("perf_event_open", object, cause.to_owned(), errno)
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

    /// Whether others have all breakpoints of a thread or processor.
    #[must_use]
    pub fn is_out_of_breakpoints(&self) -> bool {
        self.call == "perf_event_open" && errno(&self.source) == Some(libc::ENOSPC)
    }

    /// Whether the thread or process concerned is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.source.raw_os_error() == Some(libc::ESRCH)
    }
}

/// An error with its causes: aya puts the interesting part last.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        // Some of its errors name their cause themselves.
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

/// The kernel's answer, also behind a library's words.
fn errno(error: &io::Error) -> Option<i32> {
    let told = || error.get_ref()?.downcast_ref::<Told>()?.errno;
    error.raw_os_error().or_else(told)
}

/// The last line of each message says what to do.
fn mend(call: &str, errno: Option<i32>) -> Cow<'static, str> {
    // Not any call that is to be made again later has met a limit with that.
    let is_limit = errno != Some(libc::EAGAIN) || matches!(call, "clone" | "fork");
    if let Some(limits) = errno.filter(|_| is_limit).and_then(limits::met) {
        return limits.into();
    }
    let mend = match (call, errno) {
        (_, Some(libc::ESRCH)) => "the process or thread has ended",
        ("ptrace(PTRACE_SEIZE)", Some(libc::EPERM)) => return settings::mend_ptrace().into(),
        ("perf_event_open", Some(libc::EPERM | libc::EACCES)) => {
            return settings::mend_events().into();
        }
        ("mmap", Some(libc::EPERM)) => {
            "the limit of locked memory is met: raise it (ulimit -l, or sysctl \
             kernel.perf_event_mlock_kb), or run as root"
        }
        ("timer_create", Some(libc::EAGAIN)) => {
            "pending signals of this user are limited: raise that (ulimit -i)"
        }
        (_, Some(libc::EPERM | libc::EACCES)) => {
            "run as root, or see `gwp-race doctor` for the capability that is missing"
        }
        ("perf_event_open", Some(libc::ENOSPC)) => {
            "all hardware breakpoints are taken: end the debugger or profiler that uses them"
        }
        ("perf_event_open", Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOENT)) => {
            "the kernel lacks what is needed (Linux 6.10 or later with perf events and hardware \
             breakpoints); `gwp-race doctor` tells what"
        }
        _ => "`gwp-race doctor` tells what this machine allows",
    };
    mend.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a limit is named whichever way the kernel's answer comes, and that other errors are told as
    /// they are.
    #[test]
    fn limits_are_named_behind_any_words() {
        /// As aya's are: the interesting part is its cause.
        #[derive(Debug, thiserror::Error)]
        #[error("failed to create map")]
        struct Outer(#[source] io::Error);
        let answer = || io::Error::from_raw_os_error(libc::EMFILE);
        for error in [
            KernelError::other("epoll_create1", "x", nix::Error::EMFILE),
            KernelError::other("clone", "x", answer()),
            KernelError::caused("bpf(BPF_MAP_CREATE)", "x", &Outer(answer())),
        ] {
            let text = error.to_string();
            assert!(
                text.contains("open files are limited to") && text.contains("ulimit -n"),
                "{text}"
            );
        }
        let again = io::Error::from_raw_os_error(libc::EAGAIN);
        let text = KernelError::other("clone", "x", again).to_string();
        assert!(text.contains("ulimit -u"), "{text}");
        let text = KernelError::other("sendmsg", "x", nix::Error::EAGAIN).to_string();
        assert!(!text.contains("ulimit"), "{text}");
        let text = KernelError::other("loading", "x", "it is of another type").to_string();
        assert!(text.ends_with("`gwp-race doctor` tells what this machine allows"));
    }
}
