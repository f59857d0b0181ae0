//! Threads that stop on the program's own account: what that costs, and those that are let alone for it ([`crate::hunt::respite`]).

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::NO_PROCESS;

use crate::hunt::wire::Ending;
use crate::kernel::{process, ptrace};

use super::rig::release;
use super::{Engine, EngineError};

impl Engine {
    /// Lets a thread go on that has stopped on the program's own account, with a signal or with none (0). Where such stops cost more
    /// than the budget pays for, it is let alone from now on.
    pub(super) fn pass_on(&mut self, tid: u32, signal: i32) {
        if !(self.crew.respite.is_due()
            && self.rig.is_dispensable(tid)
            && self.let_alone(tid, signal))
        {
            release(tid, signal);
        }
        self.crew.charge_own_stop(&mut self.rig);
    }

    /// Lets a thread alone that has stopped, if that is possible. Its signal is delivered as it would be otherwise.
    fn let_alone(&mut self, tid: u32, signal: i32) -> bool {
        if self.crew.own_stops.end_of_process.is_none() {
            // When all are let alone, no tracee tells of the end.
            self.crew.own_stops.end_of_process = process::end_of(self.rig.program.pid).ok();
        }
        // While it stands: a watchpoint that is taken away the moment it traps may cost a thread that nobody holds a SIGTRAP.
        self.sampler.unwatch_lock_of(tid);
        if self.crew.own_stops.end_of_process.is_none() || ptrace::detach(tid, signal).is_err() {
            return false;
        }
        self.rig.arming.let_alone(tid);
        self.crew.respite.begin();
        self.crew.count_alone(&self.rig);
        if self.rig.arming.is_empty() && self.sampler.state.is_idle() {
            // Nobody could be claimed.
            self.sampler
                .waiting
                .stop_waiting(&mut self.rig, &mut self.adviser);
        }
        true
    }

    /// Looks whether a thread that nobody held has executed another program: all others are gone then, and the gates take nothing for the
    /// process's until that is known here. They tell of it, too, unless their buffer is full.
    pub(super) fn look_for_exec(&mut self) -> Result<(), EngineError> {
        if self.rig.gates.control().process.tgid.load(SeqCst) != NO_PROCESS {
            // There was none, or it is known by its stop.
            return Ok(());
        }
        let tid = self.rig.program.pid;
        // It may have been taken back as one of those that were let alone.
        if ptrace::seize(tid, tid).is_ok() || ptrace::has_news(tid).is_ok() {
            self.on_exec(tid)?;
            self.begin_watching(true);
        } else {
            self.end(Ending::TargetEnded);
        }
        Ok(())
    }

    /// What is readable when the process has ended, where no thread of it would tell.
    #[must_use]
    pub fn end_of_process(&self) -> Option<BorrowedFd<'_>> {
        let end = self.crew.own_stops.end_of_process.as_ref();
        end.filter(|_| self.rig.arming.is_empty())
            .map(|end| end.as_fd())
    }
}
