//! A lease while it lasts.

use std::time::Duration;

use super::{
    LONGEST, QUIET, SHORTEST,
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
    /// When something new came last.
    news: Duration,
    /// What is set aside, and what of it is spent.
    most: Duration,
    spent: Duration,
    is_ending: bool,
}

impl Lease {
    pub(super) const fn new(
        process: ProcessId,
        build: BuildId,
        now: Duration,
        most: Duration,
        is_paid_by_build: bool,
    ) -> Self {
        Self {
            process,
            build,
            is_paid_by_build,
            began: now,
            news: now,
            most,
            spent: Duration::ZERO,
            is_ending: false,
        }
    }

    /// It has cost something.
    pub(super) fn charge(&mut self, now: Duration, cost: Duration, is_new: bool) {
        self.spent += cost;
        if is_new {
            self.news = now;
        }
    }

    /// What is set aside for it and not spent.
    pub(super) const fn rest(&self) -> Duration {
        self.most.saturating_sub(self.spent)
    }

    /// Why it ends by itself, if it does.
    pub(super) fn reason_to_end(&self, now: Duration) -> Option<Reason> {
        let age = now.saturating_sub(self.began);
        let quiet = now.saturating_sub(self.news);
        match () {
            () if self.rest().is_zero() => Some(Reason::Spent),
            () if age >= LONGEST => Some(Reason::Longest),
            () if quiet >= QUIET => Some(Reason::Quiet),
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
