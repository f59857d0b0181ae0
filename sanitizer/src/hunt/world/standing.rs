//! Probes that stand in a simulated program, at sites to which hardly anybody comes: who comes to one of them, and what that costs.

use std::{sync::Arc, time::Duration};

use gwp_race_abi::probes::HOT_HITS;

use crate::hunt::plan::event::{SiteId, Stood, What};

use super::{
    probed::{Group, PART, coldest},
    simulation::{World, id},
};

/// So often it is told who came, and to which nobody did, s.
const TOLD_S: f64 = 5.0;

impl World<'_> {
    fn comes_to(&self, index: usize) -> f64 {
        self.program.sites[index].comes.mean()
    }

    /// Arms and removes probes, pays for those who come, and tells of them.
    pub(super) fn of_probes(&mut self) -> Option<What> {
        if !self.hunt.has_probes {
            return None;
        }
        let mut all = Vec::new();
        let may_arm = self.now >= self.probed.next_s && self.purse_left() > 0.0;
        if may_arm {
            if let Some(group) = self.probed.gives_way() {
                self.end(&group, self.now, &mut all);
            }
            let income = self.hunt.share * self.program.processors;
            let apart_s = self.hunt.costs.profile_s / (PART * income);
            let sites = self.probed.arm(self.now, self.program, apart_s);
            if !sites.is_empty() {
                self.spend(self.hunt.costs.profile_s);
            }
            all.extend(sites.into_iter().map(|site| Stood {
                site: id(site),
                lasted: Duration::ZERO,
                count: 0,
                stands: true,
            }));
        }
        while let Some(group) = self.probed.hot(self.now) {
            self.end(&group, group.until_s, &mut all);
        }
        self.tell_of_standing(&mut all);
        (!all.is_empty()).then(|| What::Stood(Arc::from(all)))
    }

    /// A group does not stand any more, since then: what is not hot waits for its next turn.
    fn end(&mut self, group: &Group, at: f64, all: &mut Vec<Stood>) {
        let lasted_s = (at - group.told_s).max(0.0);
        for &site in &group.sites {
            let count = self.arrivals(site, lasted_s);
            self.spend(f64::from(count) * self.hunt.costs.hit_s);
            if u64::from(count) < HOT_HITS || self.comes_to(site) < coldest() {
                self.probed.waits(site);
            }
            all.push(Stood {
                site: id(site),
                lasted: Duration::from_secs_f64(lasted_s),
                count,
                stands: false,
            });
        }
    }

    fn tell_of_standing(&mut self, all: &mut Vec<Stood>) {
        if self.now < self.probed.paid_s + TOLD_S {
            return;
        }
        self.probed.paid_s = self.now;
        let mut groups = std::mem::take(&mut self.probed.groups);
        for group in &mut groups {
            let lasted_s = self.now - std::mem::replace(&mut group.told_s, self.now);
            for &site in &group.sites {
                let count = self.arrivals(site, lasted_s);
                self.spend(f64::from(count) * self.hunt.costs.hit_s);
                all.push(Stood {
                    site: id(site),
                    lasted: Duration::from_secs_f64(lasted_s),
                    count,
                    stands: true,
                });
            }
        }
        self.probed.groups = groups;
    }

    /// Waits for whoever comes to any of them but these: where that is, or that nobody does.
    pub(super) fn stopped_at_probe(&mut self, but: &[SiteId], at_most: f64) -> Result<usize, What> {
        let stands: Vec<usize> = self.probed.stands().collect();
        let (now, mut first) = (self.now, (f64::INFINITY, 0));
        for index in stands {
            if self.comes_to(index) > 0.0 && !but.contains(&id(index)) {
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
