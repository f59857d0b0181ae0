//! The planner as a strategy: it is told what the engine sees in its own terms, and what it asks for is put into the engine's.
//!
//! The planner ([`super::plan`]) decides what to do next and what with whoever comes; this decides nothing but what the planner's terms leave open: which
//! instructions are sites, which byte of a variable is watched, and who of many that come is claimed.

mod answers;
mod code;
mod diary;
mod memory;
mod profile;
mod study;
#[cfg(test)]
mod tests;

use std::{collections::HashSet, time::Duration};

use super::{
    ahead::{Place, places},
    known_code::site::AccessSite,
    plan::{
        Planner,
        action::{Action, Deed, Then},
        event::{AddressId, Event, SiteId, What},
    },
    return_addresses::return_addresses,
    strategy::{CodeView, Holders, Known, Means, Patience, Proposal, Sample, Strategy as _, Wait},
};
use crate::hunt::stint::Timekeeper;
use code::Code;
use diary::{Asked, Diary};
use study::Study;

/// How often an object is waited for that several threads use, where that has shown a race before.
const MEETS_AGAIN: f64 = 0.4;
/// Threads that are let pass at most, so that it is not always the first one of a burst that is stopped.
const MOST_SKIPPED: u64 = 2;
/// From then on somebody is waited for who comes seldom: that one is taken, whatever lock it holds.
const SELDOM: Duration = Duration::from_millis(100);
/// No rest is longer: threads may begin to do something.
const LONGEST_REST: Duration = Duration::from_millis(500);

/// What is in hand.
#[derive(Debug)]
struct Hand {
    action: Action,
    /// When it was asked for.
    since: Duration,
    /// What was spent by then, s.
    spent_s: f64,
    /// What is done with the thread that was stopped.
    then: Then,
    /// One address was asked for, and any thread was waited for.
    is_for_any: bool,
}

/// See the module.
pub struct Planned {
    planner: Box<dyn Planner>,
    random: fastrand::Rng,
    code: Code,
    diary: Diary,
    hand: Option<Hand>,
    now: Duration,
    study: Study,
    /// Sites whose bytes others were seen to use, and those that have raced.
    contended: HashSet<u64>,
    raced: HashSet<u64>,
    /// The planner was told that addresses can be watched in advance.
    watches_ahead: bool,
    /// And that it is seen which threads are off their processors.
    sees_preempted: bool,
}

impl Planned {
    /// A strategy that does what a planner decides; what is left open follows from the seed.
    #[must_use]
    pub fn new(planner: Box<dyn Planner>, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self {
            planner,
            code: Code::new(random.u64(..), Timekeeper::Clock),
            random,
            diary: Diary::default(),
            hand: None,
            now: Duration::ZERO,
            study: Study::default(),
            contended: HashSet::new(),
            raced: HashSet::new(),
            watches_ahead: false,
            sees_preempted: false,
        }
    }

    /// The same; what is gained of the code is kept by somebody.
    #[must_use]
    pub const fn with_memory(mut self) -> Self {
        self.code.memory.is_kept = true;
        self
    }

    /// The same, but how long it looks at code and values follows from what it does, not from a clock: so the same comes out each time.
    #[must_use]
    pub fn by_steps(mut self) -> Self {
        self.code.timekeeper = Timekeeper::Steps;
        self
    }

    fn observe(&mut self, of: Option<&Action>, what: What) {
        let of = of.map(|action| action.id);
        self.planner.observe(self.now, &Event { of, what });
    }

    /// Tells what has come of the action in hand, and what is new in the code.
    fn tell(&mut self, means: &Means, code: &dyn CodeView) {
        if self.code.known.is_full() {
            // Which costs some repeated tries.
            self.forget();
        }
        let hand = self.hand.take();
        let wait = hand.as_ref().and_then(|hand| match hand.action.deed {
            Deed::Wait { site, at_most, .. } => Some((site, at_most)),
            _ => None,
        });
        let look = hand
            .as_ref()
            .map_or(Duration::ZERO, |hand| match hand.then {
                Then::Hold { look, .. } | Then::Look(look) => look,
                Then::LetGo => Duration::ZERO,
            });
        let told = self.diary.tell(Asked { wait, look }, &mut self.code, code);
        self.read_code(means.purse.income, code);
        let Some(hand) = hand else {
            return;
        };
        let takes_any = matches!(
            hand.action.deed,
            Deed::Sample { .. } | Deed::Arrival { .. } | Deed::Preempted
        );
        if told.is_empty() && takes_any {
            let waited = self.now.saturating_sub(hand.since);
            self.observe(Some(&hand.action), What::NoSample { waited });
        }
        // What came of a wait for any thread says nothing of the address that was asked for.
        let of = (!hand.is_for_any).then_some(&hand.action);
        for what in told {
            self.note(&what);
            self.observe(of, what);
        }
        let cost = (means.spent_s - hand.spent_s).max(0.0);
        self.observe(Some(&hand.action), What::Cost(cost));
    }

    /// Looks at some more code, where there is time for it, and tells what is new of it.
    fn read_code(&mut self, income: f64, code: &dyn CodeView) {
        let begun = self.code.timekeeper.begin();
        if self.study.has_time(self.now, income) {
            self.code.look(code);
        }
        for what in self.code.news(code) {
            self.observe(None, what);
        }
        self.study.took(begun.elapsed());
    }

