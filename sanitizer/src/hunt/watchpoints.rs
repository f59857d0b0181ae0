//! The data watchpoints of one process, and the breakpoints on the access site that is waited at: an event for
//! both on each of its threads, or two on each processor.
//!
//! To arm an event costs about the same for a thread as for a processor: the kernel interrupts the processor
//! where it is, or was last, also where the thread sleeps. All must be armed while a thread stands still. A process
//! with few threads is watched by thread: no other process can hit its watchpoints, and the kernel stops the
//! racing thread by itself. With more threads than that, the processors are cheaper, whatever the number of
//! threads; the gate then tells whose access it was.

use std::collections::HashMap;

use crate::{
    addr::RuntimeAddr,
    kernel::{
        KernelError,
        cpu_watch::CpuWatch,
        cpus,
        gates::{Gate, Gates},
        perf::{EventOptions, PerfEvent, WatchKind},
        process::Employer,
    },
};

/// Threads up to which each is armed, also on machines with fewer processors: that takes no
/// breakpoints from other processes.
const FEW_THREADS: usize = 4;
/// Breakpoints of each processor that are taken where processors are watched: [`Cpus`].
pub const OF_PROCESSOR: usize = 2;

/// See the module.
#[derive(Debug)]
pub enum Watchpoints {
    /// By thread: its own and those of the threads that it has created since.
    Threads(HashMap<u32, PerfEvent>),
    /// By processor.
    Cpus(Cpus),
}

/// Those of the processors: one for a site, or for a thread that is sought at one, and one for bytes. To make the one of
/// the other would take the kernel's lock on all breakpoints ([`CpuWatch`]) while a thread stands still.
#[derive(Debug)]
pub struct Cpus {
    breakpoints: Vec<(u32, PerfEvent)>,
    bytes: CpuWatch,
}

impl Default for Watchpoints {
    fn default() -> Self {
        Self::Threads(HashMap::new())
    }
}

impl Watchpoints {
    /// Two on each processor of those that are online, disarmed. `employer` is told when they may be ready for what they are prepared for.
    ///
    /// # Errors
    /// Fails where perf_event_open(2) does: `ENOSPC` where two of a processor's four breakpoints are not to be had,
    /// because others have them on that processor or in some thread, or none would be left for the program's
    /// threads; `EACCES` without CAP_PERFMON. And where it is not known which processors are online.
    pub fn on_cpus(
        gates: &Gates,
        online: &[u32],
        employer: &Employer,
    ) -> Result<Self, KernelError> {
        if online.is_empty() {
            let cause = "/sys/devices/system/cpu/online does not say; is /sys mounted?";
            return Err(KernelError::other("finding", "the processors", cause));
        }
        let mut cpus = Cpus {
            breakpoints: Vec::new(),
            bytes: CpuWatch::new(employer.clone())?,
        };
        cpus.complete(gates, online)?;
        Ok(Self::Cpus(cpus))
    }

    /// Opens those of processors that have come online since, and closes those of others; nothing where threads have
    /// some. They must be disarmed.
    ///
    /// # Errors
    /// As [`Watchpoints::on_cpus`].
    pub fn complete(&mut self, gates: &Gates, online: &[u32]) -> Result<(), KernelError> {
        match self {
            Self::Threads(_) => Ok(()),
            Self::Cpus(cpus) => cpus.complete(gates, online),
        }
    }

    /// Whether a process of so many threads is better watched by processor.
    #[must_use]
    pub fn want_cpus(threads: usize, cpus: usize) -> bool {
        threads > cpus.max(FEW_THREADS)
    }

    /// Whether they are those of the processors.
    #[must_use]
    pub const fn are_by_cpu(&self) -> bool {
        matches!(self, Self::Cpus(_))
    }

    /// Prepares them for watching for such accesses; false while they are not ready for it. They must be disarmed.
    pub fn prepare(&self, kind: WatchKind) -> bool {
        match self {
            Self::Threads(_) => true,
            Self::Cpus(Cpus { bytes, .. }) => bytes.prepare(kind),
        }
    }

    /// Whether they can watch for such accesses now.
    #[must_use]
    pub fn can_watch(&self, kind: WatchKind) -> bool {
        match self {
            Self::Threads(_) => true,
            Self::Cpus(Cpus { bytes, .. }) => bytes.can(kind),
        }
    }

    /// Whether they would see all such accesses, and no others.
    #[must_use]
    pub fn are_for(&self, kind: WatchKind) -> bool {
        match self {
            Self::Threads(_) => true,
            Self::Cpus(Cpus { bytes, .. }) => bytes.are_for(kind),
        }
    }

    /// Opens that of a thread, where threads have some and it has none.
    ///
    /// # Errors
    /// Fails where the perf calls do.
    pub fn open(
        &mut self,
        tid: u32,
        options: EventOptions,
        gates: &Gates,
    ) -> Result<(), KernelError> {
        if let Self::Threads(events) = self
            && !events.contains_key(&tid)
        {
            let event = breakpoint_for_gate(tid, options)?;
            event.set_gate(gates.program(Gate::Watch)?)?;
            events.insert(tid, event);
        }
        Ok(())
    }

