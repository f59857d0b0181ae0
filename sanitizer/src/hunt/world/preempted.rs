//! Threads of a simulated program that are off their processors: which there are, and what comes of watching what one of them is about to access.

use std::time::Duration;

use crate::hunt::plan::{
    action::Candidate,
    event::{Partner, StallEnd, What},
};

use super::{
    arrival::Bytes,
    costs::MOST_TRAPS,
    program::{Meeting, Order},
    simulation::{Find, World, id},
};

/// How often a thread is certain to access memory that may be shared before its code can lead elsewhere, as counted on threads of memcached.
const CERTAIN: f64 = 0.4;
/// Threads that are looked at each time.
const MOST: f64 = 16.0;
impl World<'_> {
    /// Looks who is off a processor, right before an access.
    pub(super) fn off_processors(&mut self) -> Vec<Candidate> {
        self.spend(self.hunt.costs.look_s);
        let mut all = Vec::new();
        for _ in 0..self.program.waiting.min(MOST) as usize {
            let left = self.program.off_s * self.random.f64();
            let is_certain = self.random.f64() < CERTAIN;
            if let Some(site) = self.sampled().filter(|_| is_certain) {
                all.push(Candidate {
                    site: id(site),
                    left: Duration::from_secs_f64(left),
                });
            }
        }
        all
    }

    /// Watches what one is about to access that is expected to be off for so long, s, for so long at most.
    pub(super) fn watch_off(
        &mut self,
        index: usize,
        bytes: Bytes,
        left: f64,
        at_most: f64,
    ) -> What {
        // It may be off for as long again, or get a processor at once.
        let off_s = 2.0 * left * self.random.f64();
        self.watch_preempted_for(index, bytes, at_most.min(off_s))
    }

    /// Watches what one is about to access for so long, s.
    fn watch_preempted_for(&mut self, index: usize, bytes: Bytes, at_most: f64) -> What {
        self.spend(self.hunt.costs.arm_s);
        self.now += self.hunt.costs.delay_s;
        self.run.free_stalls += 1;
        let first = self.first_to_come(index, bytes, at_most);
        let lasted = first.map_or(at_most, |(after, _)| after);
        // Whom something keeps from coming does not trap.
        let traps = f64::from(u8::from(first.is_some())).min(MOST_TRAPS);
        self.spend(traps * self.hunt.costs.trap_s);
        let end = match first {
            None => StallEnd::Quiet,
            Some((after, meeting)) => {
                let partner = Partner {
                    site: id(meeting.other),
                    after: Duration::from_secs_f64(after),
                };
                if let Some(race) = meeting.race().filter(|race| self.found.insert(*race)) {
                    self.run.races.push(race);
                    self.run.finds.push(Find {
                        time_s: self.now + after,
                        spent_s: self.run.spent_s,
                        stalls: self.run.stalls,
                    });
                    StallEnd::Hit(vec![partner])
                } else {
                    StallEnd::Known(vec![partner])
                }
            }
        };
        self.now += lasted;
        What::Held {
            site: id(index),
            lasted: Duration::from_secs_f64(lasted),
            end,
        }
    }

    /// Who comes first to the bytes within so many seconds, in no order with the one that stands there.
    fn first_to_come(
        &mut self,
        index: usize,
        bytes: Bytes,
        at_most: f64,
    ) -> Option<(f64, Meeting)> {
        let others = self.others(index, bytes);
        let races = others
            .into_iter()
            .filter(|(after, meeting)| *after <= at_most && meeting.order == Order::None);
        races.min_by(|one, other| one.0.total_cmp(&other.0))
    }
}
