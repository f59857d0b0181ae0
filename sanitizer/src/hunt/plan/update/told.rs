//! What was seen at sites when the program, or another process of it, was watched before; and what is gained for the next time.

use std::collections::BTreeMap;

use crate::hunt::plan::{
    catalogue::{Number, Object},
    counts::Counts,
    event::SiteId,
    prior,
};

use super::Knowledge;

/// From then on others are thought to use the bytes of a site.
const USED: f64 = 0.5;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::hunt::plan) struct Told {
    sites: BTreeMap<Number, Counts>,
    gained: BTreeMap<Number, Counts>,
    /// Something is being told, which is not gained.
    is_telling: bool,
    /// What is thought now goes by nothing of it.
    is_disbelieved: bool,
}

impl Told {
    /// This was seen at a site.
    pub(super) fn gained(&mut self, number: Number, seen: Counts) {
        if !self.is_telling {
            self.gained.entry(number).or_default().add(seen);
        }
    }

    /// What is thought now goes by what was told, or by nothing of it: what was seen elsewhere, or long ago, may be wrong.
    pub(in crate::hunt::plan) fn decide_whether_to_believe(&mut self, random: &mut fastrand::Rng) {
        self.is_disbelieved = !self.sites.is_empty() && random.f64() < prior::UNTOLD;
    }

    /// What is left of counts of a site, if it is not to be believed.
    pub(super) fn as_far_as_believed(
        &self,
        number: Number,
        mut counts: Counts,
        now: f64,
    ) -> Counts {
        if self.is_disbelieved
            && let Some(told) = self.sites.get(&number)
        {
            counts.take_out(told.at(now, prior::HALF_LIFE));
        }
        counts
    }
}

impl Knowledge {
    /// This was seen at sites before.
    pub(super) fn are_told(&mut self, now: f64, sites: &[(SiteId, Counts)]) {
        self.told.is_telling = true;
        for (site, counts) in sites {
            if counts.is_sound() {
                self.is_told(now, *site, *counts);
            }
        }
        self.told.is_telling = false;
    }

    fn is_told(&mut self, now: f64, site: SiteId, counts: Counts) {
        let Some(number) = self.catalogue.number(site) else {
            return;
        };
        // Whether it races, or shows an order, follows from the others.
        let seen = Counts {
            racing: 0.0,
            ordered: 0.0,
            ..counts
        };
        self.count_seen(now, number, seen, false);
        let told = self.told.sites.entry(number).or_default();
        told.add_at(now, prior::HALF_LIFE, seen);
        if seen.shows_tries() && self.catalogue.is_untried(number) {
            self.is_tried(number);
        }
        let facts = self.catalogue.facts(number).copied();
        if let Some(facts) = facts.filter(|_| seen.came > 0.0) {
            self.catalogue.executes(facts.function);
        }
        if seen.used >= USED {
            self.contends(site);
            if let Some(variable) = facts.and_then(|facts| facts.variable) {
                self.relate(Object::Variable(variable));
            }
        }
    }

    /// What was seen since the last time, and not told.
    pub(in crate::hunt::plan) fn take_gained(&mut self) -> Vec<(SiteId, Counts)> {
        let gained = std::mem::take(&mut self.told.gained);
        let sites = gained
            .into_iter()
            .filter_map(|(number, counts)| Some((self.catalogue.facts(number)?.site, counts)));
        sites.collect()
    }
}
