//! Which events there are: those of threads or of processors, inherited or not.

use std::time::Duration;

use crate::hunt::clocks::Clocks;
use crate::hunt::watchpoints::{OF_PROCESSOR, Watchpoints};
use crate::kernel::gates::Gates;
use crate::kernel::process::Employer;
use crate::kernel::{KernelError, breakpoints, cpus};

use super::{Arming, PATIENCE, Thread};

impl Arming {
    /// Whether new threads have the events of their creators.
    #[must_use]
    pub const fn inherits(&self) -> bool {
        self.options.inherit
    }

    /// Closes the events of threads, and of those that have inherited them: from now on each has none until it is given its own. Where threads
    /// come and go, to inherit events is dear: a fifth of what their creation and end cost.
    pub fn end_inheritance(&mut self) {
        self.options.inherit = false;
        if !self.clocks.are_by_cpu() {
            self.clocks = Clocks::default();
        }
        if !self.watchpoints.are_by_cpu() {
            self.watchpoints = Watchpoints::default();
        }
        self.ancestors.clear();
    }

    /// After an exec only the thread that called it is left, under the process's id.
    pub fn reset_to(&mut self, tid: u32) {
        self.close_events(self.options.delivery);
        self.threads.clear();
        self.unwatchable.clear();
        self.let_alone.clear();
        self.pid = tid;
        self.wants_cpus = false;
        self.options.inherit = self.may_inherit;
        self.threads.insert(tid, Thread::default());
    }

    /// Whether the events suit a process of so many threads.
    #[must_use]
    pub fn suits(&self, threads: usize) -> bool {
        // One thread alone races with nobody, and may leave the breakpoints to others.
        (self.watchpoints.are_by_cpu() || threads <= 1) && self.clocks.are_by_cpu()
            || self.cpus == 0
            || !self.wants_cpus && !Watchpoints::want_cpus(threads, self.cpus)
    }

    /// Whether it is to be found out what events on threads cost, which are not to stay there otherwise.
    #[must_use]
    pub fn may_be_dear(&self) -> bool {
        self.cpus > 0 && !self.clocks.are_by_cpu() && self.suits(self.threads.len())
    }

    /// Wants the events on processors, however few threads there are.
    pub const fn want_cpus(&mut self) {
        self.wants_cpus = true;
    }

    /// Whether they do not, and others may be had.
    #[must_use]
    pub fn wants_others(&self, threads: usize) -> bool {
        self.patience == 0 && !self.suits(threads)
    }

    /// Chooses the events for a process of so many threads; no stall may be under way. `employer` is told when those of processors may be ready for what they are
    /// prepared for.
    ///
    /// # Errors
    /// Says why they stay what they were although others would suit.
    pub fn choose_events(
        &mut self,
        threads: usize,
        gates: &Gates,
        employer: &Employer,
    ) -> Result<(), KernelError> {
        let online = cpus::online();
        self.clocks.complete(gates, &online)?;
        self.watchpoints.complete(gates, &online)?;
        if self.suits(threads) {
            return Ok(());
        }
        if self.patience > 0 {
            self.patience -= 1;
            return Ok(());
        }
        // Whoever has them may end.
        self.patience = PATIENCE;
        let watched = self.watch_processors(threads, gates, &online, employer);
        if !self.clocks.are_by_cpu() && !self.watchpoints.are_by_cpu() {
            self.lent = None;
        }
        watched
    }

    fn watch_processors(
        &mut self,
        threads: usize,
        gates: &Gates,
        online: &[u32],
        employer: &Employer,
    ) -> Result<(), KernelError> {
        if self.lent.is_none() {
            self.lent = self.processors.lend();
        }
        if self.lent.is_none() {
            let cause = "another process is watched by processor at present";
            return Err(KernelError::other("lending", "the processors", cause));
        }
        if !self.clocks.are_by_cpu() {
            self.clocks = Clocks::on_cpus(self.period, gates, online)?;
        }
        if !self.watchpoints.are_by_cpu() && threads > 1 {
            let opened = self.open_on_processors(gates, online, employer);
            if opened.is_err() {
                // Those of its threads are there still. It may have these: nobody else has got the processors' meanwhile.
                self.processors.use_threads(&mut self.breakpoints);
            }
            opened?;
        }
        self.patience = 0;
        Ok(())
    }

    /// Opens the watchpoints of the processors in the place of those of threads.
    fn open_on_processors(
        &mut self,
        gates: &Gates,
        online: &[u32],
        employer: &Employer,
    ) -> Result<(), KernelError> {
        if !self.processors.use_processors(&mut self.breakpoints) {
            let cause = "other processes are watched by thread at present";
            return Err(KernelError::other(
                "lending",
                "the processors' breakpoints",
                cause,
            ));
        }
        // None of them is armed, and one that is wanted later is opened then.
        for thread in self.threads.values_mut() {
            thread.breakpoint = None;
        }
        if let (true, Some(&cpu)) = (self.processors.leave_some(), online.first()) {
            breakpoints::check_room(cpu, OF_PROCESSOR + 1)?;
        }
        self.watchpoints = Watchpoints::on_cpus(gates, online, employer)?;
        Ok(())
    }

    /// How many processors' clocks tick; none where those of threads do.
    #[must_use]
    pub const fn ticking_cpus(&self) -> usize {
        if self.clocks.are_by_cpu() {
            self.cpus
        } else {
            0
        }
    }

    /// Lets the processors' clocks tick so often.
    pub fn set_period_of_cpus(&mut self, period: Duration) {
        self.clocks.set_period(period);
    }
}
