//! What a planner would find that knew one thing of the program, and otherwise chose by chance: so it shows what that is worth.

use std::time::Duration;

use super::index::Index;
use crate::hunt::plan::{
    Planner,
    action::{Action, ActionId, Deed, Then},
    event::{Event, SiteId},
    purse::Purse,
};

/// How long a site is waited at, and a thread held.
const WAIT: Duration = Duration::from_millis(20);
const HOLD: Then = Then::Hold {
    at_most: Duration::from_millis(3),
    look: Duration::ZERO,
};

/// What is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// Nothing: whoever a clock stops is held.
    Nothing,
    /// Which sites are executed.
    Executed,
    /// At which of them bytes are accessed that two threads use, one of them to write.
    Contended,
    /// At which of those threads come that hold no lock.
    Unlocked,
    /// Which sites race.
    Racing,
}

/// Waits at one of some sites by chance.
#[derive(Debug)]
pub(super) struct Knowing {
    /// `None`: takes samples.
    sites: Option<Vec<SiteId>>,
    random: fastrand::Rng,
    next: ActionId,
}

impl Knowing {
    pub(super) fn new(knowledge: Knowledge, index: &Index<'_>, seed: u64) -> Self {
        Self {
            sites: sites(knowledge, index),
            random: fastrand::Rng::with_seed(seed),
            next: ActionId(0),
        }
    }
}

fn sites(knowledge: Knowledge, index: &Index<'_>) -> Option<Vec<SiteId>> {
    /// Of so many arrivals at a site one at least is without a lock.
    const TRIES: usize = 50;
    let recorded = index.recorded;
    let is_of_contended = |site: SiteId| {
        let mut events = index
            .arrivals(site, 0.0)
            .take(TRIES)
            .filter_map(|(_, event)| index.event(event));
        events.any(|event| index.is_contended(event))
    };
    let is_without_lock = |site: SiteId| {
        let mut events = index
            .arrivals(site, 0.0)
            .take(TRIES)
            .filter_map(|(_, event)| index.event(event));
        events.any(|event| index.is_contended(event) && index.locks(event).next().is_none())
    };
    let is_wanted = |site: SiteId| match knowledge {
        Knowledge::Nothing | Knowledge::Executed => true,
        Knowledge::Contended => is_of_contended(site),
        Knowledge::Unlocked => is_without_lock(site),
        Knowledge::Racing => recorded
            .races
            .iter()
            .any(|race| race.sites.map(u64::from).contains(&site.0)),
    };
    let plain = recorded.sites.iter().take(recorded.plain as usize);
    let executed = plain
        .filter(|site| site.comes > 0.0)
        .map(|site| site.facts.site);
    (knowledge != Knowledge::Nothing).then(|| executed.filter(|site| is_wanted(*site)).collect())
}

impl Planner for Knowing {
    fn observe(&mut self, _now: Duration, _event: &Event) {}

    fn decide(&mut self, _now: Duration, purse: &Purse) -> Action {
        self.next = self.next.next();
        let deed = match &self.sites {
            _ if purse.left_s <= 0.0 => Deed::Rest {
                time: Duration::from_secs_f64(purse.until_left_s()),
            },
            None => Deed::Sample {
                at_most: WAIT,
                then: HOLD,
            },
            Some(sites) if sites.is_empty() => Deed::Rest {
                time: Duration::from_secs(1),
            },
            Some(sites) => Deed::Wait {
                site: sites[self.random.usize(..sites.len())],
                at_most: WAIT,
                then: HOLD,
                wanted: None,
            },
        };
        Action {
            id: self.next,
            deed,
        }
    }
}
