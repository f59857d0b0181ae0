//! Reaping the dead while a call blocks.
//!
//! A thread that executes another program holds its process's `cred_guard_mutex` and waits for
//! the end of all other threads (`de_thread` in `fs/exec.c`); those that are traced end only when
//! their tracer has waited for them. PTRACE_SEIZE takes the same mutex. A tracer that seizes one
//! thread while another executes would so wait for ever, and the program with it: ptrace(2)
//! names this under BUGS. A timer's signal interrupts the call; its handler does the waiting, and
//! the kernel then restarts the call.

use std::{
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

static REAPED: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];
static NEWS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static TIMER: Option<Timer> = Timer::new();
}

/// Makes a call that may block on a thread that waits for this process.
pub fn while_reaping<T>(call: impl FnOnce() -> T) -> T {
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

/// The threads whose end was noted meanwhile; each is told of once.
pub fn reaped() -> Vec<u32> {
    if !NEWS.swap(false, SeqCst) {
        return Vec::new();
    }
    REAPED
        .iter()
        .map(|slot| slot.swap(0, SeqCst))
        .filter(|&tid| tid != 0)
        .collect()
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
    // SAFETY: waitid(2) and errno are safe in a handler; `info` is zeroed, which is valid, and
    // filled by the call.
    unsafe {
        let errno = *libc::__errno_location();
        loop {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::__WALL;
            if libc::waitid(libc::P_ALL, 0, &raw mut info, options) < 0 || info.si_pid() == 0 {
                break;
            }
            let tid = info.si_pid().cast_unsigned();
            let _ = REAPED
                .iter()
                .find(|slot| slot.compare_exchange(0, tid, SeqCst, Relaxed).is_ok());
            NEWS.store(true, SeqCst);
        }
        *libc::__errno_location() = errno;
    }
}
