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
//!
//! The engine is made of parts, each of which knows only those before it:
//!
//! | part | what it is |
//! | --- | --- |
//! | `rig::Rig` | what all work with: the program, the events on its threads, the gates, what is charged, counted and told |
//! | `adviser::Adviser` | the strategy, what is learned beside it, and what is told of its decisions |
//! | `profiler::Profiler` | the kernel's probes, at which it is noted who comes, beside all else |
//! | `waiting::Waiting` | what is waited for, or only looked at, while no sample is in hand |
//! | `sampler::Sampler` | the sample in hand |
//! | `crew::Crew` | the program's threads: who is taken in, who is let alone, and what they cost |
//! | `substitute::Substitute` | what is looked after where there are no gates |
//! | `upkeep::Upkeep` | what is looked after in any case, and when |
//!
//! `Engine` itself only says whose turn it is: what stops, what gates tell, what is due.

mod adviser;
mod attach;
mod begin;
mod crew;
mod end;
mod error;
mod events;
mod let_alone;
mod profiler;
mod rig;
mod sampler;
mod scans;
mod schedule;
mod stops;
mod substitute;
mod upkeep;
mod waiting;

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::phase;
use nix::unistd::Pid;

use crate::hunt::memory::Remembered;
use crate::hunt::strategy::Outcome;
use crate::hunt::wire::{Ending, Notice, Outbox, Refuted};
use crate::kernel::gates::Gates;
use crate::kernel::process::{monotonic_ns, nanos};
use crate::kernel::ptrace;

use adviser::Adviser;
use crew::Crew;
use profiler::Profiler;
use rig::{CLAIM_TIME, Rig};
use sampler::{Off, Sampler};
use schedule::HOUSEKEEPING;
use substitute::Substitute;
use upkeep::Upkeep;

pub use begin::Lasting;
pub use error::EngineError;

/// See the module.
pub struct Engine {
    rig: Rig,
    adviser: Adviser,
    profiler: Profiler,
    sampler: Sampler,
    crew: Crew,
    /// Where there are no gates.
    substitute: Option<Substitute>,
    upkeep: Upkeep,
    ending: Option<Ending>,
}

impl Engine {
    /// Whether the process is to be launched, not attached to.
    #[must_use]
    pub const fn is_launch(&self) -> bool {
        self.rig.setup.launch
    }

    /// Tells the watchdog that the next look at the tracees comes after this time.
    pub fn announce_heartbeat(&self, after: Duration) {
        let at = monotonic_ns().saturating_add(after.as_nanos() as u64);
        self.rig
            .gates
            .control()
            .watchdog
            .heartbeat_ns
            .store(at, SeqCst);
    }

    /// CPU time that those have used who watch, before this process and for it, ns.
    #[must_use]
    pub fn worked_ns(&self) -> u64 {
        self.rig.budget.clock().pair_ns()
    }

    /// Charges what others have worked for this target.
    pub fn charge(&mut self, ns: u64) {
        self.rig
            .budget
            .charge_explaining(self.rig.gates.control(), ns);
    }

    /// Says whether other processes are watched as well, and the part of the processors that is used by whatever then.
    pub fn has_company(&mut self, used: Option<f64>) {
        self.rig.budget.has_company(used);
    }

    /// Tells every race with its stacks again, once: one of them was dropped.
    pub fn tell_again(&mut self) {
        self.sampler.pairs.forget_told();
    }

    /// What was told of two places is no race.
    pub fn refute(&mut self, refuted: Refuted) {
        self.sampler.pairs.refute(refuted);
    }

    /// Ends it where all that watching may cost is spent.
    pub fn end_when_spent(&mut self) {
        let spent = self.rig.gates.control().budget.spent_ns.load(SeqCst);
        let allowance = self.rig.setup.allowance;
        if allowance.is_some_and(|allowance| spent >= allowance.most_ns) {
            self.end(Ending::Spent);
        }
    }

    /// This is remembered of a module from when it was watched before.
    pub fn remember(&mut self, remembered: Remembered) {
        self.adviser.strategy.remember(remembered);
        self.rig.outbox.send(&Notice::Remembers);
    }

    /// How the engine has ended, once it has.
    #[must_use]
    pub const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The socket to the daemon.
    pub const fn outbox(&mut self) -> &mut Outbox {
        &mut self.rig.outbox
    }

