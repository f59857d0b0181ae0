//! A planner whose every word is told.

use std::time::Duration;

use super::Record;
use crate::hunt::plan::{
    Planner,
    action::{Action, Candidate, Then},
    counts::Counts,
    event::{Event, SiteId, What},
    prior,
    purse::Purse,
};

/// See the module. `S` gets one record after the other.
#[derive(Debug)]
pub struct Logged<P, S> {
    planner: P,
    sink: S,
}

impl<P: Planner, S: FnMut(Record)> Logged<P, S> {
    /// Sites that are told in one record, at most: a program has 100,000.
    pub const SITES: usize = 1024;

    /// Tells of a planner from the beginning on: it has heard nothing yet. `seed`: what its choices by chance follow from.
    pub fn new(planner: P, seed: u64, mut sink: S) -> Self {
        sink(Record::Begun {
            seed,
            priors: prior::fingerprint(),
        });
        Self { planner, sink }
    }

    fn tell(&mut self, now: Duration, event: &Event) {
        self.planner.observe(now, event);
        (self.sink)(Record::Observed(now, event.clone()));
    }
}

impl<P: Planner, S: FnMut(Record)> Planner for Logged<P, S> {
    fn observe(&mut self, now: Duration, event: &Event) {
        match &event.what {
            // One after the other is the same to a planner, and so it has heard what is in the log.
            What::Code(sites) if sites.len() > Self::SITES => {
                for some in sites.chunks(Self::SITES) {
                    let what = What::Code(some.into());
                    self.tell(now, &Event { of: event.of, what });
                }
            }
            _ => self.tell(now, event),
        }
    }

    fn decide(&mut self, now: Duration, purse: &Purse) -> Action {
        let action = self.planner.decide(now, purse);
        (self.sink)(Record::Decided(now, *purse, action.clone()));
        action
    }

    fn stopped(
        &mut self,
        now: Duration,
        ahead: &[SiteId],
        waited: Option<Duration>,
    ) -> Option<(SiteId, Then)> {
        let answer = self.planner.stopped(now, ahead, waited);
        (self.sink)(Record::Stopped {
            now,
            ahead: ahead.to_vec(),
            waited,
            answer,
        });
        answer
    }

    fn expected(&self) -> f64 {
        self.planner.expected()
    }

    fn gained(&mut self) -> Vec<(SiteId, Counts)> {
        self.planner.gained()
    }

    fn preempted(&mut self, now: Duration, all: &[Candidate]) -> Option<(usize, Duration)> {
        let answer = self.planner.preempted(now, all);
        (self.sink)(Record::Preempted {
            now,
            all: all.to_vec(),
            answer,
        });
        answer
    }
}
