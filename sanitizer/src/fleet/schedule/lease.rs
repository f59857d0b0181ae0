//! A lease while it lasts.

use std::time::Duration;

use super::{
    LONGEST, QUIET, SHORTEST, WORKED,
    event::{BuildId, ProcessId, Reason},
};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) process: ProcessId,
    pub(super) build: BuildId,
    /// It is paid from the purse of the build, not of the process.
    pub(super) is_paid_by_build: bool,
    began: Duration,
    /// When something new came last, and what CPU time the process had used by then.
    news: Duration,
    cpu_at_news: Duration,
    /// What is set aside, and what of it is spent.
    most: Duration,
    spent: Duration,
    is_ending: bool,
}

impl Lease {
    pub(super) const fn new(
        process: ProcessId,
        build: BuildId,
        (now, cpu): (Duration, Duration),
        most: Duration,
        is_paid_by_build: bool,
    ) -> Self {
        Self {
            process,
            build,
            is_paid_by_build,
            began: now,
            news: now,
            cpu_at_news: cpu,
            most,
            spent: Duration::ZERO,
            is_ending: false,
        }
    }

    /// It has cost something.
    pub(super) fn charge(&mut self, cost: Duration) {
        self.spent += cost;
    }

    /// Something new has come of it, when the process had used so much CPU time.
    pub(super) const fn has_news(&mut self, now: Duration, cpu: Duration) {
        self.news = now;
        self.cpu_at_news = cpu;
    }

    /// What is set aside for it and not spent.
    pub(super) const fn rest(&self) -> Duration {
        self.most.saturating_sub(self.spent)
    }

    /// Why it ends by itself, if it does, where the process has used so much CPU time.
    pub(super) fn reason_to_end(&self, now: Duration, cpu: Duration) -> Option<Reason> {
        let age = now.saturating_sub(self.began);
        let quiet = now.saturating_sub(self.news);
        let has_worked = cpu.saturating_sub(self.cpu_at_news) >= WORKED;
        match () {
            () if self.rest().is_zero() => Some(Reason::Spent),
            () if age >= LONGEST => Some(Reason::Longest),
            () if quiet >= QUIET && has_worked => Some(Reason::Quiet),
            () => None,
        }
    }

    /// Whether somebody who does not live long may have its slot.
    pub(super) fn may_be_displaced(&self, now: Duration) -> bool {
        now.saturating_sub(self.began) >= SHORTEST && !self.is_ending
    }

    /// It is told to end; whether it was not before.
    pub(super) const fn is_to_end(&mut self) -> bool {
        !std::mem::replace(&mut self.is_ending, true)
    }
}
