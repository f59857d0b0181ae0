//! What is kept of a process.

use std::time::Duration;

use super::{LEAST, SHORTEST, event::BuildId};
use crate::fleet::purse::Purse;

/// How fast what was seen of activity is forgotten: a look counts as much as all before it.
const FRESH: f32 = 0.5;

/// See the module. A machine has thousands of them.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) purse: Purse,
    build: BuildId,
    /// Processors that it has kept busy.
    activity: f32,
    began: Duration,
    /// Its CPU time when it was looked at last, and when that was.
    cpu: Duration,
    looked: Duration,
    /// Since when its purse allows a lease, and it has none.
    waits_since: Option<Duration>,
    /// It is let alone until then.
    pub(super) rests: Duration,
    is_leased: bool,
    /// It has paid for a lease from its own purse.
    has_paid: bool,
}

impl Record {
    pub(super) const fn new(build: BuildId, purse: Purse, now: Duration, cpu: Duration) -> Self {
        Self {
            purse,
            build,
            activity: 0.0,
            began: now,
            cpu,
            looked: now,
            waits_since: None,
            rests: Duration::ZERO,
            is_leased: false,
            has_paid: false,
        }
    }

    pub(super) const fn build(&self) -> BuildId {
        self.build
    }

    pub(super) const fn began(&self) -> Duration {
        self.began
    }

    pub(super) const fn cpu(&self) -> Duration {
        self.cpu
    }

    pub(super) const fn activity(&self) -> f32 {
        self.activity
    }

    pub(super) const fn has_paid(&self) -> bool {
        self.has_paid
    }

    /// It has used so much CPU time since it was started.
    pub(super) fn has_used(&mut self, now: Duration, cpu: Duration) {
        let used = cpu.saturating_sub(self.cpu);
        let since = now.saturating_sub(self.looked);
        self.purse.earn(now, used);
        if !since.is_zero() {
            let activity = used.as_secs_f32() / since.as_secs_f32();
            self.activity += FRESH * (activity - self.activity);
            self.looked = now;
        }
        self.cpu = self.cpu.max(cpu);
    }

    /// What a lease of the shortest kind needs, if its purse pays for one; it waits from the first time on.
    pub(super) fn needs(&mut self, now: Duration, share: f64) -> Option<Duration> {
        if self.is_leased || self.is_resting(now) {
            return None;
        }
        let needs = SHORTEST
            .mul_f64(share * f64::from(self.activity))
            .max(LEAST);
        if self.purse.left(now) < needs {
            return None;
        }
        self.waits_since.get_or_insert(now);
        Some(needs)
    }

    /// Whether it is let alone at present.
    pub(super) fn is_resting(&self, now: Duration) -> bool {
        now < self.rests
    }

    /// How long it has waited.
    pub(super) fn waits(&self, now: Duration) -> Duration {
        let since = self.waits_since.unwrap_or(now);
        now.saturating_sub(since)
    }

    pub(super) fn is_leased(&mut self, by_build: bool) {
        self.is_leased = true;
        self.waits_since = None;
        self.has_paid |= !by_build;
    }

    pub(super) const fn lease_is_over(&mut self) {
        self.is_leased = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::schedule::ProcessId;

    /// Check that a process without a lease is as small as is promised.
    #[test]
    fn records_are_small() {
        const PROMISED: usize = 200;
        assert!(size_of::<(ProcessId, Record)>() <= PROMISED);
    }
}
