//! The engine: owns stops, stalls, watchpoints and deadlines of one process.
//!
//! One sample is in hand at a time. Its life is the phase word in the gates' control block:
//!
//! ```text
//! IDLE -gate-> CLAIMED -stop-> REACHED -+-> STALL -deadline or hit-> CLOSED -+-> IDLE
//!                 ^                     |                                    |
//!                 |                     +-> SEEK -gate-> REACHED             +-> CONFIRM -gate-> CONFIRMED
//! ```
//!
//! Only the gate moves IDLE, CLAIMED, SEEK and CONFIRM on; only the engine moves the others. A
//! stall is CLOSED before its thread can move (invariant I7).

mod activity;
mod arrival;
mod begin;
mod close;
mod confirm;
mod coverage;
mod decision_log;
mod decisions;
mod end;
mod error;
mod events;
mod figures;
mod first_thread;
mod hold;
mod let_alone;
mod locks;
mod looks;
mod pairs;
mod program;
mod release;
mod sample;
mod scans;
mod schedule;
mod state;
mod stops;
mod substitute;
mod target;
mod threads;
mod upkeep;
mod waiting;
mod wanted;
mod writers;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use nix::unistd::Pid;

use crate::hunt::adoption::Adoption;
use crate::hunt::arming::Arming;
use crate::hunt::budget::Budget;
use crate::hunt::learned::Learned;
use crate::hunt::loader::Loader;
use crate::hunt::modules::ModuleSet;
use crate::hunt::respite::Respite;
use crate::hunt::strategy::Strategy;
use crate::hunt::wire::Ending;
use crate::hunt::wire::Outbox;
use crate::hunt::wire::Refuted;
use crate::hunt::wire::Setup;
use crate::kernel::gates::Gates;
use crate::kernel::process::monotonic_ns;

pub use begin::Lasting;
pub use error::EngineError;

use decision_log::DecisionLog;
use decisions::Decisions;
use figures::Figures;
use let_alone::OwnStops;
use locks::Locks;
use pairs::Pairs;
use program::Program;
use release::release;
use schedule::{HOUSEKEEPING, Schedule};
use state::{Confirm, Purpose, Stalled, State};
use substitute::Substitute;
use upkeep::Unstoppable;
use waiting::Waiting;

/// A thread that does not come to the site it was sent to within this time is let alone.
const SEEK_TIME: Duration = Duration::from_millis(2);
/// A stalled thread that has not made its access this long after its release is given up.
const CONFIRM_TIME: Duration = Duration::from_millis(50);
/// A stop takes less as a rule, from the gate's decision until the tracer has taken it.
const LATE_STOP: Duration = Duration::from_micros(500);
/// A claim whose stop has not come by then is void.
const CLAIM_TIME: Duration = Duration::from_millis(100);
/// A gate that is writing a record needs microseconds; after this its record is given up.
const RECORD_TIME: Duration = Duration::from_millis(1);
/// Stack bytes kept of a thread that stands still.
const STANDING_STACK: usize = 256 * 1024;

/// See the module.
pub struct Engine {
    setup: Setup,
    /// CPU time of this process and its watchdog that does not count as that of this start, ns.
    cpu_before_start_ns: u64,
    program: Program,
    gates: Gates,
    trap_cost_ns: u64,
    arming: Arming,
    modules: Arc<ModuleSet>,
    loader: Loader,
    budget: Budget,
    adoption: Adoption,
    respite: Respite,
    own_stops: OwnStops,
    strategy: Box<dyn Strategy>,
    waiting: Waiting,
    locks: Locks,
    learned: Learned,
    decisions: Decisions,
    decision_log: DecisionLog,
    coverage_told: coverage::Told,
    random: fastrand::Rng,
    outbox: Outbox,
    state: State,
    /// The generation of the sample in hand.
    generation: u64,
    schedule: Schedule,
    /// CPU time between clock samples of a thread, ns.
    period_ns: u64,
    unstoppable: Unstoppable,
    figures: Figures,
    /// Where there are no gates.
    substitute: Option<Substitute>,
    pairs: Pairs,
    ending: Option<Ending>,
}

