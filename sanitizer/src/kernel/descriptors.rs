//! Which of the descriptors 0, 1 and 2 the user has closed (`2>&-`).
//!
//! Before `main`, Rust opens `/dev/null` under the numbers that are closed, so that no file of ours
//! gets one of them and is written to by whoever means standard error. The program that `run` starts
//! is to find them closed all the same. So they are looked at before that.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    path::Path,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sched::{CloneFlags, unshare},
};

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

/// Gives the calling thread a table of descriptors of its own, which holds what is open now. What other threads open from
/// now on is closed with them, even if this thread never ends: one that waits for a file system cannot be killed.
///
/// # Errors
/// Fails where unshare(2) does: some filters of system calls forbid it, and then the table stays the one of all.
pub fn own_table() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_FILES)?)
}

/// The same, with nothing in it but BPF maps, standard output and error, and `kept`. The calling thread must have no other
/// descriptors.
///
/// # Errors
/// Fails where [`own_table`] does, or the table cannot be listed.
pub fn own_table_of_maps(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    own_table()?;
    let kept: Vec<RawFd> = kept.iter().map(AsRawFd::as_raw_fd).collect();
    let is_kept = |number: RawFd, what: &Path| {
        number == 1
            || number == 2
            || kept.contains(&number)
            || what == Path::new("anon_inode:bpf-map")
    };
    let mut others = Vec::new();
    for entry in std::fs::read_dir("/proc/thread-self/fd")? {
        let path = entry?.path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        // The list itself is among them, and closed by now.
        if let (Some(number), Ok(what)) = (number, std::fs::read_link(&path))
            && !is_kept(number, &what)
        {
            others.push(number);
        }
    }
    for number in others {
        // SAFETY: nobody else uses this thread's table, and the thread itself, as its caller says, nothing of it.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Closes whatever this process has inherited, but for 0, 1 and 2 and `kept`. Nothing else may be open in it yet.
pub fn close_inherited(kept: BorrowedFd<'_>) {
    const FIRST: u32 = 3;
    let close = |first: u32, last: u32| {
        if first <= last {
            // SAFETY: nobody owns any of these, as the caller says. Failure leaves them open.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    };
    let kept = kept.as_raw_fd().cast_unsigned();
    close(FIRST, kept.saturating_sub(1));
    close(FIRST.max(kept.saturating_add(1)), u32::MAX);
}

/// Whether what is open under a number was there when this process was started: all that it opens itself is closed at an exec.
///
/// # Errors
/// `EBADF` where nothing is.
pub fn is_inherited(number: RawFd) -> nix::Result<bool> {
    // SAFETY: fcntl with F_GETFD touches no memory.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    nix::errno::Errno::result(flags).map(|flags| flags & libc::FD_CLOEXEC == 0)
}

/// Programs that are executed from now on do not inherit what is open under a number.
///
/// # Errors
/// `EBADF` where nothing is.
pub fn close_for_others(number: RawFd) -> nix::Result<()> {
    // SAFETY: fcntl with F_SETFD touches no memory, and the flag changes nothing for this process.
    let result = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    nix::errno::Errno::result(result).map(drop)
}

/// Another descriptor of what is open under a number, which later programs do not inherit.
///
/// # Errors
/// `EBADF` where nothing is.
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl with F_DUPFD_CLOEXEC touches no memory.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has made it, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
