//! An engine begins, with what an earlier one has left.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::hunt::adoption::Adoption;
use crate::hunt::arming::Arming;
use crate::hunt::budget::Budget;
use crate::hunt::clock::Clock;
use crate::hunt::delivery;
use crate::hunt::learned::Learned;
use crate::hunt::loader::Loader;
use crate::hunt::plan::Planner;
use crate::hunt::plan::choose::ByWorth;
use crate::hunt::plan::log::Logged;
use crate::hunt::planned::Planned;
use crate::hunt::respite::Respite;
use crate::hunt::strategy::{Name, Strategy};
use crate::hunt::wire::{Notice, Outbox, Setup};
use crate::kernel::gates::Gates;
use crate::kernel::perf::Delivery;
use crate::kernel::rights;

use super::coverage;
use super::decision_log::DecisionLog;
use super::decisions::Decisions;
use super::figures::Figures;
use super::let_alone::OwnStops;
use super::locks::Locks;
use super::pairs::Pairs;
use super::program::Program;
use super::schedule::Schedule;
use super::state::State;
use super::substitute::Substitute;
use super::upkeep::Unstoppable;
use super::waiting::Waiting;
use super::{CLAIM_TIME, Engine, EngineError};

/// What an engine needs that lasts longer than its process, and is another one's when that has ended.
pub struct Lasting {
    /// The gates.
    pub gates: Gates,
    /// Whoever reads the modules, with what was read before.
    pub loader: Loader,
    /// What a trap costs here, ns.
    pub trap_cost_ns: u64,
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
        let period_ns = setup
            .sample_period_ns
            .unwrap_or_else(|| Budget::usual_period_ns(setup.max_overhead, trap_cost_ns));
        let budget = Budget::new(
            control,
            period_ns,
            setup.max_overhead,
            trap_cost_ns,
            setup.is_child,
        );
        let mut random = fastrand::Rng::with_seed(setup.seed);
        let period = Duration::from_nanos(period_ns);
        let substitutes = !gates.are_in_kernel();
        let mut arming = Arming::new(setup.pid, delivery, period, random.u64(..));
        if rights::are_lent() && !rights::are_for_named() {
            arming = arming.without_others();
        }
        if substitutes {
            arming = arming.without_gates();
            // To wait at a site is to stop whoever comes there: what that costs only a gate can bound.
            setup.strategy = Name::Clock;
        }
        let decision_log = DecisionLog::default();
        let engine = Self {
            program: Program::new(setup.pid),
            cpu_before_start_ns: cpu_before_ns,
            trap_cost_ns,
            arming,
            modules: Arc::default(),
            loader,
            budget,
            adoption: Adoption::new(setup.max_overhead),
            respite: Respite::new(setup.max_overhead),
            own_stops: OwnStops::default(),
            strategy: strategy_of(&setup, random.u64(..), &decision_log),
            waiting: Waiting::default(),
            locks: Locks::default(),
            learned: Learned::default(),
            decisions: Decisions::default(),
            decision_log,
            coverage_told: coverage::Told::default(),
            random,
            gates,
            outbox,
            state: State::Idle,
            generation,
            schedule: Schedule::default(),
            unstoppable: Unstoppable::default(),
            figures: Figures::default(),
            period_ns,
            substitute: substitutes.then(|| Substitute::new(setup.max_overhead)),
            pairs: Pairs::default(),
            ending: None,
            setup,
        };
        // Where there are gates, what may claim a thread is decided when the program is known.
        engine.clock_may_claim(substitutes);
        engine.allow_threads();
        engine
    }

    /// What is left for another process, when this one has ended: nobody is held, and no event open.
    #[must_use]
    pub fn into_lasting(mut self) -> Lasting {
        self.arming.close_events(self.arming.delivery());
        self.gates.reset();
        Lasting {
            gates: self.gates,
            loader: self.loader,
            trap_cost_ns: self.trap_cost_ns,
        }
    }

    /// Takes over a process that waits before its exec, and says so. It is armed at its exec
    /// stop, as after any later exec.
    ///
    /// # Errors
    /// Fails when the process cannot be held.
    pub fn launch(&mut self) -> Result<(), EngineError> {
        if !self.arming.seize(self.program.pid)? {
            return Err(EngineError::Gone(self.program.pid));
        }
        self.program.check_identity(self.setup.start_ticks)?;
        self.program.begin_activity(self.arming.tids().collect());
        self.outbox.send(&Notice::Seized);
        Ok(())
    }
}

fn strategy_of(setup: &Setup, seed: u64, log: &DecisionLog) -> Box<dyn Strategy> {
    match setup.strategy {
        Name::Clock if !setup.learns => Box::new(Clock::new(seed).without_learning()),
        Name::Clock => Box::new(Clock::new(seed)),
        Name::Planner => Box::new(Planned::new(planner_of(setup, seed, log), seed)),
    }
}

fn planner_of(setup: &Setup, seed: u64, log: &DecisionLog) -> Box<dyn Planner> {
    let planner = ByWorth::new(seed);
    if !setup.decision_log {
        return Box::new(planner);
    }
    let log = log.clone();
    Box::new(Logged::new(planner, seed, move |record| log.add(&record)))
}
