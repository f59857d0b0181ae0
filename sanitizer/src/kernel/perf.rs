//! Perf events: the clock, instruction breakpoints, data watchpoints, and their gates.
//!
//! Source of the format: `include/uapi/linux/perf_event.h`, `hw_breakpoint.h`,
//! perf_event_open(2).

mod attributes;
mod signalled;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    time::Duration,
};

use nix::sys::signal::Signal;
use perf_event_open_sys::{self as sys, bindings as raw};

use super::{KernelError, fault};
use crate::addr::RuntimeAddr;

use attributes::{INSTRUCTION_LEN, base, bp_type, of_cpu, sample_period, ticking, unarmed};

/// How a gate stops the thread that it wants stopped (invariant I1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Delivery {
    /// The event's own synchronous SIGTRAP.
    Sigtrap,
    /// The gate sends this signal, which the target ignores, by itself.
    GateSignal(u8),
}

impl std::fmt::Display for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sigtrap => f.write_str("SIGTRAP of their events"),
            Self::GateSignal(signal) => match Signal::try_from(i32::from(*signal)) {
                Ok(signal) => write!(f, "{signal}"),
                Err(_) => write!(f, "signal {signal}"),
            },
        }
    }
}

/// Which accesses a watchpoint traps. (x86 has no read-only watchpoints.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    /// Writes.
    Writes,
    /// Reads and writes.
    ReadsAndWrites,
}

/// What an event is opened with, besides its kind.
#[derive(Clone, Copy, Debug)]
pub struct EventOptions {
    /// How its gate stops threads.
    pub delivery: Delivery,
    /// Threads that the thread creates later get the event, too.
    pub inherit: bool,
    /// Comes back in `si_perf_data` of its SIGTRAP: tells our events from the target's own.
    pub cookie: u64,
    /// Each trap is written down in the thread's [`super::ring::Ring`], with so many bytes of stack.
    pub record_stack: Option<u16>,
    /// What the kernel does for the thread traps as well. Needs CAP_PERFMON.
    pub kernel: bool,
}

impl EventOptions {
    /// Of an event that stops nobody: on one thread, or one processor, in user mode.
    pub const SILENT: Self = Self {
        delivery: Delivery::GateSignal(0),
        inherit: false,
        cookie: 0,
        record_stack: None,
        kernel: false,
    };
}

/// What an event is about.
#[derive(Clone, Copy, Debug)]
enum Scope {
    /// One thread, and those that inherit the event from it.
    Thread(u32),
    /// Whatever runs on one processor.
    Cpu(u32),
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Thread(tid) => write!(f, "thread {tid}"),
            Self::Cpu(cpu) => write!(f, "processor {cpu}"),
        }
    }
}

/// An open perf event.
#[derive(Debug)]
pub struct PerfEvent {
    fd: OwnedFd,
    attr: raw::perf_event_attr,
    scope: Scope,
    /// It may count, and a breakpoint may be armed: what is certainly off needs no call that turns it off, and most of what is disarmed is.
    may_be_on: AtomicBool,
}

impl PerfEvent {
    /// A sample each `period` of CPU time that the thread spends in user mode; disabled.
    ///
    /// # Errors
    /// Fails where perf_event_open(2) does.
    pub fn clock(tid: u32, period: Duration, options: EventOptions) -> Result<Self, KernelError> {
        let attr = ticking(base(options), raw::PERF_COUNT_SW_TASK_CLOCK, period);
        Self::open(attr, Scope::Thread(tid))
    }

    /// A sample each `period` of whatever a processor then executes in user mode; disabled. It cannot stop a thread
    /// by itself.
    ///
    /// # Errors
    /// Fails where perf_event_open(2) does: `EACCES` without CAP_PERFMON.
    pub fn clock_of_cpu(cpu: u32, period: Duration) -> Result<Self, KernelError> {
        let attr = ticking(of_cpu(false), raw::PERF_COUNT_SW_CPU_CLOCK, period);
        Self::open(attr, Scope::Cpu(cpu))
    }

    /// Samples each `period` from now on.
    ///
    /// # Errors
    /// Fails where `PERF_EVENT_IOC_PERIOD` does.
    pub fn set_period(&self, period: Duration) -> Result<(), KernelError> {
        let period = sample_period(period);
        // The kernel wants where it stands (`perf_event_ioctl` in `kernel/events/core.c`).
        let place = (&raw const period).expose_provenance() as u64;
        self.before("ioctl(PERF_EVENT_IOC_PERIOD)")?;
        // SAFETY: the descriptor is open, and `period` outlives the call.
        let result = unsafe { sys::ioctls::PERIOD(self.fd.as_raw_fd(), place) };
        self.check(result, "ioctl(PERF_EVENT_IOC_PERIOD)")
    }