    /// Takes over that of a thread, which was opened elsewhere.
    pub fn add(&mut self, tid: u32, event: PerfEvent) {
        if let Self::Threads(events) = self {
            events.insert(tid, event);
        }
    }

    /// Closes that of a thread.
    pub fn forget(&mut self, tid: u32) {
        if let Self::Threads(events) = self {
            events.remove(&tid);
        }
    }

    /// Arms them; they are no breakpoints on a site any more. The result is what they trap on: writes alone, it may
    /// be, where all accesses were to be watched.
    ///
    /// # Errors
    /// Fails when none could be armed: a thread that has ended or a processor that has gone offline is no error.
    /// Those of processors fail, too, where [`Watchpoints::can_watch`] says so.
    pub fn watch(
        &mut self,
        address: RuntimeAddr,
        len: u8,
        kind: WatchKind,
    ) -> Result<WatchKind, KernelError> {
        match self {
            Self::Threads(events) => {
                PerfEvent::arm_any(events.values_mut(), |event| event.watch(address, len, kind))?;
                Ok(kind)
            }
            Self::Cpus(cpus) => {
                let kind = cpus.bytes.watch(address, len, kind)?;
                cpus.unbreak();
                Ok(kind)
            }
        }
    }

    /// Arms them as breakpoints on an instruction.
    ///
    /// # Errors
    /// Fails when none could be armed.
    pub fn break_at(&mut self, address: RuntimeAddr) -> Result<(), KernelError> {
        match self {
            Self::Threads(events) => {
                PerfEvent::arm_any(events.values_mut(), |event| event.break_at(address))
            }
            Self::Cpus(Cpus { breakpoints, .. }) => {
                let events = breakpoints.iter_mut().map(|(_, event)| event);
                PerfEvent::arm_any(events, |event| event.break_at(address))
            }
        }
    }

    /// Whether such accesses can be watched while a site is waited at.
    #[must_use]
    pub fn have_others_beside(&self, kind: WatchKind) -> bool {
        self.are_by_cpu() && self.are_for(kind)
    }

    /// Arms them. Those of processors stay breakpoints on a site as well.
    ///
    /// # Errors
    /// As [`Watchpoints::watch`].
    pub fn watch_beside(
        &mut self,
        address: RuntimeAddr,
        len: u8,
        kind: WatchKind,
    ) -> Result<(), KernelError> {
        match self {
            Self::Threads(_) => self.watch(address, len, kind).map(drop),
            Self::Cpus(Cpus { bytes, .. }) => bytes.watch(address, len, kind).map(drop),
        }
    }

    /// Does not watch any bytes, but is still a breakpoint.
    pub fn unwatch_beside(&self) {
        if let Self::Cpus(Cpus { bytes, .. }) = self {
            bytes.unwatch();
        }
    }

    /// Disarms breakpoints that are for nothing else.
    pub fn unbreak(&self) {
        if let Self::Cpus(cpus) = self {
            cpus.unbreak();
        }
    }

    /// Disarms them.
    pub fn unwatch(&mut self) {
        match self {
            Self::Threads(events) => PerfEvent::disarm_all(events.values()),
            Self::Cpus(cpus) => {
                cpus.unbreak();
                cpus.bytes.unwatch();
            }
        }
    }
}

impl Cpus {
    fn complete(&mut self, gates: &Gates, online: &[u32]) -> Result<(), KernelError> {
        if cpus::are_complete(&self.breakpoints, online) {
            return Ok(());
        }
        let (watch, site) = (gates.program(Gate::Watch)?, gates.program(Gate::Break)?);
        self.bytes.keep(online);
        cpus::complete(&mut self.breakpoints, online, |cpu| {
            let bytes = PerfEvent::watchpoint_on_cpu(cpu)?;
            bytes.set_gate(watch)?;
            let breakpoint = PerfEvent::breakpoint_on_cpu(cpu)?;
            breakpoint.set_gate(site)?;
            self.bytes.add(cpu, bytes)?;
            Ok(breakpoint)
        })?;
        // One must be left for those of the threads, as this one is.
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        PerfEvent::breakpoint(tid, EventOptions::SILENT).map(drop)
    }

    fn unbreak(&self) {
        PerfEvent::disarm_all(self.breakpoints.iter().map(|(_, event)| event));
    }
}

/// A breakpoint that traps in the kernel as well, where that is permitted: the gate tells what is done for the
/// program from all else. A security module may permit user mode alone.
fn breakpoint_for_gate(tid: u32, options: EventOptions) -> Result<PerfEvent, KernelError> {
    let in_kernel = EventOptions {
        kernel: true,
        ..options
    };
    match PerfEvent::breakpoint(tid, in_kernel) {
        Err(error) if error.source.raw_os_error() == Some(libc::EACCES) => {
            PerfEvent::breakpoint(tid, options)
        }
        result => result,
    }
}
