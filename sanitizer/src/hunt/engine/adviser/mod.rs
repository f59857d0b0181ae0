//! What is decided by, and what is learned of the program: the strategy, and what is known beside it.

mod barren;
mod coverage;
mod decision_log;
mod decisions;
mod gains;
mod held;
mod locks;
mod target;

use std::time::Duration;

use gwp_race_abi::own;

use crate::addr::RuntimeAddr;
use crate::hunt::clock::Clock;
use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::Rig;
use crate::hunt::learned::Learned;
use crate::hunt::plan::Planner;
use crate::hunt::plan::choose::ByWorth;
use crate::hunt::plan::log::Logged;
use crate::hunt::planned::Planned;
use crate::hunt::routine_call::RoutineCall;
use crate::hunt::strategy::{Name, Proposal, Sample, Strategy};
use crate::hunt::wire::Setup;
use crate::insn::Regs;
use crate::symbols::StackSnapshot;
use crate::tracee::memory;

use barren::Barren;
use decision_log::DecisionLog;
use decisions::Decisions;
use locks::Locks;

pub use decisions::Way;
pub use held::SeenLocks;

/// See the module.
pub struct Adviser {
    pub strategy: Box<dyn Strategy>,
    pub learned: Learned,
    /// Who is spared for the locks that they hold.
    pub locks: Locks,
    pub decisions: Decisions,
    pub decision_log: DecisionLog,
    pub coverage_told: coverage::Told,
    /// Where threads are that are off their processors and certain to access nothing that others could.
    barren: Barren,
    pub random: fastrand::Rng,
}

impl Adviser {
    /// One that knows nothing. `random`: of which it takes what it draws.
    pub fn new(setup: &Setup, mut random: fastrand::Rng) -> Self {
        let decision_log = DecisionLog::default();
        Self {
            strategy: strategy_of(setup, random.u64(..), &decision_log),
            learned: Learned::default(),
            locks: Locks::default(),
            decisions: Decisions::default(),
            decision_log,
            coverage_told: coverage::Told::default(),
            barren: Barren::default(),
            random,
        }
    }

    /// Programs change what they do, and memory is used for something else.
    pub fn forget_some(&mut self) {
        self.strategy.decay();
        self.learned.decay();
    }

    /// Other code may stand at the same addresses now, or be known better.
    pub fn code_has_changed(&mut self) {
        self.barren.forget();
    }

    /// Lets the strategy look at values, while nobody can be claimed: that takes its time. Nothing is fetched from anywhere
    /// for it.
    pub fn look_at_values(&mut self, rig: &Rig) {
        let pid = as_pid(rig.program.pid);
        if let Some(resident) = rig.program.resident() {
            let read = |address, bytes: &mut [u8]| {
                let address = RuntimeAddr(address);
                resident.has(address) && matches!(memory::read_exact(pid, address, bytes), Ok(true))
            };
            self.strategy.look_at_values(&read);
        }
    }

    /// Asks the strategy what to do with a sampled thread.
    pub fn propose<'a>(
        &mut self,
        rig: &Rig,
        regs: &Regs,
        call: Option<&RoutineCall>,
        waited: Option<Duration>,
        stack: &dyn Fn() -> &'a StackSnapshot,
    ) -> Proposal {
        let words = || {
            let words = stack().bytes.chunks_exact(8);
            words
                .map(|word| word.try_into().map_or(0, u64::from_le_bytes))
                .collect()
        };
        let sample = Sample {
            stack: &words,
            waited,
            regs,
            routine_returns_to: call.map(|call| call.return_address),
            own_frame: &|_| own::FRAME,
            rbp_is_frame: regs.rbp >= regs.rsp && regs.rbp < rig.stack_end(regs),
        };
        self.strategy.propose(&sample, &*rig.modules)
    }

    /// Tells the strategy that addresses can be watched before a thread comes, as long as that is so.
    pub fn tell_of_ahead(&mut self, rig: &mut Rig) {
        if rig.arming.watchpoints().are_by_cpu() && rig.has_gates() {
            self.strategy.can_watch_ahead();
        }
    }
}

fn strategy_of(setup: &Setup, seed: u64, log: &DecisionLog) -> Box<dyn Strategy> {
    match setup.strategy {
        Name::Clock if !setup.learns => Box::new(Clock::new(seed).without_learning()),
        Name::Clock => Box::new(Clock::new(seed)),
        Name::Planner => {
            let planned = Planned::new(planner_of(setup, seed, log), seed);
            Box::new(if setup.memory {
                planned.with_memory()
            } else {
                planned
            })
        }
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
