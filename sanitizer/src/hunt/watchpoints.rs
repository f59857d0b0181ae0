//! The data watchpoints of one process: an event on each of its threads, or one on each processor.
//! While nothing is watched they serve as breakpoints on an access site.
//!
//! To arm an event costs about the same for a thread as for a processor, and all must be armed while
//! a thread stands still. A process with few threads is watched by thread: no other process can hit
//! its watchpoints, and the kernel stops the racing thread by itself. With more threads than that,
//! the processors are cheaper, whatever the number of threads; the gate then tells whose access it was.

use std::collections::HashMap;

use crate::{
    addr::RuntimeAddr,
    kernel::{
        KernelError, cpus,
        gates::{Gate, Gates},
        perf::{EventOptions, PerfEvent, WatchKind},
        slot_lock::QuickSlotLock,
    },
};

/// Threads up to which each is armed, also on machines with fewer processors: that takes no
/// breakpoints from other processes, and 15 to 30 us a thread while one stands still.
const FEW_THREADS: usize = 16;

/// See the module.
#[derive(Debug)]
pub enum Watchpoints {
    /// By thread: its own and those of the threads that it has created since.
    Threads(HashMap<u32, PerfEvent>),
    /// By processor.
    Cpus(Cpus),
}

/// Those of the processors.
#[derive(Debug)]
pub struct Cpus {
    events: Vec<(u32, PerfEvent)>,
    /// `None` where there was no breakpoint left for it: to arm them may then take 25 ms, unless
    /// another gwp-race has one.
    quick: Option<QuickSlotLock>,
}

impl Default for Watchpoints {
    fn default() -> Self {
        Self::Threads(HashMap::new())
    }
}

impl Watchpoints {
    /// One on each processor that is online, disarmed.
    ///
    /// # Errors
    /// Fails where perf_event_open(2) does: `ENOSPC` where others use all four breakpoints of a
    /// processor, `EACCES` without CAP_PERFMON.
    pub fn on_cpus(gates: &Gates) -> Result<Self, KernelError> {
        let open = |cpu| {
            let event = PerfEvent::breakpoint_on_cpu(cpu)?;
            event.set_gate(gates.program(Gate::Watch)?)?;
            Ok((cpu, event))
        };
        let online = cpus::online();
        let events = online.iter().copied().map(open);
        let events = events.collect::<Result<_, _>>()?;
        let quick = online.first().map(|&cpu| QuickSlotLock::keep(cpu));
        Ok(Self::Cpus(Cpus {
            events,
            quick: quick.and_then(Result::ok),
        }))
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

    /// Whether each processor has one that should.
    #[must_use]
    pub fn are_complete(&self) -> bool {
        match self {
            Self::Threads(_) => true,
            Self::Cpus(Cpus { events, .. }) => {
                let online = cpus::online();
                online.is_empty() || events.iter().map(|(cpu, _)| *cpu).eq(online)
            }
        }
    }

    /// Whether they are going to be armed, so that it can be made quick; false where it cannot.
    pub fn expect(&self, armed: bool) -> bool {
        match self {
            Self::Threads(_) => true,
            Self::Cpus(Cpus { quick, .. }) => {
                if let Some(quick) = quick {
                    quick.want(armed);
                }
                quick.is_some()
            }
        }
    }

    /// Opens that of a thread, where threads have some.
    ///
    /// # Errors
    /// Fails where the perf calls do.
    pub fn open(
        &mut self,
        tid: u32,
        options: EventOptions,
        gates: &Gates,
    ) -> Result<(), KernelError> {
        if let Self::Threads(events) = self {
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

    /// Arms them.
    ///
    /// # Errors
    /// Fails when none could be armed: for threads, one that has ended is no error. Processors must
    /// be armed all but those that have gone offline: a thread may run on any.
    pub fn watch(
        &mut self,
        address: RuntimeAddr,
        len: u8,
        kind: WatchKind,
    ) -> Result<(), KernelError> {
        self.arm(&mut |event| event.watch(address, len, kind))
    }

    fn arm(
        &mut self,
        arm: &mut dyn FnMut(&mut PerfEvent) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let mut armed = false;
        let mut failure = None;
        for event in self.events_mut() {
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

    /// Arms them as breakpoints on an instruction.
    ///
    /// # Errors
    /// As [`Watchpoints::watch`].
    pub fn break_at(&mut self, address: RuntimeAddr) -> Result<(), KernelError> {
        self.arm(&mut |event| event.break_at(address))
    }

    /// Disarms them.
    pub fn unwatch(&mut self) {
        for event in self.events_mut() {
            // An event that cannot be disabled belongs to threads that have ended.
            let _ = event.disable();
        }
    }

    fn events_mut(&mut self) -> Box<dyn Iterator<Item = &mut PerfEvent> + '_> {
        match self {
            Self::Threads(events) => Box::new(events.values_mut()),
            Self::Cpus(cpus) => Box::new(cpus.events.iter_mut().map(|(_, event)| event)),
        }
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