    /// A hardware breakpoint or watchpoint on nothing yet; disabled.
    ///
    /// # Errors
    /// Fails where perf_event_open(2) does: `ENOSPC` when all four slots are taken.
    pub fn breakpoint(tid: u32, options: EventOptions) -> Result<Self, KernelError> {
        Self::open(unarmed(base(options)), Scope::Thread(tid))
    }

    /// The same for whatever process runs on a processor: its gate must tell whose access it was,
    /// and a thread can only be stopped by a signal that the gate sends by itself.
    ///
    /// # Errors
    /// Fails where perf_event_open(2) does: `ENOSPC` when all four slots are taken, `EACCES`
    /// without CAP_PERFMON.
    pub fn watchpoint_on_cpu(cpu: u32) -> Result<Self, KernelError> {
        Self::open(unarmed(of_cpu(true)), Scope::Cpu(cpu))
    }

    /// The same for instructions.
    ///
    /// # Errors
    /// As [`PerfEvent::watchpoint_on_cpu`].
    pub fn breakpoint_on_cpu(cpu: u32) -> Result<Self, KernelError> {
        let mut attr = unarmed(of_cpu(true));
        attr.bp_type = raw::HW_BREAKPOINT_X;
        attr.__bindgen_anon_4.bp_len = INSTRUCTION_LEN;
        Self::open(attr, Scope::Cpu(cpu))
    }

