//! An engine begins, with what an earlier one has left.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::hunt::arming::{Arming, Processors};
use crate::hunt::budget::Budget;
use crate::hunt::delivery;
use crate::hunt::loader::Loader;
use crate::hunt::strategy::Name;
use crate::hunt::wire::{Notice, Outbox, Setup};
use crate::kernel::gates::Gates;
use crate::kernel::perf::Delivery;
use crate::kernel::process::WorkClock;
use crate::kernel::rights;

use super::adviser::Adviser;
use super::crew::Crew;
use super::profiler::Profiler;
use super::rig::{CLAIM_TIME, Figures, Program, Rig, period_ns};
use super::sampler::Sampler;
use super::substitute::Substitute;
use super::upkeep::Upkeep;
use super::{Engine, EngineError};

/// What an engine needs that lasts longer than its process, and is another one's when that has ended.
pub struct Lasting {
    /// The gates.
    pub gates: Gates,
    /// Whoever reads the modules, with what was read before.
    pub loader: Loader,
    /// What a trap costs here, ns.
    pub trap_cost_ns: u64,
    /// What those work who watch.
    pub clock: WorkClock,
    /// The processors, which one lease watches at a time.
    pub processors: Processors,
}

impl Engine {
    /// An engine that holds nothing yet. `cpu_before_ns`: CPU time that this process and its watchdog had used before they were to begin.
    #[must_use]
    pub fn new(
        mut setup: Setup,
        lasting: Lasting,
        delivery: Delivery,
        outbox: Outbox,
        cpu_before_ns: u64,
    ) -> Self {
        let Lasting {
            gates,
            loader,
            trap_cost_ns,
            clock,
            processors,
        } = lasting;
        let control = gates.control();
        // Evidence of another process is in the gates' memory, of other generations.
        let generation = gates.phase().read().generation();
        control.watchdog.standing_since_ns.store(0, SeqCst);
        control.process.tgid.store(u64::from(setup.pid), SeqCst);
        control
            .process
            .tracer
            .store(u64::from(std::process::id()), SeqCst);
        control
            .evidence
            .ignore_atomic
            .store(u64::from(!setup.report_mixed), SeqCst);
        control
            .evidence
            .keep_unanalyzed
            .store(u64::from(setup.report_unanalyzed), SeqCst);
        control.stall.stop_racing.store(1, SeqCst);
        let places_once = setup.learns && !setup.full_repeats;
        control.stall.places_once.store(places_once.into(), SeqCst);
        control
            .claim
            .timeout_ns
            .store(CLAIM_TIME.as_nanos() as u64, SeqCst);
        delivery::tell(control, delivery);
        let period_ns = period_ns(&setup, trap_cost_ns);
        let substitutes = !gates.are_in_kernel();
        let mut budget = Budget::new(
            control,
            period_ns,
            setup.max_overhead,
            trap_cost_ns,
            setup.advance(),
            clock,
        );
        if substitutes {
            budget = budget.without_gates(control);
        }
        let mut random = fastrand::Rng::with_seed(setup.seed);
        let period = Duration::from_nanos(period_ns);
        let mut arming = Arming::new(setup.pid, delivery, period, random.u64(..), processors);
        if rights::are_lent() && !rights::are_for_named() {
            arming = arming.without_others();
        }
        if substitutes {
            arming = arming.without_gates();
            // To wait at a site is to stop whoever comes there: what that costs only a gate can bound.
            setup.strategy = Name::Clock;
        }
        let adviser = Adviser::new(&setup, random);
        let (profiler, refusal) =
            Profiler::new(setup.probes && !substitutes, &gates, budget.clock().clone());
        let mut engine = Self {
            sampler: Sampler::new(generation),
            crew: Crew::new(setup.max_overhead),
            substitute: substitutes.then(|| Substitute::new(setup.max_overhead)),
            upkeep: Upkeep::new(cpu_before_ns),
            rig: Rig {
                program: Program::new(setup.pid),
                arming,
                modules: Arc::default(),
                loader,
                gates,
                budget,
                figures: Figures::default(),
                outbox,
                setup,
            },
            adviser,
            profiler,
            ending: None,
        };
        if let Some(refusal) = refusal {
            engine.rig.outbox.send(&refusal);
        }
        // Where there are gates, what may claim a thread is decided when the program is known.
        engine.rig.clock_may_claim(substitutes);
        engine.crew.allow_threads(&engine.rig);
        engine.begin_start_up();
        engine
    }

    /// What is left for another process, when this one has ended: nobody is held, and no event open.
    #[must_use]
    pub fn into_lasting(self) -> Lasting {
        let Rig {
            mut arming,
            mut gates,
            loader,
            budget,
            ..
        } = self.rig;
        // Before the gates forget it.
        let trap_cost_ns = gates.control().budget.trap_cost_ns.load(SeqCst);
        arming.close_events(arming.delivery());
        gates.reset();
        Lasting {
            gates,
            loader,
            trap_cost_ns,
            clock: budget.into_clock(),
            processors: arming.into_processors(),
        }
    }

    /// Takes over a process that waits before its exec, and says so. It is armed at its exec
    /// stop, as after any later exec.
    ///
    /// # Errors
    /// Fails when the process cannot be held.
    pub fn launch(&mut self) -> Result<(), EngineError> {
        if !self.rig.arming.seize(self.rig.program.pid)? {
            return Err(EngineError::Gone(self.rig.program.pid));
        }
        self.rig
            .program
            .check_identity(self.rig.setup.start_ticks)?;
        self.rig
            .program
            .begin_activity(self.rig.arming.tids().collect());
        self.rig.outbox.send(&Notice::Seized);
        Ok(())
    }
}
