//! Signals that ask a program for something, and whom they were meant for. `run` passes on what it is sent; but whoever sends a signal to
//! all of a service, or to a whole process group, has sent it to the program as well, which is not to find it twice. A child process
//! of this one, in the same groups, tells: it does nothing but wait for such signals.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd},
};

use nix::{fcntl::OFlag, sys::signal::Signal, unistd::pipe2};

use super::process::{self, all_signals};

/// See the module; a terminal sends the last two.
pub const REQUESTS: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGINT,
    Signal::SIGQUIT,
];
/// Processes that help another one ignore what only that one is asked for: they end with it.
pub fn leave_to_parent() {
    for signal in REQUESTS {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal as i32, libc::SIG_IGN) };
    }
}

/// The witness. Its end is that of this value.
#[derive(Debug)]
pub struct Witness(libc::pid_t);

/// A signal that it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub signal: i32,
    /// When ([`process::monotonic_ns`]).
    pub at_ns: u64,
}

impl Seen {
    /// Bytes of one, as the witness writes it.
    pub const SIZE: usize = size_of::<u64>() * 2;

    /// Takes them from what was read of the pipe, which has whole ones (pipe(7), PIPE_BUF).
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        let numbers = bytes.as_chunks().0.iter().copied().map(u64::from_ne_bytes);
        let numbers = numbers.collect::<Vec<_>>();
        let (pairs, _) = numbers.as_chunks();
        let pairs = pairs.to_vec();
        pairs.into_iter().map(|[signal, at_ns]| Self {
            signal: i32::try_from(signal).unwrap_or_default(),
            at_ns,
        })
    }
}

impl Witness {
    /// Starts it: the end of a pipe gets what it sees. The calling process must have one thread.
    ///
    /// # Errors
    /// Fails where fork(2) or pipe(2) do.
    pub fn start() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let parent = std::process::id();
        let all = all_signals();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the set of before is filled by the call before it is read. The child of the only thread has all that the parent had.
        let pid = unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const all, before.as_mut_ptr());
            let pid = libc::fork();
            if pid == 0 {
                testify(theirs, parent);
            }
            let error = io::Error::last_os_error();
            libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
            if pid < 0 {
                return Err(error);
            }
            pid
        };
        Ok((Self(pid), ours))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: the process is a child that nobody has waited for, so its number is its own; nothing is written.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// The witness's body, in which all signals are blocked. It keeps nothing open that others wait for the end of.
fn testify(pipe: OwnedFd, parent: u32) -> ! {
    process::set_name(c"gwp-race-signal");
    // SAFETY: prctl with these arguments touches no memory. Faults are not injected here: nothing is lost with the witness.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if std::os::unix::process::parent_id() != parent {
        std::process::exit(0);
    }
    let mut wanted = MaybeUninit::uninit();
    // SAFETY: the set is filled by the calls before it is read, and the descriptors that are closed are used by nobody in this process.
    let (wanted, out) = unsafe {
        libc::sigemptyset(wanted.as_mut_ptr());
        for signal in REQUESTS {
            libc::sigaddset(wanted.as_mut_ptr(), signal as i32);
        }
        let out = libc::dup2(pipe.into_raw_fd(), 0);
        libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0);
        (wanted.assume_init(), OwnedFd::from_raw_fd(out))
    };
    loop {
        // SAFETY: the set was filled, and no information is asked for.
        let signal = unsafe { libc::sigwaitinfo(&raw const wanted, std::ptr::null_mut()) };
        let Ok(signal) = u64::try_from(signal) else {
            continue;
        };
        let record = [signal, process::monotonic_ns()].map(u64::to_ne_bytes);
        // A full pipe is full of what nobody has asked for in time.
        let _ = nix::unistd::write(&out, &record.concat());
    }
}