    fn open(mut attr: raw::perf_event_attr, scope: Scope) -> Result<Self, KernelError> {
        let (tid, cpu) = match scope {
            Scope::Thread(tid) => (tid.cast_signed(), -1),
            Scope::Cpu(cpu) => (-1, cpu.cast_signed()),
        };
        fault::before("perf_event_open", || scope.to_string())?;
        // SAFETY: `attr` is a valid, fully initialized structure that outlives the call.
        let fd = unsafe {
            sys::perf_event_open(
                &mut attr,
                tid,
                cpu,
                -1,
                u64::from(raw::PERF_FLAG_FD_CLOEXEC),
            )
        };
        if fd < 0 {
            return Err(KernelError::last("perf_event_open", scope.to_string()));
        }
        // SAFETY: the call succeeded, so `fd` is an open descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            fd,
            attr,
            scope,
            may_be_on: AtomicBool::new(false),
        })
    }

    /// Attaches a loaded gate. Must come before threads exist that are to inherit it.
    ///
    /// # Errors
    /// Fails where `PERF_EVENT_IOC_SET_BPF` does.
    pub fn set_gate(&self, program: BorrowedFd<'_>) -> Result<(), KernelError> {
        self.before("ioctl(PERF_EVENT_IOC_SET_BPF)")?;
        // SAFETY: both descriptors are open.
        let result = unsafe {
            sys::ioctls::SET_BPF(self.fd.as_raw_fd(), program.as_raw_fd().cast_unsigned())
        };
        self.check(result, "ioctl(PERF_EVENT_IOC_SET_BPF)")
    }

    /// What its records are known by.
    ///
    /// # Errors
    /// Fails where `PERF_EVENT_IOC_ID` does.
    pub fn id(&self) -> Result<u64, KernelError> {
        let mut id = 0;
        self.before("ioctl(PERF_EVENT_IOC_ID)")?;
        // SAFETY: the descriptor is open, and `id` is writable.
        let result = unsafe { sys::ioctls::ID(self.fd.as_raw_fd(), &raw mut id) };
        self.check(result, "ioctl(PERF_EVENT_IOC_ID)")?;
        Ok(id)
    }

    /// Writes its records into the ring of another event of the same thread.
    ///
    /// # Errors
    /// Fails where `PERF_EVENT_IOC_SET_OUTPUT` does.
    pub fn record_with(&self, other: &Self) -> Result<(), KernelError> {
        self.before("ioctl(PERF_EVENT_IOC_SET_OUTPUT)")?;
        // SAFETY: both descriptors are open.
        let result = unsafe { sys::ioctls::SET_OUTPUT(self.fd.as_raw_fd(), other.fd.as_raw_fd()) };
        self.check(result, "ioctl(PERF_EVENT_IOC_SET_OUTPUT)")
    }

    /// Starts counting.
    ///
    /// # Errors
    /// Fails where `PERF_EVENT_IOC_ENABLE` does.
    pub fn enable(&self) -> Result<(), KernelError> {
        self.before("ioctl(PERF_EVENT_IOC_ENABLE)")?;
        self.may_be_on.store(true, Relaxed);
        // SAFETY: the descriptor is open.
        let result = unsafe { sys::ioctls::ENABLE(self.fd.as_raw_fd(), 0) };
        self.check(result, "ioctl(PERF_EVENT_IOC_ENABLE)")
    }

    /// Stops counting: a breakpoint leaves the debug registers of all CPUs before this returns.
    ///
    /// # Errors
    /// Fails where `PERF_EVENT_IOC_DISABLE` does.
    pub fn disable(&self) -> Result<(), KernelError> {
        if !self.may_be_on.load(Relaxed) {
            return Ok(());
        }
        self.before("ioctl(PERF_EVENT_IOC_DISABLE)")?;
        // SAFETY: the descriptor is open.
        let result = unsafe { sys::ioctls::DISABLE(self.fd.as_raw_fd(), 0) };
        self.check(result, "ioctl(PERF_EVENT_IOC_DISABLE)")?;
        self.may_be_on.store(false, Relaxed);
        Ok(())
    }

    /// Disarms each of them. One that cannot be disabled is that of a thread that has ended, or of a processor that is
    /// offline.
    pub fn disarm_all<'a>(events: impl Iterator<Item = &'a Self>) {
        for event in events {
            let _ = event.disable();
        }
    }

    /// Watches `len` bytes (1, 2, 4 or 8) at an address that is aligned to `len`.
    ///
    /// # Errors
    /// Fails where `PERF_EVENT_IOC_MODIFY_ATTRIBUTES` does: `EINVAL` for other lengths.
    pub fn watch(
        &mut self,
        address: RuntimeAddr,
        len: u8,
        kind: WatchKind,
    ) -> Result<(), KernelError> {
        self.arm(address, u64::from(len), bp_type(kind))
    }

    /// Traps the next write to `len` bytes alone: it is off from then on (`perf_event_overflow` in `kernel/events/core.c`). Not for events that are inherited.
    ///
    /// # Errors
    /// As [`PerfEvent::watch`], and where `PERF_EVENT_IOC_REFRESH` does.
    pub fn watch_next_write(&mut self, address: RuntimeAddr, len: u8) -> Result<(), KernelError> {
        self.attr.__bindgen_anon_3.bp_addr = address.0;
        self.attr.__bindgen_anon_4.bp_len = u64::from(len);
        self.disarm_as(WatchKind::Writes)?;
        self.before("ioctl(PERF_EVENT_IOC_REFRESH)")?;
        self.may_be_on.store(true, Relaxed);
        // SAFETY: the descriptor is open.
        let result = unsafe { sys::ioctls::REFRESH(self.fd.as_raw_fd(), 1) };
        self.check(result, "ioctl(PERF_EVENT_IOC_REFRESH)")
    }

    /// Traps before the instruction at an address.
    ///
    /// # Errors
    /// Fails where `PERF_EVENT_IOC_MODIFY_ATTRIBUTES` does.
    pub fn break_at(&mut self, address: RuntimeAddr) -> Result<(), KernelError> {
        self.arm(address, INSTRUCTION_LEN, raw::HW_BREAKPOINT_X)
    }

    /// Makes it a watchpoint of this kind, disarmed.
    ///
    /// # Errors
    /// Fails where `PERF_EVENT_IOC_MODIFY_ATTRIBUTES` does.
    pub fn disarm_as(&mut self, kind: WatchKind) -> Result<(), KernelError> {
        self.attr.bp_type = bp_type(kind);
        self.attr.set_disabled(1);
        self.modify()?;
        self.may_be_on.store(false, Relaxed);
        Ok(())
    }

    /// Arms each of them.
    ///
    /// # Errors
    /// Fails when none could be armed, as the last one did: a thread may have ended, a processor gone offline.
    pub fn arm_any<'a>(
        events: impl Iterator<Item = &'a mut Self>,
        arm: impl Fn(&mut Self) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let mut armed = false;
        let mut failure = None;
        for event in events {
            match arm(event) {
                Ok(()) => armed = true,
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if !armed => Err(error),
            _ => Ok(()),
        }
    }

    fn arm(&mut self, address: RuntimeAddr, len: u64, kind: u32) -> Result<(), KernelError> {
        self.attr.__bindgen_anon_3.bp_addr = address.0;
        self.attr.__bindgen_anon_4.bp_len = len;
        self.attr.bp_type = kind;
        self.attr.set_disabled(0);
        self.may_be_on.store(true, Relaxed);
        self.modify()
    }

    fn modify(&mut self) -> Result<(), KernelError> {
        self.before("ioctl(PERF_EVENT_IOC_MODIFY_ATTRIBUTES)")?;
        // SAFETY: the descriptor is open and `attr` outlives the call.
        let result =
            unsafe { sys::ioctls::MODIFY_ATTRIBUTES(self.fd.as_raw_fd(), &raw mut self.attr) };
        self.check(result, "ioctl(PERF_EVENT_IOC_MODIFY_ATTRIBUTES)")
    }

    fn before(&self, call: &'static str) -> Result<(), KernelError> {
        fault::before(call, || format!("an event of {}", self.scope))
    }

    fn check(&self, result: i32, call: &'static str) -> Result<(), KernelError> {
        if result < 0 {
            return Err(KernelError::last(
                call,
                format!("an event of {}", self.scope),
            ));
        }
        Ok(())
    }
}

impl AsFd for PerfEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
