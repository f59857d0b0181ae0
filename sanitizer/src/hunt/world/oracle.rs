//! A planner that knows the truth: what could be found at best, one action after the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::hunt::plan::{
    Planner,
    action::{Action, ActionId, Deed, Then},
    event::{Event, SiteId, StallEnd, What},
    purse::Purse,
};

use super::{
    costs::Costs,
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
            stands: None,
        }
    }

    fn best(&self, now: f64, income: f64) -> Option<Deed> {
        let mut best = (0.0, None);
        for (&site, races) in &self.races {
            if !self.is_reached(site, now) {
                continue;
            }
            for hold in HOLDS {
                let new: f64 = races.iter().map(|race| self.chance(race, now, hold)).sum();
                for wait in WAITS {
                    let (comes, waited) = comes_within(self.program.sites[site].comes, wait);
                    let Costs {
                        arm_s,
                        stop_s,
                        delay_s,
                        ..
                    } = self.costs;
                    let time = delay_s + waited + comes * (hold + delay_s);
                    let budget = arm_s + comes * (stop_s + arm_s + hold);
                    // Whichever is short.
                    let worth = comes * new / f64::max(time, budget / income);
                    if worth > best.0 {
                        let deed = Deed::Wait {
                            site: SiteId(site as u64),
                            at_most: Duration::from_secs_f64(wait),
                            then: Then::Hold {
                                at_most: Duration::from_secs_f64(hold),
                                look: Duration::ZERO,
                            },
                        };
                        best = (worth, Some(deed));
                    }
                }
            }
        }
        best.1
    }

    /// How likely a race that was not found yet is caught by holding a thread for so long.
    fn chance(&self, race: &Meeting, now: f64, hold: f64) -> f64 {
        let is_found = race.race().is_some_and(|race| self.found.contains(&race));
        if is_found || !self.is_reached(race.other, now) {
            return 0.0;
        }
        race.chance * race.after.chance(hold)
    }

    fn is_reached(&self, site: usize, now: f64) -> bool {
        let mut phases = self.program.phases.iter();
        phases.all(|phase| {
            !phase.sites.contains(&site) || (phase.from_s..phase.until_s).contains(&now)
        })
    }
}

/// How likely somebody comes within so many seconds, and for how long one waits for that on average.
fn comes_within(comes: Comes, seconds: f64) -> (f64, f64) {
    match comes {
        Comes::Never => (0.0, seconds),
        Comes::Every(period) => {
            let chance = (seconds / period).min(1.0);
            (chance, seconds - seconds.min(period) * chance / 2.0)
        }
        Comes::Rate(rate) => by_chance(rate, seconds),
        Comes::Bursts { apart, .. } => by_chance(1.0 / apart, seconds),
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
    }

    fn decide(&mut self, now: Duration, purse: &Purse) -> Action {
        self.next = self.next.next();
        let stands = self.stands.filter(|(_, until)| now < *until);
        let deed = if purse.left_s <= 0.0 {
            let time = Duration::from_secs_f64(purse.until_left_s());
            Deed::Rest { time }
        } else if let Some((deed, _)) = stands {
            deed
        } else {
            let best = self.best(now.as_secs_f64(), purse.income);
            let deed = best.unwrap_or(Deed::Rest { time: STANDS });
            self.stands = Some((deed, now + STANDS));
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
        assert_eq!(comes_within(Comes::Never, 2.0), (0.0, 2.0));
        assert_eq!(comes_within(Comes::Every(1.0), 2.0), (1.0, 1.5));
        let (chance, waited) = comes_within(Comes::Rate(1.0), 50.0);
        assert!((chance - 1.0).abs() < 1e-9 && (waited - 1.0).abs() < 1e-9);
    }
}
