//! Times: of day, and of processors used (clock_gettime(2)).

use std::time::Duration;

use crate::kernel::time_namespace;

/// The kernel's CLOCK_MONOTONIC in nanoseconds: the clock of the gates, in whatever time namespace the calling process is.
#[must_use]
pub fn monotonic_ns() -> u64 {
    time_namespace::kernels(clock_ns(libc::CLOCK_MONOTONIC))
}

/// A time as the gates and the wire give it, in nanoseconds; at most 584 years.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of the calling thread in nanoseconds.
#[must_use]
pub fn thread_cpu_time_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the calling process's parent in nanoseconds; `None` where the kernel does not tell.
#[must_use]
pub fn parent_cpu_time_ns() -> Option<u64> {
    CpuClock::of(std::os::unix::process::parent_id()).told_ns()
}

/// The clock of CPU time of another process. What it is called follows from the process's id (`make_process_cpuclock` with `CPUCLOCK_SCHED` in the
/// kernel's `include/linux/posix-timers_types.h`), so that nobody has to be asked: clock_getcpuclockid(3) makes a system call to see whether there is one.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// That of a process, which may have ended.
    #[must_use]
    pub const fn of(pid: u32) -> Self {
        /// What a thread has executed, as the scheduler counts it.
        const CPUCLOCK_SCHED: libc::clockid_t = 2;
        Self((!pid.cast_signed() << 3) | CPUCLOCK_SCHED)
    }

    /// CPU time that it has used, ns; 0 when it has ended and was waited for.
    #[must_use]
    pub fn ns(self) -> u64 {
        self.told_ns().unwrap_or_default()
    }

    /// The same; `None` where the kernel does not tell, as of a process that has ended and was waited for.
    #[must_use]
    pub fn told_ns(self) -> Option<u64> {
        told_ns(self.0)
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    told_ns(clock).unwrap_or_default()
}

fn told_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable.
    let told = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (told == 0).then(|| time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the clock of a process is the one that the C library finds, and that one that is not there tells nothing.
    #[test]
    fn clocks_of_processes() {
        let pid = std::process::id();
        let mut clock = 0;
        // SAFETY: `clock` is writable.
        let found = unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) };
        assert_eq!((found, clock), (0, CpuClock::of(pid).0));
        let own = || clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
        let (before, told, after) = (own(), CpuClock::of(pid).ns(), own());
        assert!((before..=after).contains(&told));
        // No process has this id: it is above the kernel's limit.
        assert_eq!(CpuClock::of(1 << 23).told_ns(), None);
    }
}