impl Engine {
    /// Whether the process is to be launched, not attached to.
    #[must_use]
    pub const fn is_launch(&self) -> bool {
        self.setup.launch
    }

    /// Tells the watchdog that the next look at the tracees comes after this time.
    pub fn announce_heartbeat(&self, after: Duration) {
        let at = monotonic_ns().saturating_add(after.as_nanos() as u64);
        self.gates.control().watchdog.heartbeat_ns.store(at, SeqCst);
    }

    /// Charges what others have worked for this target.
    pub fn charge(&mut self, ns: u64) {
        self.budget.charge_explaining(self.gates.control(), ns);
    }

    /// Says whether other processes are watched as well.
    pub fn has_company(&mut self, has: bool) {
        self.budget.has_company(has);
    }

    /// Tells every race with its stacks again, once: one of them was dropped.
    pub fn tell_again(&mut self) {
        self.pairs.forget_told();
    }

    /// What was told of two places is no race.
    pub fn refute(&mut self, refuted: Refuted) {
        self.pairs.refute(refuted);
    }

    /// How the engine has ended, once it has.
    #[must_use]
    pub const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The socket to the daemon.
    pub const fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// The loader.
    #[must_use]
    pub const fn loader(&self) -> &Loader {
        &self.loader
    }

    /// The gates.
    #[must_use]
    pub const fn gates(&self) -> &Gates {
        &self.gates
    }

    /// How long the engine may sleep.
    #[must_use]
    pub fn sleep(&self) -> Duration {
        let deadline = match (&self.state, self.schedule.due()) {
            // Before the first scan of the modules nothing is due.
            (State::Idle | State::Scanning(_), None) => return HOUSEKEEPING,
            (State::Idle | State::Scanning(_), Some(round))
                if let Some(substitute) = &self.substitute =>
            {
                substitute.due().min(round)
            }
            (State::Idle, Some(round)) if self.arming.is_empty() => round,
            (State::Idle, Some(round)) => round.min(self.waiting.due()),
            (State::Scanning(_), Some(round)) => round,
            (State::Seek { deadline, .. }, _) => *deadline,
            (State::Stalled(stalled), _) => stalled.look_at_locks.min(stalled.deadline),
            (State::Confirm(confirm), _) => confirm.deadline,
        };
        let due = Duration::from_nanos(deadline.saturating_sub(monotonic_ns()));
        due.min(HOUSEKEEPING)
    }

    /// Handles all stops and events that have come, then what is due.
    ///
    /// # Errors
    /// Fails when it cannot go on; the caller then exits, which releases everything.
    pub fn turn(&mut self) -> Result<(), EngineError> {
        self.on_stops()?;
        if self.ending.is_some() {
            return Ok(());
        }
        self.on_events()?;
        self.on_scan()?;
        self.on_time()?;
        let worked = self.budget.settle(self.gates.control());
        self.has_worked(worked);
        self.substitute_on_time()?;
        self.tell_some_decisions();
        Ok(())
    }

    fn on_time(&mut self) -> Result<(), EngineError> {
        let now = monotonic_ns();
        match &self.state {
            State::Seek {
                tid,
                site,
                deadline,
                ..
            } if now >= *deadline => {
                let (tid, site) = (*tid, *site);
                self.give_up_seek(tid, site);
            }
            State::Stalled(stalled) if now >= stalled.deadline => self.end_stall(None),
            State::Stalled(stalled) if now >= stalled.look_at_locks => self.look_at_locks(),
            State::Confirm(confirm) if now >= confirm.deadline => self.end_confirm(false),
            State::Idle if self.substitute.is_none() && !self.arming.is_empty() => {
                self.tend_wait(now)?;
            }
            _ => {}
        }
        if self.schedule.begins_round(now) {
            self.housekeeping()?;
        }
        Ok(())
    }
}

const fn as_pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed())
}
