//! A planner that knows the truth: what could be found at best, one action after the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::hunt::plan::{
    Planner,
    action::{Action, ActionId, Deed, Then},
    event::{AddressId, Event, LetGo, SiteId, StallEnd, What},
    purse::Purse,
};

use super::{
    costs::{Costs, MOST_PASSED, MOST_TRAPS},
    program::{Comes, Meeting, Program},
};

/// What it chooses from, s.
const WAITS: [f64; 7] = [1e-3, 5e-3, 20e-3, 100e-3, 0.5, 2.0, 10.0];
const HOLDS: [f64; 5] = [0.1e-3, 0.5e-3, 1e-3, 2e-3, 5e-3];
/// How long a choice stands, unless something is found: the program may have changed by then.
const STANDS: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct Oracle<'a> {
    program: &'a Program,
    costs: Costs,
    next: ActionId,
    /// The races at each site.
    races: BTreeMap<usize, Vec<Meeting>>,
    found: BTreeSet<(usize, usize)>,
    /// Sites where everybody is let pass, who holds a lock.
    spared: BTreeSet<usize>,
    /// What it does, and until when that is not thought over.
    stands: Option<(Deed, Duration)>,
}

impl<'a> Oracle<'a> {
    /// One that knows this program and this machine.
    #[must_use]
    pub fn new(program: &'a Program, costs: Costs) -> Self {
        let mut races = BTreeMap::<usize, Vec<Meeting>>::new();
        for meeting in &program.meetings {
            if meeting.race().is_some() {
                races.entry(meeting.site).or_default().push(*meeting);
            }
        }
        Self {
            program,
            costs,
            next: ActionId(0),
            races,
            found: BTreeSet::new(),
            spared: BTreeSet::new(),
            stands: None,
        }
    }

    fn best(&self, now: f64, income: f64) -> Option<Deed> {
        let mut best = (0.0, None);
        for &site in self.races.keys() {
            if !self.is_reached(site, now) || self.spared.contains(&site) {
                continue;
            }
            for wanted in [None, self.address(site)] {
                for hold in HOLDS {
                    for wait in WAITS {
                        let worth = self.worth(site, now, income, (wait, hold, wanted));
                        if worth > best.0 {
                            best = (worth, Some(deed(site, wait, hold, wanted)));
                        }
                    }
                }
            }
        }
        best.1
    }

    /// What there is to be waited for at a site, if it is the same again and again: one of it is as good as another.
    fn address(&self, site: usize) -> Option<AddressId> {
        let area = self.program.sites.get(site).and_then(|site| site.area);
        area.map(|area| area.address(0))
    }

    /// Races to be expected in a second, where it is waited and held for so long.
    fn worth(
        &self,
        index: usize,
        now: f64,
        income: f64,
        (wait, hold, wanted): (f64, f64, Option<AddressId>),
    ) -> f64 {
        let Costs {
            trap_s,
            arm_s,
            stop_s,
            delay_s,
            ..
        } = self.costs;
        let site = &self.program.sites[index];
        let Some((address, area)) = wanted.zip(site.area) else {
            let (comes, waited) = comes_within(site.comes, 1.0, wait);
            let time = delay_s + waited + comes * (hold + delay_s);
            let budget = arm_s + comes * (stop_s + arm_s + hold);
            // Whichever is short.
            let cost = f64::max(time, budget / income);
            return comes * self.news(index, now, hold, delay_s) / cost;
        };
        let (comes, waited) = comes_within(site.comes, area.chance(address), wait);
        let meetings = self.program.meetings.iter();
        let meetings = meetings.filter(|meeting| meeting.site == index);
        let users: f64 = meetings
            .map(|meeting| self.program.rate_at(meeting, address))
            .sum();
        let traps = users * waited;
        if traps > MOST_TRAPS {
            return 0.0;
        }
        let passed = (site.comes.mean() * waited).min(f64::from(MOST_PASSED));
        let time = delay_s + waited + comes * hold;
        let budget = 2.0 * arm_s + comes * (stop_s + hold) + (passed + traps) * trap_s;
        let new = self.news(index, now, hold, 0.0) / area.share;
        comes * new / f64::max(time, budget / income)
    }

