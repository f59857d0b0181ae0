//! A program that is watched by turns, as a fleet does: who begins a lease is told what was seen before.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::hunt::plan::{
    Planner,
    action::{Action, Candidate, Then},
    choose::ByWorth,
    counts::Counts,
    event::{Event, SiteId, What},
    purse::Purse,
};

use super::{
    program::Program,
    scene,
    simulation::{Hunt, Run, World},
};

/// What was learned of a program in leases before, wherever they were.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// What was seen at its sites.
    pub sites: BTreeMap<SiteId, Counts>,
    /// Races that are no news, by the numbers of their sites.
    pub races: BTreeSet<(usize, usize)>,
}

/// What came of a lease.
#[derive(Debug)]
pub struct Gains {
    /// What was done, and found.
    pub run: Run,
    /// What was seen at sites, beyond what was known.
    pub sites: Vec<(SiteId, Counts)>,
}

impl Known {
    /// Adds what was seen at sites.
    pub fn add(&mut self, sites: &[(SiteId, Counts)]) {
        for (site, counts) in sites {
            self.sites.entry(*site).or_default().add(*counts);
        }
    }

    /// Has of each count the larger one, as a ledger does with what others have told it.
    pub fn keep_larger(&mut self, other: &Self) {
        for (site, counts) in &other.sites {
            let all = self.sites.entry(*site).or_default();
            let mut larger = all.values();
            for (one, other) in larger.iter_mut().zip(counts.values()) {
                *one = one.max(other);
            }
            *all = Counts::of_values(larger);
        }
        self.races.extend(&other.races);
    }
}

/// Watches a program for as long as the hunt lasts. Of a program that is not as it was known, what is known of other sites says nothing.
#[must_use]
pub fn watch(program: &Program, hunt: &Hunt, known: &Known) -> Gains {
    let mut planner = Remembers {
        planner: ByWorth::new(hunt.seed),
        sites: &known.sites,
    };
    let races = program.pairs();
    let races = races.intersection(&known.races).copied().collect();
    let mut world = World::new(program, *hunt);
    world.found = races;
    scene::hunt(&mut world, &mut planner);
    world.run.time_s = world.now;
    Gains {
        run: world.run,
        sites: planner.gained(),
    }
}

/// Whoever begins a lease is told what was seen before as soon as he knows the code.
struct Remembers<'a> {
    planner: ByWorth,
    sites: &'a BTreeMap<SiteId, Counts>,
}

impl Planner for Remembers<'_> {
    fn observe(&mut self, now: Duration, event: &Event) {
        self.planner.observe(now, event);
        if matches!(event.what, What::Code(_)) && !self.sites.is_empty() {
            let told = self.sites.iter().map(|(site, counts)| (*site, *counts));
            let what = What::Told(told.collect());
            self.planner.observe(now, &Event { of: None, what });
        }
    }

    fn decide(&mut self, now: Duration, purse: &Purse) -> Action {
        self.planner.decide(now, purse)
    }

    fn stopped(
        &mut self,
        now: Duration,
        ahead: &[SiteId],
        waited: Option<Duration>,
    ) -> Option<(SiteId, Then)> {
        self.planner.stopped(now, ahead, waited)
    }

    fn preempted(&mut self, now: Duration, all: &[Candidate]) -> Option<(usize, Duration)> {
        self.planner.preempted(now, all)
    }

    fn gained(&mut self) -> Vec<(SiteId, Counts)> {
        self.planner.gained()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::world::{costs::NESTED, families};

    /// Check that a race is found by who does not know it, and is no news to who does.
    #[test]
    fn what_is_known_is_no_news() {
        let program = families::ALL[0](1);
        let hunt = Hunt {
            costs: NESTED,
            share: 0.05,
            length_s: 60.0,
            seed: 1,
            has_probes: false,
        };
        let mut known = Known::default();
        let first = watch(&program, &hunt, &known);
        assert_eq!(first.run.races.len(), program.races());
        known.races.extend(&first.run.races);
        let again = watch(&program, &hunt, &known);
        assert!(again.run.races.is_empty() && again.run.finds.is_empty());
    }

    /// Check that of each count the larger one is kept, and that races of both are.
    #[test]
    fn nothing_counts_twice() {
        let of = |came, missed, race| {
            let mut counts = Counts::default();
            (counts.came, counts.missed) = (came, missed);
            Known {
                sites: BTreeMap::from([(SiteId(1), counts)]),
                races: BTreeSet::from([race]),
            }
        };
        let mut known = of(3.0, 1.0, (1, 2));
        for _ in 0..2 {
            known.keep_larger(&of(2.0, 4.0, (3, 4)));
        }
        let counts = known.sites[&SiteId(1)];
        assert_eq!((counts.came, counts.missed), (3.0, 4.0));
        assert_eq!(known.races.len(), 2);
    }
}
