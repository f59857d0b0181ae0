//! Probes that stand in a simulated program, at sites to which hardly anybody comes: who comes to one of them, and what that costs.

use std::time::Duration;

use gwp_race_abi::probes::{HOT_HITS, HOT_NS};

use crate::hunt::plan::event::What;

use super::simulation::World;

/// What is hot is found and removed within so long, s.
const TRIED_S: f64 = 1e-3;

/// So many come to a site at most, in a second, where a probe stays.
fn coldest() -> f64 {
    HOT_HITS as f64 / Duration::from_nanos(HOT_NS).as_secs_f64()
}

impl World<'_> {
    fn comes_to(&self, index: usize) -> f64 {
        self.program.sites[index].comes.mean()
    }

    /// What was armed until now, and who came to it, is paid for.
    fn pay_for_probes(&mut self) {
        if self.probed.sites.is_empty() {
            return;
        }
        while self.probed.next_s <= self.now {
            let group = self.probed.next_group();
            if group.is_empty() {
                break;
            }
            let hot = group.iter().map(|site| self.comes_to(*site));
            let hot: f64 = hot.filter(|rate| *rate >= coldest()).sum();
            // Whoever runs into one is slowed down: on each processor no more than the time.
            let most = self.program.processors * TRIED_S;
            let hits_s = (hot * TRIED_S * self.hunt.costs.hit_s).min(most);
            self.spend(self.hunt.costs.profile_s + hits_s);
        }
        let passed_s = self.now - self.probed.paid_s;
        self.probed.paid_s = self.now;
        let cold = self.probed.stands().map(|site| self.comes_to(site));
        let cold: f64 = cold.filter(|rate| *rate < coldest()).sum();
        self.spend(cold * passed_s * self.hunt.costs.hit_s);
    }

    /// Waits for whoever comes to any of them: where that is, or that nobody does.
    pub(super) fn stopped_at_probe(&mut self, at_most: f64) -> Result<usize, What> {
        self.pay_for_probes();
        let stands: Vec<usize> = self.probed.stands().collect();
        let (now, mut first) = (self.now, (f64::INFINITY, 0));
        for index in stands {
            if self.comes_to(index) < coldest() {
                let at = self.program.sites[index].comes.next(now, &mut self.random);
                if at < first.0 && self.is_reached_at(index, at) {
                    first = (at, index);
                }
            }
        }
        let (at, index) = first;
        self.now = at.min(now + at_most);
        let waited = Duration::from_secs_f64(self.now - now);
        (at <= now + at_most)
            .then_some(index)
            .ok_or(What::NoSample { waited })
    }
}
