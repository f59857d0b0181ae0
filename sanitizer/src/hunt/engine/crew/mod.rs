//! The program's threads: who is taken in, who is let alone, and what they cost.

mod creations;
mod first_thread;
mod own_stops;

use std::sync::atomic::Ordering::SeqCst;

use crate::hunt::adoption::Adoption;
use crate::hunt::engine::rig::Rig;
use crate::hunt::engine::{EngineError, as_pid};
use crate::hunt::respite::Respite;
use crate::hunt::wire::Notice;
use crate::tracee;

use creations::Creations;
use own_stops::OwnStops;

pub use first_thread::let_first_receive;

/// See the module.
pub struct Crew {
    pub adoption: Adoption,
    pub respite: Respite,
    pub own_stops: OwnStops,
    pub creations: Creations,
    /// It was told that the program is watched by processor.
    is_told_by_cpu: bool,
}

impl Crew {
    /// Of a program that has not begun. `share`: of its CPU time, that may be spent.
    pub fn new(share: f64) -> Self {
        Self {
            adoption: Adoption::new(share),
            respite: Respite::new(share),
            own_stops: OwnStops::default(),
            creations: Creations::default(),
            is_told_by_cpu: false,
        }
    }

    /// Takes in threads that were created since, as many as are allowed.
    pub fn take_in_new_threads(&mut self, rig: &mut Rig) -> Result<(), EngineError> {
        let allowed = usize::try_from(self.adoption.allowance()).unwrap_or(usize::MAX);
        if allowed > 0 {
            let tids = tracee::threads::list(as_pid(rig.program.pid)).unwrap_or_default();
            let tids = tids.into_iter().map(|tid| tid.as_raw().cast_unsigned());
            let new = tids.filter(|&tid| !rig.arming.knows(tid)).take(allowed);
            for tid in new.collect::<Vec<_>>() {
                self.take_in_thread(rig, tid)?;
            }
        }
        self.allow_threads(rig);
        Ok(())
    }

    /// Takes in a thread that was created since. It has inherited its events, where that is done.
    pub fn take_in_thread(&mut self, rig: &mut Rig, tid: u32) -> Result<(), EngineError> {
        self.adoption.took_in();
        if rig.arming.seize(tid)? && !rig.arming.inherits() {
            rig.open_events(tid)?;
        }
        Ok(())
    }

    /// Says to the gate how many new threads it may tell of.
    pub fn allow_threads(&self, rig: &Rig) {
        let control = rig.gates.control();
        let allowance = self.adoption.allowance();
        control.budget.threads_allowed.store(allowance, SeqCst);
    }

    /// Lets threads that are created from now on have no events until they are taken in, where the processors' are not to be had and they
    /// are too many. Nobody may stand still.
    fn spare_new_threads(&mut self, rig: &mut Rig) {
        if rig.arming.watchpoints().are_by_cpu()
            || !self.adoption.has_left()
            || !rig.arming.inherits()
        {
            return;
        }
        rig.arming.end_inheritance();
        let mut held: Vec<u32> = rig.arming.tids().collect();
        held.sort_unstable();
        for tid in held {
            // Without them it is not watched, as any that is left alone.
            if let Err(error) = rig.open_events(tid) {
                rig.outbox.send(&Notice::Debug(error.to_string()));
            }
        }
    }

    /// Watches by thread or by processor, as the number of threads suggests. Nobody may stand still.
    pub fn fit_events(&mut self, rig: &mut Rig, threads: usize) {
        if let Err(error) = rig
            .arming
            .choose_events(threads, &rig.gates, rig.loader.employer())
        {
            let text = format!("other clocks and watchpoints could not be opened: {error}");
            rig.outbox.send(&Notice::Debug(text));
        }
        self.spare_new_threads(rig);
        let control = rig.gates.control();
        let clock_by_cpu = rig.arming.ticking_cpus() > 0;
        let events = &control.events;
        events.clock_by_cpu.store(clock_by_cpu.into(), SeqCst);
        let sample_ns = if clock_by_cpu { 0 } else { rig.period_ns() };
        rig.budget.set_period(control, sample_ns);
        let by_cpu = rig.arming.watchpoints().are_by_cpu();
        if std::mem::replace(&mut self.is_told_by_cpu, by_cpu) != by_cpu {
            rig.outbox.send(&Notice::ByProcessor(by_cpu));
            let how = if by_cpu { "processor" } else { "thread" };
            let text = format!("{threads} threads: memory is watched by {how}");
            rig.outbox.send(&Notice::Debug(text));
        }
        rig.gates
            .control()
            .events
            .watch_by_cpu
            .store(u64::from(by_cpu), SeqCst);
    }

    /// The same for the threads that are known.
    pub fn fit_events_to_known(&mut self, rig: &mut Rig) {
        let known = rig.arming.known();
        self.fit_events(rig, known);
    }
}