    /// Readable when a thread that works for the engine has news, until it is heard.
    #[must_use]
    pub fn news(&self) -> BorrowedFd<'_> {
        self.rig.loader.news()
    }

    /// Takes note of that: modules may have been scanned, or the events be ready for what comes next.
    pub fn hear(&mut self) {
        self.rig.loader.hear();
        self.sampler.waiting.hear();
    }

    /// The gates.
    #[must_use]
    pub const fn gates(&self) -> &Gates {
        &self.rig.gates
    }

    /// How long the engine may sleep.
    #[must_use]
    pub fn sleep(&self) -> Duration {
        let Some(round) = self.upkeep.schedule.due() else {
            // Before the first scan of the modules nothing is due.
            return self.sampler.state.due().map_or(HOUSEKEEPING, left);
        };
        let deadline = match (self.sampler.state.due(), &self.substitute) {
            (Some(deadline), _) => deadline,
            (None, Some(substitute)) => substitute.due().min(round),
            (None, None) if self.sampler.state.is_idle() && !self.rig.arming.is_empty() => {
                self.sampler.waiting.due().min(round)
            }
            (None, None) => round,
        };
        left(deadline)
    }

    /// Handles all stops and events that have come, then what is due. `has_news`: a tracee may have stopped or ended, as SIGCHLD tells; once a round that is
    /// looked after in any case.
    ///
    /// # Errors
    /// Fails when it cannot go on; the caller then exits, which releases everything.
    pub fn turn(&mut self, has_news: bool) -> Result<(), EngineError> {
        for tid in ptrace::reaped() {
            self.bury(tid);
        }
        if has_news || self.upkeep.schedule.is_round_due(monotonic_ns()) {
            self.on_stops()?;
        }
        if self.ending.is_some() {
            return Ok(());
        }
        self.on_events()?;
        self.on_scan()?;
        self.on_time()?;
        let worked = self.rig.budget.settle(self.rig.gates.control());
        self.crew.has_worked(worked);
        let holds_nobody = self.sampler.state.holds_nobody();
        if let Some(substitute) = &mut self.substitute
            && self.upkeep.schedule.has_begun()
        {
            substitute.on_time(&mut self.rig, &mut self.crew, holds_nobody)?;
        }
        if self.sampler.state.holds_nobody() {
            let round = self.upkeep.schedule.round();
            self.adviser.tell_some_decisions(&mut self.rig, round);
        }
        Ok(())
    }

    fn on_time(&mut self) -> Result<(), EngineError> {
        let now = monotonic_ns();
        let Self { rig, adviser, .. } = self;
        if !self.sampler.on_time(rig, adviser, now)
            && self.substitute.is_none()
            && !self.rig.arming.is_empty()
        {
            self.tend_wait(now)?;
        }
        if self.upkeep.schedule.begins_round(now) {
            self.void_lost_claim(now);
            self.housekeeping()?;
        }
        Ok(())
    }

    /// Declares a claim void whose stop was lost: the thread blocks the signal by now, or has thrown it away. The gates do so as well, but only where a
    /// thread comes to them that can be stopped; when all others are let alone, none does, and none is taken back as long as somebody is claimed.
    fn void_lost_claim(&mut self, now: u64) {
        let control = self.rig.gates.control();
        if self.sampler.state.is_idle() && self.rig.gates.phase().is(phase::CLAIMED) {
            let since = control.claim.time_ns.load(SeqCst);
            if now.saturating_sub(since) > nanos(CLAIM_TIME) {
                self.sampler
                    .void_claim(&self.rig, control.claim.owner.load(SeqCst) as u32);
            }
        }
    }

    /// Ends a wait that has lasted long enough, and begins the next one, or looks after the program where that is due.
    fn tend_wait(&mut self, now: u64) -> Result<(), EngineError> {
        if !self.sampler.state.is_idle() || now < self.sampler.waiting.due() {
            return Ok(());
        }
        // From here on no gate claims a thread, and none waits for what takes its time.
        self.rig.nobody_may_claim();
        self.sampler
            .waiting
            .end_probe(&mut self.rig, &mut self.adviser);
        self.sampler
            .waiting
            .end_wait(&mut self.rig, &mut self.adviser, Outcome::NotReached);
        self.sampler
            .waiting
            .end_watching(&mut self.rig, &mut self.adviser);
        self.void_lost_claim(now);
        if !self.rig.gates.phase().is(phase::IDLE) || !self.upkeep.schedule.has_begun() {
            self.sampler.waiting.rest();
            return Ok(());
        }
        if self.sampler.waiting.delays_scan {
            return self.look_after_program();
        }
        let Self {
            rig,
            adviser,
            profiler,
            crew,
            sampler,
            ..
        } = self;
        profiler.tend(rig, adviser);
        let waiting = &mut sampler.waiting;
        if !waiting.goes_on(rig, adviser, now) {
            waiting.tell_news(rig, adviser);
            // What the tracer has just done is to be paid first.
            crew.settle(rig);
            waiting.for_preempted = Off::look(rig, adviser);
            adviser
                .strategy
                .sees_preempted(waiting.for_preempted.is_some());
            waiting.begin(rig, adviser, profiler, now);
        }
        if waiting.takes_preempted() {
            sampler.take_preempted(rig, adviser);
            return Ok(());
        }
        if waiting.is_at_site() {
            // Whoever was created before may be gone when somebody is waited for.
            crew.allow_threads(rig);
        }
        Ok(())
    }
}

/// How long it may be slept until a time, CLOCK_MONOTONIC, ns.
fn left(until: u64) -> Duration {
    Duration::from_nanos(until.saturating_sub(monotonic_ns())).min(HOUSEKEEPING)
}

const fn as_pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed())
}
