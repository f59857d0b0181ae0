//! What a process does with itself: die with its parent, block signals, wait precisely.

mod child;
mod news;
mod time;
mod work;

use std::{
    mem::MaybeUninit,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    time::Duration,
};

use super::KernelError;
use super::fault;

pub use child::{ChildState, child_state, kill_child};
pub use news::Ear;
#[cfg(test)]
pub(crate) use news::testing;
pub use time::{CpuClock, monotonic_ns, nanos, parent_cpu_time_ns, thread_cpu_time_ns};
pub use work::{Employer, WorkClock};

/// The calling process gets SIGKILL when the thread that started it ends.
///
/// # Errors
/// Fails where prctl(2) does.
pub fn die_with_parent() -> Result<(), KernelError> {
    fault::before("prctl(PR_SET_PDEATHSIG)", || "this process".to_owned())?;
    // SAFETY: prctl with these arguments touches no memory.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } < 0 {
        return Err(KernelError::last("prctl(PR_SET_PDEATHSIG)", "this process"));
    }
    Ok(())
}

/// No process of the same user may look into the calling one, and no core of it is ever written (prctl(2), `PR_SET_DUMPABLE`): it holds what it
/// has read of others. An exec ends that.
pub fn keep_private() {
    // SAFETY: prctl with these arguments touches no memory; it cannot fail.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
}

/// The opposite of [`keep_private`], for a process that is to be traced by one with no more rights than it has itself: the kernel begins one so
/// that has got rights by its file.
pub fn let_be_looked_into() {
    // SAFETY: prctl with these arguments touches no memory; it cannot fail.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
}

/// Where memory is short, the kernel ends the calling process before others (proc_pid_oom_score_adj(5)), for which nobody needs rights. Where that cannot
/// be asked for, it counts like others.
pub fn end_first_for_memory() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// Timers of the calling thread fire without the usual slack of 50 us.
pub fn precise_timers() {
    // SAFETY: prctl with these arguments touches no memory; failure leaves the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// How urgently a process wants a processor that others use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Like any other.
    Usual,
    /// Threads stand still until it has run.
    Urgent,
    /// It must run even when an urgent one does not give way.
    MostUrgent,
}

/// Asks for the processor ahead of others: with real-time priority, since the fair scheduler lets
/// even the nicest process wait for milliseconds when all processors are busy (seen: 2 ms as a
/// rule, 80 ms at most, with three busy threads a processor). Without the right to (`CAP_SYS_NICE`)
/// the calling thread stays as it is.
pub fn hurry(urgency: Urgency) {
    let (policy, priority) = match urgency {
        Urgency::Usual => (libc::SCHED_OTHER, 0i32),
        Urgency::Urgent => (libc::SCHED_RR, 1),
        Urgency::MostUrgent => (libc::SCHED_FIFO, 2),
    };
    let nice = if urgency == Urgency::Usual { 0 } else { -20 };
    // SAFETY: the kernel's `struct sched_param` is that one number, which lives through the call, and setpriority touches no memory;
    // failure leaves everything as it is. (musl's sched_setscheduler(3) always fails: it takes POSIX to mean the process.)
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority);
        libc::setpriority(libc::PRIO_PROCESS, 0, nice);
    }
}

/// Splits the calling process: the child's id for the parent, `None` for the child. The child dies
/// with the parent.
///
/// # Errors
/// Fails where fork(2) and prctl(2) do, and in a process with several threads, of which the child
/// would have only the calling one.
pub fn split() -> Result<Option<u32>, KernelError> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    if threads != 1 {
        return Err(KernelError::other(
            "fork",
            "the tracer",
            format!("it has {threads} threads and must have one"),
        ));
    }
    let parent = std::process::id();
    fault::before("fork", || "the tracer".to_owned())?;
    // SAFETY: the process has one thread, so the child has all that the parent had.
    match unsafe { libc::fork() } {
        ..0 => Err(KernelError::last("fork", "the tracer")),
        0 => {
            die_with_parent()?;
            if std::os::unix::process::parent_id() != parent {
                // It died before it could be told of.
                std::process::exit(1);
            }
            Ok(None)
        }
        child => Ok(Some(child.cast_unsigned())),
    }
}