    /// Races to be expected of a thread that is held at a site for so long, where its bytes are watched so long after it has come.
    fn news(&self, site: usize, now: f64, hold: f64, late: f64) -> f64 {
        let races = self.races.get(&site).into_iter().flatten();
        races.map(|race| self.chance(race, now, hold, late)).sum()
    }

    /// How likely a race that was not found yet is caught by that.
    fn chance(&self, race: &Meeting, now: f64, hold: f64, late: f64) -> f64 {
        let is_found = race.race().is_some_and(|race| self.found.contains(&race));
        if is_found || !self.is_reached(race.other, now) {
            return 0.0;
        }
        race.chance * race.after.chance(hold, late)
    }

    fn is_reached(&self, site: usize, now: f64) -> bool {
        let mut phases = self.program.phases.iter();
        phases.all(|phase| {
            !phase.sites.contains(&site) || (phase.from_s..phase.until_s).contains(&now)
        })
    }
}

fn deed(site: usize, wait: f64, hold: f64, wanted: Option<AddressId>) -> Deed {
    Deed::Wait {
        site: SiteId(site as u64),
        at_most: Duration::from_secs_f64(wait),
        then: Then::Hold {
            at_most: Duration::from_secs_f64(hold),
            look: Duration::ZERO,
        },
        wanted,
    }
}

/// How likely somebody comes within so many seconds who is wanted, as such a part of all are, and for how long one waits for that on average.
fn comes_within(comes: Comes, part: f64, seconds: f64) -> (f64, f64) {
    // Not for longer than until too many were let pass.
    let most = f64::from(MOST_PASSED);
    match comes {
        Comes::Never => (0.0, seconds),
        Comes::Every(period) if part >= 1.0 => {
            let chance = (seconds / period).min(1.0);
            (chance, seconds - seconds.min(period) * chance / 2.0)
        }
        Comes::Every(period) => by_chance(part / period, seconds.min(most * period)),
        Comes::Rate(rate) => {
            let longest = if part < 1.0 { most / rate } else { seconds };
            by_chance(part * rate, seconds.min(longest))
        }
        Comes::Bursts { apart, .. } => by_chance(part / apart, seconds),
    }
}

fn by_chance(rate: f64, seconds: f64) -> (f64, f64) {
    let chance = 1.0 - (-rate * seconds).exp();
    (chance, chance / rate)
}

impl Planner for Oracle<'_> {
    fn observe(&mut self, _now: Duration, event: &Event) {
        if let What::Held {
            site,
            end: StallEnd::Hit(partners),
            ..
        } = &event.what
        {
            for partner in partners {
                let sides = [site.0 as usize, partner.site.0 as usize];
                let [one, other] = sides;
                self.found.insert((one.min(other), one.max(other)));
            }
            self.stands = None;
        }
        if let What::LetGo {
            site,
            why: LetGo::HoldsLock,
        } = event.what
        {
            self.spared.insert(site.0 as usize);
            self.stands = None;
        }
    }

    fn decide(&mut self, now: Duration, purse: &Purse) -> Action {
        self.next = self.next.next();
        let stands = self.stands.clone().filter(|(_, until)| now < *until);
        let deed = if purse.left_s <= 0.0 {
            let time = Duration::from_secs_f64(purse.until_left_s());
            Deed::Rest { time }
        } else if let Some((deed, _)) = stands {
            deed
        } else {
            let best = self.best(now.as_secs_f64(), purse.income);
            let deed = best.unwrap_or(Deed::Rest { time: STANDS });
            self.stands = Some((deed.clone(), now + STANDS));
            deed
        };
        Action {
            id: self.next,
            deed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the time for which one waits is that of the wait where nobody comes, and half a period where somebody comes for certain.
    #[test]
    fn waiting_times() {
        assert_eq!(comes_within(Comes::Never, 1.0, 2.0), (0.0, 2.0));
        assert_eq!(comes_within(Comes::Every(1.0), 1.0, 2.0), (1.0, 1.5));
        let (chance, waited) = comes_within(Comes::Rate(1.0), 1.0, 50.0);
        assert!((chance - 1.0).abs() < 1e-9 && (waited - 1.0).abs() < 1e-9);
    }
}
