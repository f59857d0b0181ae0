//! What any planner has to be better than: a site by chance, whatever is known of it.

use std::{collections::BTreeSet, time::Duration};

use crate::hunt::plan::{
    Planner,
    action::{Action, ActionId, Deed, Then},
    event::{Event, FunctionId, SiteFacts, SiteId, What},
    purse::Purse,
};

/// How long a site is waited at.
const WAIT: Duration = Duration::from_millis(20);

/// Waits at a site by chance: of all that there are, or of those in functions that are known to execute.
#[derive(Debug)]
pub struct ByChance {
    random: fastrand::Rng,
    next: ActionId,
    hold: Duration,
    only_executed: bool,
    /// All sites, in the order of their functions.
    facts: Vec<SiteFacts>,
    executed: BTreeSet<FunctionId>,
    /// Those that are chosen from.
    sites: Vec<SiteId>,
}

impl ByChance {
    /// Any site, a stall of 3 ms.
    #[must_use]
    pub fn uniform(seed: u64) -> Self {
        Self::new(seed, Duration::from_millis(3), false)
    }

    /// Any site of a function that is known to execute, a stall of 0.5 ms: a prototype of 300 lines, which found more than the strategies did
    /// in programs on which those had not been tuned.
    #[must_use]
    pub fn executed(seed: u64) -> Self {
        Self::new(seed, Duration::from_micros(500), true)
    }

    fn new(seed: u64, hold: Duration, only_executed: bool) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            next: ActionId(0),
            hold,
            only_executed,
            facts: Vec::new(),
            executed: BTreeSet::new(),
            sites: Vec::new(),
        }
    }

    /// The sites of a function may be chosen from now on.
    fn add(&mut self, function: FunctionId) {
        if self.executed.insert(function) {
            let first = self
                .facts
                .partition_point(|facts| facts.function < function);
            let of_function = self.facts.iter().skip(first);
            let of_function = of_function.take_while(|facts| facts.function == function);
            self.sites.extend(of_function.map(|facts| facts.site));
        }
    }
}

impl Planner for ByChance {
    fn observe(&mut self, _now: Duration, event: &Event) {
        match &event.what {
            What::Code(facts) => {
                self.facts.extend(facts.iter().copied());
                self.facts.sort_by_key(|facts| (facts.function, facts.site));
                if !self.only_executed {
                    self.sites.extend(facts.iter().map(|facts| facts.site));
                }
            }
            What::CodeGone => {
                self.facts.clear();
                self.executed.clear();
                self.sites.clear();
            }
            What::Seen(site) if self.only_executed => {
                let function = self.facts.iter().find(|facts| facts.site == *site);
                if let Some(function) = function.map(|facts| facts.function) {
                    self.add(function);
                }
            }
            _ => {}
        }
    }

    fn decide(&mut self, _now: Duration, purse: &Purse) -> Action {
        self.next = self.next.next();
        let deed = if purse.left_s <= 0.0 || self.sites.is_empty() {
            let time = Duration::from_secs_f64(purse.until_left_s()).max(Duration::from_millis(5));
            Deed::Rest { time }
        } else {
            Deed::Wait {
                site: self.sites[self.random.usize(..self.sites.len())],
                at_most: WAIT,
                then: Then::Hold {
                    at_most: self.hold,
                    look: Duration::ZERO,
                },
                wanted: None,
            }
        };
        Action {
            id: self.next,
            deed,
        }
    }
}
