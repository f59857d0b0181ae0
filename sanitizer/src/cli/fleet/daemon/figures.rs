//! What the agent is told of the daemon, for whoever collects figures.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Daemon,
    lease::{Lease, Why},
};
use crate::{
    kernel::process::nanos,
    outbox::{DaemonFigures, DaemonNow},
};

/// How often it is told.
const PERIOD: Duration = Duration::from_secs(60);

/// What is counted of leases for it.
#[derive(Debug, Default)]
pub struct Counts {
    begun: u64,
    ended: BTreeMap<&'static str, u64>,
    /// Stalls of those that have ended.
    stalls: u64,
    /// When it was told last.
    told: Option<Duration>,
}

impl Counts {
    /// A lease has begun.
    pub const fn begin(&mut self) {
        self.begun += 1;
    }

    /// A lease has ended.
    pub fn end(&mut self, lease: &Lease) {
        *self
            .ended
            .entry(lease.why().map_or("unknown", Why::name))
            .or_default() += 1;
        self.stalls += lease.stalls;
    }
}

impl Daemon {
    /// Tells the agent, if there is one and that was not done for a while.
    pub(super) fn tell_figures(&mut self) {
        let now = self.now();
        // What is not known yet while it starts would be told as none.
        let is_started = self.sampler.usable() > 0 && self.roster.all().next().is_some();
        let is_due = match self.counts.told {
            Some(told) => told + PERIOD <= now,
            None => is_started || now >= PERIOD,
        };
        if self.args.agent.is_some() && is_due {
            self.counts.told = Some(now);
            let is_held = self.held().is_some();
            let does = DaemonNow {
                processes: self.roster.all().len() as u64,
                leases: self.held_by_leases().count() as u64,
                is_held,
            };
            self.reporter.figures(self.figures(Some(does)));
        }
    }

    /// All that was done, and what is done now.
    pub(super) fn figures(&self, now: Option<DaemonNow>) -> DaemonFigures {
        let going_on: u64 = self.leases.iter().map(|lease| lease.stalls).sum();
        let ended = self.counts.ended.iter();
        DaemonFigures {
            leases_begun: self.counts.begun,
            leases_ended: ended
                .map(|(why, times)| ((*why).to_owned(), *times))
                .collect(),
            stalls: self.counts.stalls + going_on,
            cost_ns: nanos(self.cost),
            overhead_ns: nanos(self.overhead),
            now,
        }
    }

    /// Leases that are no controls.
    fn held_by_leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.iter().filter(|lease| lease.link.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::{
        fleet::schedule::{ProcessId, Reason},
        outbox::ENDINGS,
    };

    /// Check that each end of a lease is counted by a word that figures have, with its stalls.
    #[test]
    fn each_end_has_its_word() {
        let reasons = [
            Reason::Longest,
            Reason::Spent,
            Reason::Quiet,
            Reason::Displaced,
            Reason::Taken,
            Reason::Pressure,
            Reason::Breakpoints,
            Reason::Paused,
            Reason::LeftAlone,
        ];
        let others = [
            Why::ProcessEnded,
            Why::Executes,
            Why::FatalSignal,
            Why::TracerDied,
            Why::Failed,
            Why::Ignored,
            Why::DaemonEnds,
        ];
        let all = reasons.map(Why::Scheduled).into_iter().chain(others);
        let mut counts = Counts::default();
        for why in all.map(Some).chain([None]) {
            let bounds = (Duration::from_secs(1), 0.05);
            let mut lease =
                Lease::new(ProcessId(1), Rc::default(), Some(1), Duration::ZERO, bounds);
            lease.stalls = 3;
            if let Some(why) = why {
                lease.ends(why);
            }
            counts.begin();
            counts.end(&lease);
        }
        assert_eq!(counts.begun, ENDINGS.len() as u64);
        assert_eq!(counts.stalls, 3 * counts.begun);
        let words: Vec<_> = counts.ended.keys().copied().collect();
        assert_eq!(words, ENDINGS);
        assert!(counts.ended.values().all(|times| *times == 1));
    }
}
