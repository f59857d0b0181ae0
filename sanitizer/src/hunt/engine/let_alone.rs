//! Threads that stop on the program's own account: what that costs, and those that are let alone for it ([`crate::hunt::respite`]).

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::{NO_PROCESS, phase};

use crate::hunt::wire::{Ending, Notice};
use crate::kernel::process::{self, monotonic_ns};
use crate::kernel::ptrace;
use crate::tracee;

use super::{Engine, EngineError, State, as_pid, release};

/// Since when threads may stand that have stopped on the program's own account, and what is told when the process ends.
#[derive(Debug, Default)]
pub(super) struct OwnStops {
    since_ns: u64,
    end_of_process: Option<OwnedFd>,
}

impl Engine {
    /// Looks for stops from now on: no thread has stood for longer, as far as we can tell. What passed until we were woken is a part of
    /// what the tracer's work is charged for.
    pub(super) fn begin_own_stops(&mut self) {
        self.own_stops.since_ns = monotonic_ns();
    }

    /// Charges a stop that a thread has made on the program's own account, and from which it goes on now.
    pub(super) fn charge_own_stop(&mut self) {
        let now = monotonic_ns();
        let stood = now.saturating_sub(self.own_stops.since_ns);
        self.own_stops.since_ns = now;
        self.respite.stopped(stood);
        self.budget.charge_own_stop(self.gates.control(), stood);
    }

    /// Lets a thread go on that has stopped on the program's own account, with a signal or with none (0). Where such stops cost more
    /// than the budget pays for, it is let alone from now on.
    pub(super) fn pass_on(&mut self, tid: u32, signal: i32) {
        if !(self.respite.is_due() && self.is_dispensable(tid) && self.let_alone(tid, signal)) {
            release(tid, signal);
        }
        self.charge_own_stop();
    }

    /// Whether a thread can be let alone: nothing is in hand for which it is needed. Without gates nobody would tell that it executes
    /// another program.
    fn is_dispensable(&self, tid: u32) -> bool {
        let control = self.gates.control();
        let is_idle = matches!(
            self.gates.phase().read().phase(),
            phase::IDLE | phase::CLOSED
        );
        self.substitute.is_none()
            && self.arming.holds(tid)
            && (is_idle || control.claim.owner.load(SeqCst) != u64::from(tid))
    }

    /// Lets a thread alone that has stopped, if that is possible. Its signal is delivered as it would be otherwise.
    fn let_alone(&mut self, tid: u32, signal: i32) -> bool {
        if self.own_stops.end_of_process.is_none() {
            // When all are let alone, no tracee tells of the end.
            self.own_stops.end_of_process = process::end_of(self.program.pid).ok();
        }
        if self.own_stops.end_of_process.is_none() || ptrace::detach(tid, signal).is_err() {
            return false;
        }
        self.arming.let_alone(tid);
        self.respite.begin();
        self.count_alone();
        if self.arming.is_empty() && matches!(self.state, State::Idle) {
            // Nobody could be claimed.
            self.stop_waiting();
        }
        true
    }

    /// Takes back those that were let alone longest, as many as there is enough for.
    pub(super) fn take_back(&mut self) -> Result<(), EngineError> {
        if self.arming.are_let_alone().len() == 0 {
            return Ok(());
        }
        let alive = tracee::threads::list(as_pid(self.program.pid)).unwrap_or_default();
        self.arming
            .keep_let_alone(|tid| alive.contains(&as_pid(tid)));
        let mut tids = self.arming.are_let_alone().collect::<Vec<_>>().into_iter();
        while self.respite.is_over()
            && let Some(tid) = tids.next()
        {
            match self.arming.take_back(tid) {
                Ok(true) if !self.arming.inherits() => self.open_events(tid)?,
                Ok(_) => {}
                // Whoever traces it now may end.
                Err(error) => drop(self.outbox.send(&Notice::Debug(error.to_string()))),
            }
            self.respite.end();
        }
        self.count_alone();
        Ok(())
    }

    /// Looks whether a thread that nobody held has executed another program: all others are gone then, and the gates take nothing for the
    /// process's until that is known here. They tell of it, too, unless their buffer is full.
    pub(super) fn look_for_exec(&mut self) -> Result<(), EngineError> {
        if self.gates.control().process.tgid.load(SeqCst) != NO_PROCESS {
            // There was none, or it is known by its stop.
            return Ok(());
        }
        let tid = self.program.pid;
        // It may have been taken back as one of those that were let alone.
        if ptrace::seize(tid, tid).is_ok() || ptrace::has_news(tid).is_ok() {
            self.on_exec(tid)?;
            self.begin_watching(true);
        } else {
            self.end(Ending::TargetEnded);
        }
        Ok(())
    }

    /// Takes note of how many are let alone.
    pub(super) fn count_alone(&mut self) {
        let alone = self.arming.are_let_alone().len() as u64;
        self.respite.are_alone(alone, monotonic_ns());
    }

    /// What is readable when the process has ended, where no thread of it would tell.
    #[must_use]
    pub fn end_of_process(&self) -> Option<BorrowedFd<'_>> {
        let end = self.own_stops.end_of_process.as_ref();
        end.filter(|_| self.arming.is_empty())
            .map(|end| end.as_fd())
    }
}
