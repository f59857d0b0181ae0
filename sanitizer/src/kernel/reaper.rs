//! Reaping the dead while a call blocks.
//!
//! A thread that executes another program holds its process's `cred_guard_mutex` and waits for
//! the end of all other threads (`de_thread` in `fs/exec.c`); those that are traced end only when
//! their tracer has waited for them. PTRACE_SEIZE takes the same mutex. A tracer that seizes one
//! thread while another executes would so wait for ever, and the program with it: ptrace(2)
//! names this under BUGS. A timer's signal interrupts the call; its handler does the waiting, and
//! the kernel then restarts the call.
//!
//! The handler asks thread by thread and looks before it takes: waitid(2) tells of a tracee's stop
//! even when only ends are asked for (`wait_task_stopped` in `kernel/exit.c`), and a stop that was
//! taken here, such as the one at the end of the exec itself, would be known to nobody.

use std::{
    ffi::CStr,
    ptr,
    sync::atomic::{
        AtomicBool, AtomicU32,
        Ordering::{Relaxed, SeqCst},
    },
    time::Duration,
};

/// A call that takes longer than this may be part of such a knot.
const PATIENCE: Duration = Duration::from_millis(5);
/// Threads reaped between two looks of [`reaped`]; of further ones nobody is told.
const SLOTS: usize = 4096;

thread_local! {
    // Whoever holds threads is a thread, and its timer's signal comes to itself. None of the first three is made when it is first used, nor ever taken down: the
    // handler may use them.
    static REAPED: [AtomicU32; SLOTS] = const { [const { AtomicU32::new(0) }; SLOTS] };
    static NEWS: AtomicBool = const { AtomicBool::new(false) };
    /// The process whose dead are to be reaped.
    static PROCESS: AtomicU32 = const { AtomicU32::new(0) };
    static TIMER: Option<Timer> = Timer::new();
}

/// Makes a call that may block on a thread of process `pid` that waits for this process.
pub fn while_reaping<T>(pid: u32, call: impl FnOnce() -> T) -> T {
    PROCESS.with(|process| process.store(pid, SeqCst));
    TIMER.with(|timer| {
        let set = |every: Duration| {
            if let Some(timer) = timer {
                timer.set(every);
            }
        };
        set(PATIENCE);
        let result = call();
        set(Duration::ZERO);
        result
    })
}

/// The threads whose end was noted meanwhile for the calling one; each is told of once.
pub fn reaped() -> Vec<u32> {
    if !NEWS.with(|news| news.swap(false, SeqCst)) {
        return Vec::new();
    }
    REAPED.with(|slots| {
        let slots = slots.iter().map(|slot| slot.swap(0, SeqCst));
        slots.filter(|&tid| tid != 0).collect()
    })
}

/// Sends SIGALRM to the thread that made it.
struct Timer(libc::timer_t);

impl Timer {
    /// `None` where the limits allow no timer: then calls are just made.
    fn new() -> Option<Self> {
        let mut timer = ptr::null_mut();
        // SAFETY: all structures are zeroed, which is valid for them, and live through the calls;
        // the handler calls only what is safe in a handler.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = reap as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGALRM;
            event.sigev_notify_thread_id = libc::gettid();
            let mut alarm: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut alarm);
            libc::sigaddset(&raw mut alarm, libc::SIGALRM);
            if libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut()) < 0
                || libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) < 0
            {
                return None;
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const alarm, ptr::null_mut());
        }
        Some(Self(timer))
    }

    fn set(&self, every: Duration) {
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: i64::from(every.subsec_nanos()),
        };
        let spec = libc::itimerspec {
            it_interval: time,
            it_value: time,
        };
        // SAFETY: the timer exists as long as `self`, and `spec` through the call.
        unsafe { libc::timer_settime(self.0, 0, &raw const spec, ptr::null_mut()) };
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer exists, and nobody else deletes it.
        unsafe { libc::timer_delete(self.0) };
    }
}

