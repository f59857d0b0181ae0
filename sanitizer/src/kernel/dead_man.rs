//! A dead man's switch: the kernel kills the calling process, unless it says again and again that it goes on.
//!
//! The watchdog releases what a stuck tracer holds. But the watchdog is a process, too: whoever may send signals to both, as another process of the
//! same user may, can stop the one and then the other. A timer of timer_create(2) that sends SIGKILL runs in the kernel, where nobody stops it: that
//! signal ends a process in whatever state it is, stopped or frozen.

use std::mem::MaybeUninit;

use super::{KernelError, fault, time_namespace};

/// It is set for so much longer than was asked for, so that it need not be set each time, ns.
const LEEWAY_NS: u64 = 300_000_000;

/// See the module. Dropping it takes it back.
#[derive(Debug)]
pub struct DeadMansSwitch {
    timer: libc::timer_t,
    /// When it kills (`CLOCK_MONOTONIC`), ns; 0 where it is not set.
    at_ns: u64,
}

impl DeadMansSwitch {
    /// One that is not set yet.
    ///
    /// # Errors
    /// Fails where timer_create(2) does: `EAGAIN` at the limit of pending signals (RLIMIT_SIGPENDING).
    pub fn new() -> Result<Self, KernelError> {
        fault::before("timer_create", || "this process".to_owned())?;
        // SAFETY: a structure of zeros is valid, and means a signal to the process.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut timer = MaybeUninit::uninit();
        // SAFETY: the structures live through the call.
        let result = unsafe {
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr())
        };
        if result < 0 {
            return Err(KernelError::last("timer_create", "this process"));
        }
        Ok(Self {
            // SAFETY: the call succeeded and has stored it.
            timer: unsafe { timer.assume_init() },
            at_ns: 0,
        })
    }

    /// The process goes on at least until this time (the kernel's `CLOCK_MONOTONIC`, ns): it is not killed before, and soon after unless this is
    /// called again.
    ///
    /// # Errors
    /// Fails where timer_settime(2) does.
    pub fn go_on_until(&mut self, ns: u64) -> Result<(), KernelError> {
        if self.at_ns >= ns {
            return Ok(());
        }
        let at = ns.saturating_add(LEEWAY_NS);
        let own = time_namespace::own(at);
        let none = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let when = libc::itimerspec {
            it_interval: none,
            it_value: libc::timespec {
                tv_sec: (own / 1_000_000_000).cast_signed(),
                tv_nsec: (own % 1_000_000_000).cast_signed(),
            },
        };
        fault::before("timer_settime", || "this process".to_owned())?;
        // SAFETY: the timer is ours, and the structure lives through the call.
        let result = unsafe {
            libc::timer_settime(
                self.timer,
                libc::TIMER_ABSTIME,
                &raw const when,
                std::ptr::null_mut(),
            )
        };
        if result < 0 {
            return Err(KernelError::last("timer_settime", "this process"));
        }
        self.at_ns = at;
        Ok(())
    }
}

impl Drop for DeadMansSwitch {
    fn drop(&mut self) {
        // SAFETY: the timer is ours, and is not used after this.
        unsafe { libc::timer_delete(self.timer) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::kernel::process::{ChildState, child_state, kill_child, monotonic_ns};

    const LIMIT: Duration = Duration::from_secs(30);

    /// A child process that does this and then sleeps for good.
    fn child(work: impl FnOnce()) -> u32 {
        // SAFETY: until it ends, the child makes only calls that signal-safety(7) allows: `work` makes system calls alone.
        match unsafe { libc::fork() } {
            0 => {
                work();
                loop {
                    // SAFETY: it touches no memory.
                    unsafe { libc::pause() };
                }
            }
            pid => {
                assert!(pid > 0, "{}", std::io::Error::last_os_error());
                pid.cast_unsigned()
            }
        }
    }

    /// Check that a process which stops before its time is over is killed all the same, and one that goes on again and again is not, nor is one
    /// that has taken it back.
    #[test]
    fn who_does_not_go_on_is_killed() {
        let set = || {
            let mut switch = DeadMansSwitch::new().unwrap();
            switch.go_on_until(monotonic_ns() + 1_000_000).unwrap();
            switch
        };
        let stopped = child(|| {
            let _switch = std::mem::ManuallyDrop::new(set());
            // SAFETY: it touches no memory.
            unsafe { libc::raise(libc::SIGSTOP) };
        });
        let going = child(|| {
            let mut switch = set();
            loop {
                switch.go_on_until(monotonic_ns() + 200_000_000).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let without = child(|| drop(set()));
        let start = Instant::now();
        loop {
            let state = child_state(stopped).unwrap();
            if state == ChildState::Ended(128 + libc::SIGKILL) {
                break;
            }
            assert!(!matches!(state, ChildState::Ended(_)), "{state:?}");
            assert!(start.elapsed() < LIMIT, "it stands for good");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_nanos(2 * LEEWAY_NS));
        for pid in [going, without] {
            assert_eq!(child_state(pid).unwrap(), ChildState::Running);
            kill_child(pid);
            while child_state(pid).unwrap() == ChildState::Running {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
