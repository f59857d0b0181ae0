//! Which of the descriptors 0, 1 and 2 the user has closed (`2>&-`).
//!
//! Before `main`, Rust opens `/dev/null` under the numbers that are closed, so that no file of ours
//! gets one of them and is written to by whoever means standard error. The program that `run` starts
//! is to find them closed all the same. So they are looked at before that.

use std::{
    os::fd::AsFd as _,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

/// A bit for each.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Called by the C library before `main` (System V ABI, "Initialization and Termination Functions").
#[used]
// SAFETY: the section holds pointers to functions of this type, which may ignore their arguments.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for fd in 0..3 {
        // SAFETY: fcntl with F_GETFD touches no memory, and needs nothing that `main` sets up.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Relaxed);
        }
    }
}

/// Those that were closed when this process was started: bit N for descriptor N.
#[must_use]
pub fn closed_at_start() -> u8 {
    CLOSED.load(Relaxed)
}

/// The next program that this process executes finds these closed.
///
/// # Errors
/// Fails where fcntl(2) does.
pub fn close_at_exec(descriptors: u8) -> nix::Result<()> {
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let all = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    for (number, fd) in all.into_iter().enumerate() {
        if descriptors & 1 << number != 0 {
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        }
    }
    Ok(())
}
