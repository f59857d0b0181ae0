//! What a service manager tells and asks of the process that it has started, where that is this one and the program is its child:
//! variables with that process's number (`sd_listen_fds(3)`, `sd_watchdog_enabled(3)`, `systemd.exec(5)`), and by what it has ended.

use std::{mem::MaybeUninit, os::unix::ffi::OsStrExt as _};

/// The first process of a service finds its own number here, and whoever finds another one is not meant.
const NAMES: [&str; 3] = ["LISTEN_PID", "WATCHDOG_PID", MAIN];
/// This one all services of systemd have.
const MAIN: &str = "SYSTEMD_EXEC_PID";
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
