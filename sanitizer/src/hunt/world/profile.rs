//! A profile of sites of a simulated program: who comes to them within some milliseconds, and who then uses the same bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::hunt::plan::event::{Arrivals, Met, Partner, SiteId, What};

use super::{
    costs::PROFILES_APART,
    program::Comes,
    simulation::{World, id},
};

/// One that cannot be had is asked for again after this time, s.
const REFUSED_S: f64 = 5e-3;
/// Arrivals at a site of which it is drawn what they access, at most.
const LOOKED_AT: u32 = 64;

impl World<'_> {
    /// Profiles sites; what is known then. Nothing, if the last time was only just.
    pub(super) fn profiled(&mut self, sites: &[SiteId], at_most: f64) -> Option<What> {
        if self.now < self.next_profile {
            self.now += REFUSED_S;
            return None;
        }
        let before = self.run.spent_s;
        self.next_profile = self.now + PROFILES_APART.as_secs_f64();
        self.run.profiles += 1;
        self.spend(self.hunt.costs.profile_s);
        self.now += self.hunt.costs.delay_s;
        let all = sites.iter().filter_map(|site| usize::try_from(site.0).ok());
        let probed: BTreeSet<usize> = all
            .filter(|index| {
                let site = self.program.sites.get(*index);
                site.is_some_and(|site| site.facts.can_be_probed)
            })
            .collect();
        let mut arrivals = Vec::with_capacity(probed.len());
        // Of two sites the first time.
        let mut met = BTreeMap::<(usize, usize), Met>::new();
        let mut hits = 0.0;
        for &index in &probed {
            let count = self.arrivals(index, at_most);
            hits += f64::from(count);
            let looked_at = count.min(LOOKED_AT);
            let mut have_met = 0;
            for _ in 0..looked_at {
                let at = self.random.f64() * at_most;
                have_met += u32::from(self.meet(index, at_most - at, &probed, &mut met));
            }
            arrivals.push(Arrivals {
                site: id(index),
                count,
                met: (f64::from(count) * f64::from(have_met) / f64::from(looked_at.max(1))) as u32,
            });
        }
        self.spend(hits * self.hunt.costs.hit_s);
        self.now += at_most;
        Some(What::Profiled {
            lasted: Duration::from_secs_f64(at_most),
            arrivals,
            met: met.into_values().collect(),
            cost_s: self.run.spent_s - before,
        })
    }

    /// How often somebody comes to a site from now on, for so many seconds. Who does so all the time is slowed down by it.
    pub(super) fn arrivals(&mut self, index: usize, seconds: f64) -> u32 {
        /// From then on it is the mean.
        const MANY: f64 = 50.0;
        if !self.is_reached_at(index, self.now) {
            return 0;
        }
        let comes = self.program.sites[index].comes;
        let most = self.program.processors * seconds / self.hunt.costs.hit_s;
        if let Comes::Rate(rate) = comes
            && rate * seconds > MANY
        {
            return (rate * seconds).min(most) as u32;
        }
        let (mut at, mut count) = (self.now, 0);
        let until = self.now + seconds;
        loop {
            at = match comes {
                // A burst that is under way goes on.
                Comes::Bursts { rate, .. } if count > 0 => {
                    Comes::Rate(rate).next(at, &mut self.random)
                }
                _ => comes.next(at, &mut self.random),
            };
            if at > until || f64::from(count) >= most {
                return count;
            }
            count += 1;
        }
    }

    /// Somebody has come to a site: who of those at the others uses the same bytes within so many seconds; whether anybody does.
    fn meet(
        &mut self,
        index: usize,
        seconds: f64,
        probed: &BTreeSet<usize>,
        met: &mut BTreeMap<(usize, usize), Met>,
    ) -> bool {
        let bytes = self.bytes(index);
        let part = self.part_at_hand(index, bytes);
        let chance = self.random.f64();
        let mut has_met = false;
        for meeting in self.meetings_of(index).to_vec() {
            let meets = chance < part * meeting.chance && probed.contains(&meeting.other);
            if !meets || !self.is_reached_at(meeting.other, self.now) {
                continue;
            }
            let after = meeting.after.draw(&mut self.random);
            if after <= seconds {
                has_met = true;
                met.entry((index, meeting.other)).or_insert(Met {
                    first: id(index),
                    address: bytes.address,
                    then: Partner {
                        site: id(meeting.other),
                        after: Duration::from_secs_f64(after),
                    },
                });
            }
        }
        has_met
    }
}
