//! The clocks of one process, whose ticks are its samples: an event on each of its threads, or one on each processor.
//!
//! A thread's clock is set up and taken down at each of its context switches, with a timer of the processor, and even
//! an event that is switched off costs there. That is 2.3 us in a virtual machine, 0.8 us for the latter: a fifth of
//! a program that switches 100,000 times a second. A processor's clock costs nothing there, but ticks for other
//! processes as well, and on an idle machine.

use std::{collections::HashMap, time::Duration};

use crate::kernel::{
    KernelError, cpus,
    gates::{Gate, Gates},
    perf::{EventOptions, PerfEvent},
};

/// Whether the events of threads that are given a processor so often a second take much of the budget, a share of
/// the CPU time of a program that uses so many processors on average.
#[must_use]
pub fn are_dear(turns: f64, used: f64, share: f64) -> bool {
    /// What the events of a thread cost each time, in seconds.
    const TURN: f64 = 2e-6;
    /// The share of the budget that they may take.
    const SHARE: f64 = 0.1;
    /// A program that hardly does anything is not worth the processors' breakpoints.
    const FEW: f64 = 250.0;
    turns > FEW && turns * TURN > used * share * SHARE
}

/// See the module.
#[derive(Debug)]
pub enum Clocks {
    /// By thread: its own and those of the threads that it has created since.
    Threads(HashMap<u32, PerfEvent>),
    /// By processor.
    Cpus(Cpus),
}

/// Those of the processors.
#[derive(Debug)]
pub struct Cpus {
    clocks: Vec<(u32, PerfEvent)>,
    /// How often they tick.
    period: Duration,
    /// How often in a row a longer time was wanted.
    longer: u32,
}

impl Default for Clocks {
    fn default() -> Self {
        Self::Threads(HashMap::new())
    }
}

impl Clocks {
    /// One on each processor of those that are online; they run.
    ///
    /// # Errors
    /// Fails where perf_event_open(2) does: `EACCES` without CAP_PERFMON.
    pub fn on_cpus(period: Duration, gates: &Gates, online: &[u32]) -> Result<Self, KernelError> {
        let mut clocks = Self::Cpus(Cpus {
            clocks: Vec::new(),
            period,
            longer: 0,
        });
        clocks.complete(gates, online)?;
        Ok(clocks)
    }

    /// Whether they are those of the processors.
    #[must_use]
    pub const fn are_by_cpu(&self) -> bool {
        matches!(self, Self::Cpus(..))
    }

    /// Opens those of processors that have come online since, and closes those of others; nothing where threads have
    /// some.
    ///
    /// # Errors
    /// As [`Clocks::on_cpus`].
    pub fn complete(&mut self, gates: &Gates, online: &[u32]) -> Result<(), KernelError> {
        let Self::Cpus(Cpus { clocks, period, .. }) = self else {
            return Ok(());
        };
        if cpus::are_complete(clocks, online) {
            return Ok(());
        }
        let gate = gates.program(Gate::Clock)?;
        cpus::complete(clocks, online, |cpu| {
            let clock = PerfEvent::clock_of_cpu(cpu, *period)?;
            clock.set_gate(gate)?;
            clock.enable()?;
            Ok(clock)
        })
    }

    /// Lets those of processors tick so often; less often than before only when that is wanted several times in a row, since
    /// each change begins a period anew. One whose processor has gone offline ticks no more anyway.
    pub fn set_period(&mut self, wanted: Duration) {
        /// So many times.
        const PATIENCE: u32 = 3;
        let Self::Cpus(cpus) = self else {
            return;
        };
        cpus.longer = if wanted > cpus.period {
            cpus.longer + 1
        } else {
            0
        };
        if wanted < cpus.period || cpus.longer >= PATIENCE {
            cpus.longer = 0;
            cpus.period = wanted;
            for (_, clock) in &cpus.clocks {
                let _ = clock.set_period(wanted);
            }
        }
    }

    /// Opens that of a thread and of those that it will create, where threads have some and it has none; it runs.
    ///
    /// # Errors
    /// Fails where the perf calls do.
    pub fn open(
        &mut self,
        tid: u32,
        period: Duration,
        options: EventOptions,
        gates: &Gates,
    ) -> Result<(), KernelError> {
        if let Self::Threads(clocks) = self
            && !clocks.contains_key(&tid)
        {
            let clock = PerfEvent::clock(tid, period, options)?;
            clock.set_gate(gates.program(Gate::Clock)?)?;
            clock.enable()?;
            clocks.insert(tid, clock);
        }
        Ok(())
    }

    /// Takes over that of a thread, which was opened elsewhere.
    pub fn add(&mut self, tid: u32, clock: PerfEvent) {
        if let Self::Threads(clocks) = self {
            clocks.insert(tid, clock);
        }
    }

    /// Whether a thread has one of its own.
    #[must_use]
    pub fn has(&self, tid: u32) -> bool {
        matches!(self, Self::Threads(clocks) if clocks.contains_key(&tid))
    }

    /// Closes that of a thread.
    pub fn forget(&mut self, tid: u32) {
        if let Self::Threads(clocks) = self {
            clocks.remove(&tid);
        }
    }

    /// Lets those of threads run, or stops them.
    pub fn run(&self, run: bool) {
        if let Self::Threads(clocks) = self {
            for clock in clocks.values() {
                // One that cannot be switched belongs to a thread that has ended.
                let _ = if run { clock.enable() } else { clock.disable() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that programs which compute keep the events of their threads, and servers do not.
    #[test]
    fn threads_that_switch_often() {
        assert!(!are_dear(200.0, 2.0, 0.01));
        assert!(are_dear(20_000.0, 0.5, 0.01));
        assert!(are_dear(400.0, 0.02, 0.01));
        assert!(!are_dear(400.0, 2.0, 0.03));
        assert!(!are_dear(20.0, 0.0, 0.01));
    }
}