    /// Takes note of who uses what others use.
    fn note(&mut self, what: &What) {
        use super::plan::event::StallEnd;
        let (site, users, has_raced) = match what {
            What::Held {
                site,
                end: StallEnd::Hit(users),
                ..
            } => (site, users, true),
            What::Looked { site, users, .. } | What::Passed { site, users, .. }
                if !users.is_empty() =>
            {
                (site, users, false)
            }
            _ => return,
        };
        let sites = users.iter().map(|user| user.site).chain([*site]);
        for SiteId(site) in sites {
            self.contended.insert(site);
            self.code.known.shares(site);
            if has_raced {
                self.raced.insert(site);
            }
        }
    }

    /// The same, of a profile.
    fn note_profile(&mut self, what: &What) {
        let What::Profiled { met, .. } = what else {
            return;
        };
        for SiteId(site) in met.iter().flat_map(|met| [met.first, met.then.site]) {
            self.contended.insert(site);
            self.code.known.shares(site);
        }
    }

    /// The wait that the planner has asked for.
    fn wait_at(
        &mut self,
        at: u64,
        at_most: Duration,
        then: Then,
        wanted: Option<AddressId>,
        means: &Means,
    ) -> Wait {
        let known = self.code.known.get(at);
        let is_rare = at_most >= SELDOM;
        let has_raced = self.raced.contains(&at);
        Wait {
            at,
            site: at,
            time: at_most,
            skip: if is_rare || wanted.is_some() || means.purse.left_s <= 0.0 {
                0
            } else {
                self.random.u64(..=MOST_SKIPPED)
            },
            writes: known.is_some_and(|site| site.may_write(&mut self.random)),
            wanted: wanted.map(|address| address.0),
            meets: !is_rare && wanted.is_none() && (!has_raced || self.random.f64() < MEETS_AGAIN),
            holders: match then {
                _ if is_rare => Holders::Take,
                Then::Hold { .. } => Holders::Spare,
                Then::Look(_) | Then::LetGo => Holders::LookAt,
            },
            known: if wanted.is_some() {
                Known::Address
            } else if self.contended.contains(&at) {
                Known::Contended
            } else {
                Known::Nothing
            },
        }
    }

    /// What to do with a thread that is to stand at a place, as the planner says.
    fn proposal(&self, pc: u64, place: Place, site: SiteId, then: Then) -> Proposal {
        let patience = match then {
            Then::Hold { at_most, .. } => Patience::Hold(at_most),
            Then::Look(_) => Patience::Look,
            Then::LetGo => return Proposal::Pass("not-worth-it"),
        };
        if place.at == pc {
            Proposal::StallHere {
                site: site.0,
                patience,
            }
        } else {
            Proposal::Seek {
                at: place.at,
                site: site.0,
                patience,
            }
        }
    }

    /// A thread has come to the site that was waited at.
    fn come(&mut self, site: SiteId, sample: &Sample<'_>, code: &dyn CodeView) -> Proposal {
        let pc = sample.regs.rip;
        let waited = sample.waited.unwrap_or_default();
        self.diary.came(site, waited);
        self.code.executes(pc, code);
        let instead = self.planner.stopped(self.now, &[site], Some(waited));
        let Some(hand) = &mut self.hand else {
            return Proposal::Pass("no-site-here");
        };
        hand.then = instead.map_or(hand.then, |(_, then)| then);
        let then = hand.then;
        let is_call = (self.code.known.get(pc)).is_some_and(|known| known.has(AccessSite::CALL));
        let at = if is_call {
            code.routine_at(pc)
        } else {
            Some(pc)
        };
        let proposal = match at {
            Some(at) => self.proposal(pc, Place { at, site: pc }, site, then),
            None => Proposal::Pass("no-site-here"),
        };
        if matches!(proposal, Proposal::Pass(_)) {
            self.diary.passed(site);
        }
        proposal
    }

    /// A sample has stopped a thread.
    fn sampled(&mut self, sample: &Sample<'_>, code: &dyn CodeView) -> Proposal {
        let pc = sample.regs.rip;
        let known = &self.code.known;
        let sample = Sample {
            own_frame: &|pc| known.own_frame(pc),
            ..*sample
        };
        let mut ahead = places(pc, &sample, code, &mut self.random);
        if ahead.is_empty() {
            for caller in return_addresses(&(sample.stack)(), code) {
                ahead.extend(places(caller, &sample, code, &mut self.random));
            }
        }
        let sites: Vec<SiteId> = (ahead.iter().map(|place| place.site))
            .map(|site| {
                // A memory routine's place is called by what it returns to.
                let known = self.code.known.learn(site, code);
                let is_site = known.is_some() && self.code.known.get(site).is_some();
                let before = (!is_site).then(|| self.code.known.site_before(site, code));
                SiteId(before.flatten().unwrap_or(site))
            })
            .collect();
        for what in self.code.news(code) {
            self.observe(None, what);
        }
        let chosen = self.planner.stopped(self.now, &sites, None);
        let place = chosen.and_then(|(site, then)| {
            let index = sites.iter().position(|known| *known == site)?;
            Some((*ahead.get(index)?, site, then))
        });
        match place {
            Some((place, site, then)) => {
                if let Some(hand) = &mut self.hand {
                    hand.then = then;
                }
                let proposal = self.proposal(pc, place, site, then);
                if matches!(proposal, Proposal::Pass(_)) {
                    self.diary.passed(site);
                }
                proposal
            }
            None => {
                self.diary.passed(SiteId(pc));
                Proposal::Pass("no-access-ahead")
            }
        }
    }
}
