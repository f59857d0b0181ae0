//! Probes that stand: who comes to their sites, and what else can be done there.

use crate::hunt::plan::{
    catalogue::Number,
    counts::Counts,
    event::{SiteId, Stood},
    prior,
};

use super::Knowledge;

/// With what a thread can be stopped at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A breakpoint of the processors, at which it is waited at one site at a time: no probe stands there, since none can, or too many come, or none was had yet.
    Breakpoint,
    /// The probe that stands there, which costs nothing until somebody comes.
    Probe,
    /// Either: a breakpoint, too, where it is known which bytes to watch before anybody comes.
    Both,
}

impl Knowledge {
    /// What can be done at a site is decided here and nowhere else.
    #[must_use]
    pub fn means(&self, number: Number) -> Means {
        let names = |number| {
            let facts = self.catalogue.facts(number);
            facts.is_some_and(|facts| facts.variable.is_some())
        };
        if !self.catalogue.has_probe(number) {
            Means::Breakpoint
        } else if self.watches_ahead
            && self.contended.contains(&number)
            && (names(number) || !self.addresses.of(number).is_empty())
        {
            Means::Both
        } else {
            Means::Probe
        }
    }

    /// Who has come to a site at which a probe stands, or stood.
    pub(super) fn stood(&mut self, now: f64, told: &Stood) {
        let Some(number) = self.catalogue.number(told.site) else {
            return;
        };
        // Its class is of sites to which somebody comes within a first wait.
        let expected = f64::from(told.count) * prior::FIRST_WAIT;
        if told.count > 0 && expected >= told.lasted.as_secs_f64() {
            self.catalogue.seen(number);
        }
        if told.count > 0 || !told.lasted.is_zero() {
            let seen = Counts {
                came: f64::from(told.count),
                waited_s: told.lasted.as_secs_f64(),
                ..Counts::default()
            };
            self.count_seen(now, number, seen, false);
        }
        self.catalogue.set_probe(number, told.stands);
        if !told.stands {
            self.visited.retain(|visited| *visited != number);
        } else if told.count > 0 || !self.catalogue.is_untried(number) {
            self.is_visited(number);
        }
    }

    /// No probe can be had at these sites: they are not profiled any more, and it is waited there by breakpoints.
    pub(super) fn refused(&mut self, sites: &[SiteId]) {
        for site in sites {
            if let Some(number) = self.catalogue.number(*site) {
                self.catalogue.refuse_probe(number);
                self.visited.retain(|visited| *visited != number);
            }
        }
        // Some of them may be in it.
        self.profiles.draft = None;
    }

    /// Somebody was at a site: if a probe stands there, it is no longer like the others of its class.
    pub(in crate::hunt::plan) fn is_visited(&mut self, number: Number) {
        if self.catalogue.has_probe(number) && !self.visited.contains(&number) {
            self.visited.push(number);
        }
    }
}
