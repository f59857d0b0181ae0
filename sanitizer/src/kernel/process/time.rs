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
    let mut clock = 0;
    // SAFETY: `clock` is writable.
    let found = unsafe { libc::clock_getcpuclockid(libc::getppid(), &raw mut clock) };
    (found == 0).then(|| clock_ns(clock))
}

/// The clock of CPU time of another process.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// `None` where the kernel does not tell.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let mut clock = 0;
        // SAFETY: `clock` is writable.
        let found = unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) };
        (found == 0).then_some(Self(clock))
    }

    /// CPU time that it has used, ns; 0 when it has ended and was waited for.
    #[must_use]
    pub fn ns(self) -> u64 {
        clock_ns(self.0)
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable; a clock that is not there (that of a process that has ended) leaves it 0.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