extern "C" fn reap(_signal: libc::c_int) {
    // SAFETY: errno is this thread's own, and restored for the code that was interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        for_each_thread(PROCESS.with(|process| process.load(SeqCst)), reap_one);
        *libc::__errno_location() = errno;
    }
}

/// Takes note of the end of a thread, if it has ended and is traced by the calling one.
fn reap_one(tid: u32) {
    const LOOK: libc::c_int = libc::WEXITED | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
    let ended = |options| {
        // SAFETY: waitid(2) is safe in a handler; `info` is zeroed, which is valid, and filled by
        // the call.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, tid, &raw mut info, options) == 0
                && info.si_pid() != 0
                && matches!(
                    info.si_code,
                    libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED
                )
        }
    };
    if ended(LOOK | libc::WNOWAIT) && ended(LOOK) {
        REAPED.with(|slots| {
            let mut slots = slots.iter();
            slots.any(|slot| slot.compare_exchange(0, tid, SeqCst, Relaxed).is_ok())
        });
        NEWS.with(|news| news.store(true, SeqCst));
    }
}

/// Calls `visit` for each thread in `/proc/PID/task`, the ended ones included, by system calls
/// alone: nothing else is safe in a handler.
fn for_each_thread(pid: u32, visit: fn(u32)) {
    /// Offsets in `struct linux_dirent64` (getdents64(2)).
    const RECORD_LENGTH: usize = 16;
    const NAME: usize = 19;
    let mut path = [0; 32];
    let path = task_path(pid, &mut path);
    // SAFETY: the path is a C string; open(2) is safe in a handler.
    let fd = unsafe {
        libc::open(
            path.as_ptr(),
            libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC,
        )
    };
    if fd < 0 {
        return;
    }
    let mut buffer = [0u8; 4096];
    loop {
        // SAFETY: the kernel writes at most the buffer's length into it.
        let read =
            unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len()) };
        let Some(mut rest) = usize::try_from(read)
            .ok()
            .and_then(|read| buffer.get(..read))
        else {
            break;
        };
        if rest.is_empty() {
            break;
        }
        while let Some(&[low, high]) = rest.get(RECORD_LENGTH..RECORD_LENGTH + 2) {
            let length = usize::from(u16::from_ne_bytes([low, high]));
            let digits = rest.get(NAME..length).unwrap_or_default().iter();
            let tid = digits
                .take_while(|digit| digit.is_ascii_digit())
                .fold(0u32, |tid, digit| {
                    tid.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))
                });
            if tid != 0 {
                visit(tid);
            }
            rest = match rest.get(length..) {
                Some(next) if length != 0 => next,
                _ => break,
            };
        }
    }
    // SAFETY: the descriptor was opened above and is nobody else's.
    unsafe { libc::close(fd) };
}

/// `/proc/PID/task` as a C string, without an allocation.
fn task_path(pid: u32, buffer: &mut [u8; 32]) -> &CStr {
    use std::io::Write as _;
    // Twenty-one characters at most: the buffer, zeroed, is never filled.
    let _ = write!(&mut buffer[..], "/proc/{pid}/task");
    CStr::from_bytes_until_nul(buffer).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that every thread of a process is visited, however many there are.
    #[test]
    fn visits_every_thread() {
        static VISITED: AtomicU32 = AtomicU32::new(0);
        let barrier = std::sync::Barrier::new(301);
        std::thread::scope(|scope| {
            for _ in 0..300 {
                scope.spawn(|| barrier.wait());
            }
            for_each_thread(std::process::id(), |tid| {
                let status = std::fs::read(format!("/proc/self/task/{tid}/stat"));
                if status.is_ok() {
                    VISITED.fetch_add(1, SeqCst);
                }
            });
            barrier.wait();
        });
        assert!(VISITED.load(SeqCst) >= 301, "{VISITED:?}");
    }
}
