//! What a service manager tells and asks of the process that it has started, where that is this one and the program is its child:
//! variables with that process's number (`sd_listen_fds(3)`, `sd_watchdog_enabled(3)`, `systemd.exec(5)`), and by what it has ended.

use std::{
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, RawFd},
        unix::{ffi::OsStrExt as _, net::UnixListener},
    },
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::socket::{UnixAddr, getsockname, getsockopt, sockopt::AcceptConn},
};

/// The first process of a service finds its own number here, and whoever finds another one is not meant.
const NAMES: [&str; 3] = [LISTENER, "WATCHDOG_PID", MAIN];
/// This one all services of systemd have.
const MAIN: &str = "SYSTEMD_EXEC_PID";
/// Who is meant by a service manager that passes sockets (sd_listen_fds(3)), and how many these are.
const LISTENER: &str = "LISTEN_PID";
const LISTENED: &str = "LISTEN_FDS";
/// The number of the first one (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;
/// What a name has behind it where the process is named once more, by the inode of its pidfd.
const BY_INODE: &str = "FDID";

/// An environment (`NAME=value` each) in which the process `to` is meant where `from` was; `None` where `from` is not.
#[must_use]
pub fn renamed(environment: &[Vec<u8>], from: u32, to: u32) -> Option<Vec<Vec<u8>>> {
    let meant = NAMES.map(|name| (name, format!("{name}={from}")));
    let is_meant = |string: &[u8]| meant.iter().find(|(_, meant)| meant.as_bytes() == string);
    let names: Vec<_> = environment
        .iter()
        .filter_map(|string| Some(is_meant(string)?.0))
        .collect();
    if names.is_empty() {
        return None;
    }
    let outdated: Vec<_> = names
        .iter()
        .map(|name| format!("{name}{BY_INODE}="))
        .collect();
    let is_outdated = |string: &[u8]| {
        let mut outdated = outdated.iter();
        outdated.any(|name| string.starts_with(name.as_bytes()))
    };
    let kept = environment.iter().filter(|string| !is_outdated(string));
    let renamed = kept.map(|string| match is_meant(string) {
        Some((name, _)) => format!("{name}={to}").into_bytes(),
        None => string.clone(),
    });
    Some(renamed.collect())
}

/// The socket by which a service manager has others come to this process (systemd.socket(5)); none where none was passed, or it was taken already.
///
/// # Errors
/// Several were passed, or something else.
pub fn listener() -> io::Result<Option<UnixListener>> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    let said = |name| std::env::var(name).ok();
    let passed = passed(said(LISTENER), said(LISTENED), std::process::id());
    if passed > 1 {
        let what = format!(
            "the service manager passes {passed} sockets; write one ListenStream= into the unit"
        );
        return Err(io::Error::other(what));
    }
    if passed == 0 || IS_TAKEN.swap(true, SeqCst) {
        return Ok(None);
    }
    // SAFETY: the number is only asked about, and where nothing is open there the calls fail.
    let first = unsafe { BorrowedFd::borrow_raw(FIRST) };
    let listens = getsockopt(&first, AcceptConn)?;
    if !listens || getsockname::<UnixAddr>(first.as_raw_fd()).is_err() {
        let what = "the service manager passes something else than a socket that listens; write ListenStream=/PATH into the unit";
        return Err(io::Error::other(what));
    }
    fcntl(first, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    // SAFETY: it was passed to this process, which has not opened such a one itself yet, and nobody else takes it.
    Ok(Some(unsafe { UnixListener::from_raw_fd(FIRST) }))
}

/// How many sockets are passed to this process.
fn passed(meant: Option<String>, count: Option<String>, this: u32) -> u32 {
    let is_meant = meant.is_some_and(|meant| meant == this.to_string());
    let count = count.and_then(|count| count.parse().ok());
    count.filter(|_| is_meant).unwrap_or_default()
}

/// The environment of this process.
#[must_use]
pub fn environment() -> Vec<Vec<u8>> {
    let variables = std::env::vars_os();
    variables
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect()
}

/// Whether systemd (248 or later) has started this process as a service, and takes its end for the service's.
#[must_use]
pub fn is_main_process() -> bool {
    std::env::var_os(MAIN).is_some_and(|value| value == *std::process::id().to_string())
}

/// Ends this process by a signal, without a core. Returns where the signal ends nobody.
pub fn end_by(signal: i32) {
    // SAFETY: the structures are zeroed, which is valid for them, or filled by the calls, and live through them; no handler is installed, and
    // prctl with these arguments touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(strings: &[&str]) -> Vec<Vec<u8>> {
        strings.iter().map(|s| s.as_bytes().to_vec()).collect()
    }

    /// Check that sockets are passed to the process that is meant, and that nonsense passes none.
    #[test]
    fn sockets_that_are_passed() {
        let passed =
            |meant: &str, count: &str| passed(Some(meant.to_owned()), Some(count.to_owned()), 12);
        assert_eq!(passed("12", "1"), 1);
        assert_eq!(passed("12", "2"), 2);
        for (meant, count) in [
            ("13", "1"),
            ("", "1"),
            ("12", ""),
            ("12", "-1"),
            ("12", "x"),
        ] {
            assert_eq!(passed(meant, count), 0, "{meant} {count}");
        }
        assert_eq!(super::passed(None, None, 12), 0);
    }

    /// Check that the program is meant where its parent was, by its number alone, and that whoever else is meant stays so.
    #[test]
    fn the_program_is_meant() {
        let before = strings(&[
            "A=12",
            "LISTEN_PID=12",
            "LISTEN_FDS=1",
            "LISTEN_PIDFDID=99",
            "WATCHDOG_PID=1",
            "WATCHDOG_PIDFDID=98",
            "SYSTEMD_EXEC_PID=12",
        ]);
        let after = strings(&[
            "A=12",
            "LISTEN_PID=345",
            "LISTEN_FDS=1",
            "WATCHDOG_PID=1",
            "WATCHDOG_PIDFDID=98",
            "SYSTEMD_EXEC_PID=345",
        ]);
        assert_eq!(renamed(&before, 12, 345), Some(after));
        assert_eq!(renamed(&before, 2, 345), None);
    }
}
