//! Which sites of a simulated program have probes that stand, one group after the other: those in which nobody comes too often stay.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use gwp_race_abi::probes::{HOT_HITS, HOT_NS};

use crate::{
    hunt::plan::event::FunctionId,
    kernel::probes::standing::{GROUP, MOST_GROUPS},
};

use super::{costs::PROFILES_APART, program::Program};

/// Groups are armed so far apart while there is room, and where one has to give way, as in the engine.
const GIVES_WAY: Duration = Duration::from_secs(5);
/// The part of what is earned that arming and removing them may take.
pub(super) const PART: f64 = 0.05;
/// So often it is looked whether any of those that were just armed is hot, s.
const LOOK_S: f64 = 0.25e-3;

/// So many come to a site at most, in a second, where a probe stays.
pub(super) fn coldest() -> f64 {
    HOT_HITS as f64 / Duration::from_nanos(HOT_NS).as_secs_f64()
}

/// Sites whose probes are armed together, and removed together.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) sites: Vec<usize>,
    /// When it is seen that one of them is hot, s.
    pub(super) until_s: f64,
    /// Since when is to be told who came, s.
    pub(super) told_s: f64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Probed {
    /// The sites that are to have one, in the order in which they get it.
    waiting: VecDeque<usize>,
    /// The first one has stood for longest.
    pub(super) groups: VecDeque<Group>,
    /// Functions in which threads were seen: the sites of others come first.
    executed: BTreeSet<FunctionId>,
    /// When the next group is armed, s.
    pub(super) next_s: f64,
    /// Until when who came was paid for, and told, s.
    pub(super) paid_s: f64,
}

impl Probed {
    pub(super) fn of(program: &Program, seed: u64) -> Self {
        let all = program.sites.iter().enumerate();
        let mut sites: Vec<usize> = all
            .filter(|(_, site)| site.facts.can_be_probed)
            .map(|(index, _)| index)
            .collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut sites);
        Self {
            waiting: sites.into(),
            groups: VecDeque::new(),
            executed: BTreeSet::new(),
            next_s: 0.0,
            paid_s: 0.0,
        }
    }

    /// The sites at which some stand.
    pub(super) fn stands(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().flat_map(|group| &group.sites).copied()
    }

    /// The group that gives way now, as there is no room for the next one.
    pub(super) fn gives_way(&mut self) -> Option<Group> {
        (self.groups.len() >= MOST_GROUPS && !self.waiting.is_empty())
            .then(|| self.groups.pop_front())?
    }

    /// A thread was seen in a function.
    pub(super) fn executes(&mut self, function: FunctionId) {
        self.executed.insert(function);
    }

    /// Arms the next group, to whose sites so many come; its sites.
    pub(super) fn arm(&mut self, now: f64, program: &Program, apart_s: f64) -> Vec<usize> {
        let comes_to = |site: usize| program.sites[site].comes.mean();
        let mut sites = Vec::with_capacity(GROUP);
        let mut later = VecDeque::new();
        for site in std::mem::take(&mut self.waiting) {
            let is_executed = self.executed.contains(&program.sites[site].facts.function);
            if sites.len() < GROUP && !is_executed {
                sites.push(site);
            } else {
                later.push_back(site);
            }
        }
        let missing = (GROUP - sites.len()).min(later.len());
        sites.extend(later.drain(..missing));
        self.waiting = later;
        let hottest = sites.iter().map(|site| comes_to(*site)).fold(0.0, f64::max);
        let until_s = if hottest >= coldest() {
            now + (HOT_HITS as f64 / hottest).max(LOOK_S)
        } else {
            f64::INFINITY
        };
        if !sites.is_empty() {
            self.groups.push_back(Group {
                sites: sites.clone(),
                until_s,
                told_s: now,
            });
        }
        let apart = if self.groups.len() < MOST_GROUPS {
            PROFILES_APART
        } else {
            GIVES_WAY
        };
        self.next_s = now + apart.as_secs_f64().max(apart_s);
        sites
    }

    /// A group in which one has proved hot.
    pub(super) fn hot(&mut self, now: f64) -> Option<Group> {
        let place = self.groups.iter().position(|group| group.until_s <= now)?;
        self.groups.remove(place)
    }

    /// It is to have one again.
    pub(super) fn waits(&mut self, site: usize) {
        self.waiting.push_back(site);
    }
}
