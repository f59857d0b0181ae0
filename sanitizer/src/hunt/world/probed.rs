//! Which sites of a simulated program have probes that stand, one group after the other.

use std::time::Duration;

use crate::kernel::probes::standing::{GROUP, MOST_GROUPS};

use super::{costs::PROFILES_APART, program::Program};

/// Groups are armed so far apart while there is room, and where one has to give way, as in the engine.
const GIVES_WAY: Duration = Duration::from_secs(5);
/// See the module.
#[derive(Debug)]
pub(super) struct Probed {
    /// The sites that can have one, in the order in which they get it.
    pub(super) sites: Vec<usize>,
    /// How many had one until now, and how many of those gave way.
    armed: usize,
    gone: usize,
    /// When the next group is armed, s.
    pub(super) next_s: f64,
    /// Until when arrivals are paid for, s.
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
            sites,
            armed: 0,
            gone: 0,
            next_s: 0.0,
            paid_s: 0.0,
        }
    }

    /// How many can stand at a time.
    pub(super) fn most(&self) -> u32 {
        let most = self.sites.len().min(GROUP * MOST_GROUPS);
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// The sites at which some stand, but for those that are hot.
    pub(super) fn stands(&self) -> impl Iterator<Item = usize> {
        let armed = self.gone..self.armed;
        armed.filter_map(|place| self.sites.get(place % self.sites.len().max(1)).copied())
    }

    /// The next group, for which another one gives way where there is no room. Where there is room for all, nobody does.
    pub(super) fn next_group(&mut self) -> Vec<usize> {
        let (all, most) = (self.sites.len(), GROUP * MOST_GROUPS);
        let group = if all > most {
            GROUP
        } else {
            GROUP.min(all - self.armed)
        };
        if group == 0 {
            self.next_s = f64::INFINITY;
        }
        let from = self.armed;
        self.armed += group;
        let gives_way = self.armed - self.gone > most;
        if gives_way {
            self.gone += group;
        }
        let apart = if gives_way { GIVES_WAY } else { PROFILES_APART };
        self.next_s += apart.as_secs_f64();
        let places = from..self.armed;
        places
            .filter_map(|place| self.sites.get(place % all).copied())
            .collect()
    }
}