/// The calling thread's id.
#[must_use]
pub fn thread_id() -> u32 {
    // SAFETY: the call takes no memory.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Waits until a thread of this process, which was joined, is gone for the kernel too: that tells of its end before it lets go whom the thread has traced (`exit_mm` and
/// `exit_notify` in `do_exit` of `kernel/exit.c`).
pub fn wait_for_end_of_thread(tid: u32) {
    /// It takes some microseconds, unless it does not get a processor.
    const LOOK: Duration = Duration::from_micros(100);
    let thread = format!("/proc/self/task/{tid}");
    while std::fs::symlink_metadata(&thread).is_ok() {
        std::thread::sleep(LOOK);
    }
}

/// Names the calling process, up to 15 bytes, for ps(1) and the like.
pub fn set_name(name: &std::ffi::CStr) {
    // SAFETY: the pointer is to a C string, of which the kernel copies at most 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Lets this process's parent and its descendants trace it, where Yama's `ptrace_scope` is 1: the
/// tracer is not its ancestor. It survives exec. Elsewhere it does nothing.
pub fn let_parent_trace() {
    // SAFETY: prctl with these arguments touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::getppid()) };
}

/// Whether a program's file has capabilities of its own (xattr(7), capabilities(7)).
#[must_use]
pub fn has_file_capabilities(program: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let Ok(path) = std::ffi::CString::new(program.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability";
    // SAFETY: both are C strings; a size of 0 asks for the length and writes nothing.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Outlives two signals. A file that grows beyond the limit (`ulimit -f`) is then an error of the write, not
/// the end of the calling process (SIGXFSZ); and nothing comes of a breakpoint of another process that a
/// virtual machine delivers to this one (SIGTRAP; docs/compatibility.md). By a handler that does
/// nothing: what is executed later finds the default again, and a signal that was ignored stays so.
pub fn outlive_signals() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    for signal in [libc::SIGXFSZ, libc::SIGTRAP] {
        // SAFETY: the structures are zeroed, which is valid for them, and live through the calls; the
        // handler does nothing. Failure leaves everything as it is.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut before) == 0
                && before.sa_sigaction == libc::SIG_DFL
            {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
}

/// Every signal that the C library lets somebody block. Its sigfillset(3) leaves out those that it uses itself, which are others'
/// real-time signals: of musl one more (34) than of glibc.
pub(super) fn all_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: a set is an array of numbers, for which any bits are valid; all of them are written.
    unsafe {
        all.as_mut_ptr().write_bytes(0xff, 1);
        all.assume_init()
    }
}

/// Blocks every signal but SIGBUS and returns a descriptor that is readable when a child has news. A parent
/// that ignored SIGCHLD would have had it ignored here as well, and no news would come.
///
/// # Errors
/// Fails where signalfd(2) does.
pub fn child_news() -> Result<OwnedFd, KernelError> {
    fault::before("signalfd", || "this process".to_owned())?;
    // SAFETY: the sets are initialized by the calls; the new descriptor is ours alone.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut all = all_signals();
        // That one is answered (`file_map`), if it is not blocked.
        libc::sigdelset(&raw mut all, libc::SIGBUS);
        if libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) < 0 {
            return Err(KernelError::last("sigprocmask", "this process"));
        }
        let mut child = std::mem::zeroed();
        libc::sigemptyset(&raw mut child);
        libc::sigaddset(&raw mut child, libc::SIGCHLD);
        let fd = libc::signalfd(-1, &raw const child, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(KernelError::last("signalfd", "this process"));
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A descriptor that is readable once a process has ended, with all its threads.
///
/// # Errors
/// Fails where pidfd_open(2) does: `ESRCH` when it has ended and was waited for.
pub fn end_of(pid: u32) -> Result<OwnedFd, KernelError> {
    fault::before("pidfd_open", || format!("process {pid}"))?;
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(fd) {
        // SAFETY: the new descriptor is ours alone.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(KernelError::last("pidfd_open", format!("process {pid}"))),
    }
}

/// Sends a signal to the process of a descriptor of [`end_of`]: to that one, whoever has its id by now.
///
/// # Errors
/// `ESRCH` when it has ended, `EPERM` where kill(2) is not permitted.
pub fn signal(process: BorrowedFd<'_>, signal: i32) -> Result<(), KernelError> {
    // SAFETY: without an information the call takes no memory of ours.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result < 0 {
        return Err(KernelError::last("pidfd_send_signal", "a process"));
    }
    Ok(())
}

/// Tells a thread that waits for descriptors that another one has something for it.
#[derive(Debug)]
pub struct Bell(nix::sys::eventfd::EventFd);

impl Bell {
    /// A silent one.
    ///
    /// # Errors
    /// Fails where eventfd(2) does.
    pub fn new() -> Result<Self, KernelError> {
        use nix::sys::eventfd::{EfdFlags, EventFd};
        fault::before("eventfd", || "this process".to_owned())?;
        EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map(Self)
            .map_err(|cause| KernelError::other("eventfd", "this process", cause))
    }

    /// Makes it readable.
    pub fn ring(&self) {
        // It fails only when the count is at its limit: it is readable then.
        let _ = self.0.write(1);
    }

    /// Makes it unreadable.
    pub fn silence(&self) {
        // It fails only when it is silent already.
        let _ = self.0.read();
    }
}

impl std::os::fd::AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Forgets the news that a descriptor of [`child_news`] has; whether there were any.
pub fn drain(fd: BorrowedFd<'_>) -> bool {
    let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>() * 4];
    let mut were_any = false;
    // SAFETY: the buffer is writable and of this length; the descriptor does not block.
    while unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {
        were_any = true;
    }
    were_any
}

/// Waits until one of the descriptors is readable or the time is over; which ones are.
///
/// # Errors
/// Fails where ppoll(2) does.
pub fn wait_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> Result<[bool; N], KernelError> {
    let mut polled = fds.map(|fd| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().min(1 << 30).cast_signed(),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    let pointer = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    fault::before("ppoll", || "the tracer".to_owned())?;
    // SAFETY: the array and the timeout live through the call.
    let result = unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            N as libc::nfds_t,
            pointer,
            std::ptr::null(),
        )
    };
    if result < 0 {
        let error = KernelError::last("ppoll", "the tracer");
        if error.source.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok([false; N]);
    }
    Ok(polled.map(|fd| fd.revents != 0))
}

/// Takes over a descriptor that this process has inherited under a known number.
///
/// # Errors
/// `EBADF` when it is not open.
pub fn adopt(fd: i32) -> Result<OwnedFd, KernelError> {
    // SAFETY: fcntl with F_GETFD touches no memory.
    if fd < 0 || unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(KernelError::last("fcntl", format!("descriptor {fd}")));
    }
    // SAFETY: the descriptor is open, and the caller's caller gave it to this process to own.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
