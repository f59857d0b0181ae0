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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hunt::plan::{
        Planner as _,
        action::Deed,
        choose::ByWorth,
        event::{Event, FunctionId, SiteFacts, VariableId, What},
        purse::Purse,
        trust::Kind,
    };

    const SITES: u64 = 8;

    fn hear(known: &mut Knowledge, now_s: u64, what: What) {
        known.update(Duration::from_secs(now_s), &Event { of: None, what });
    }

    fn code() -> What {
        let facts = (0..SITES).map(|site| SiteFacts {
            site: SiteId(site),
            function: FunctionId(site / 4),
            writes: true,
            variable: (site < 2).then_some(VariableId(7)),
            member: None,
            can_be_probed: true,
        });
        What::Code(facts.collect())
    }

    fn told(site: u64, count: impl FnOnce(&mut Counts)) -> What {
        let mut counts = Counts::default();
        count(&mut counts);
        What::Told(vec![(SiteId(site), counts)])
    }

    /// Check that a site at which somebody was stopped before is not untried, that one to which somebody only came is, that others use the bytes where they were seen to, and that what can be no count, or
    /// is told of no site, changes nothing.
    #[test]
    fn sites_are_what_they_were() {
        let mut known = Knowledge::default();
        hear(&mut known, 0, code());
        hear(&mut known, 0, told(0, |counts| counts.used = 1.0));
        hear(&mut known, 0, told(2, |counts| counts.quiet = 3.0));
        hear(&mut known, 0, told(3, |counts| counts.came = 9.0));
        hear(&mut known, 0, told(4, |counts| counts.used = f64::NAN));
        hear(&mut known, 0, told(5, |counts| counts.quiet = -1.0));
        hear(&mut known, 0, told(SITES, |counts| counts.quiet = 1.0));
        let kinds = [0, 1, 2, 3, 4, 5].map(|number| known.kind(number));
        let expected = [
            Kind::Contended,
            Kind::Untried,
            Kind::Tried,
            Kind::Untried,
            Kind::Untried,
            Kind::Untried,
        ];
        assert_eq!(kinds, expected);
        assert!(!known.is_known(4) && !known.is_known(5));
        assert_eq!(known.take_gained(), []);
    }

    /// Check that what was seen since is gained without what was told, once, and fades no more than a sum does; that it is of all that is known a part; and that where what was told is not believed, that part is
    /// all that is left.
    #[test]
    fn what_is_gained_is_not_what_was_told() {
        let mut known = Knowledge::default();
        hear(&mut known, 0, code());
        hear(&mut known, 0, told(2, |counts| counts.missed = 8.0));
        let nobody = What::Nobody {
            site: SiteId(2),
            waited: Duration::from_secs(1),
        };
        hear(&mut known, 900, nobody.clone());
        hear(&mut known, 1800, nobody);
        let [(site, gained)] = known.take_gained()[..] else {
            panic!("one site");
        };
        assert_eq!(
            (site, gained.missed, gained.waited_s),
            (SiteId(2), 2.0, 2.0)
        );
        assert_eq!(known.take_gained(), []);
        let missed = |known: &Knowledge| known.counts(2, 1800.0).missed;
        assert!((missed(&known) - (2.0 + 0.5 + 1.0)).abs() < 1e-9);
        let mut random = fastrand::Rng::with_seed(1);
        let mut disbelieved = 0;
        for _ in 0..1000 {
            known.told.decide_whether_to_believe(&mut random);
            if known.told.is_disbelieved {
                disbelieved += 1;
                assert!((missed(&known) - 1.5).abs() < 1e-9);
            }
        }
        assert!((100..300).contains(&disbelieved), "{disbelieved}");
    }

    /// Check that of two functions that are alike the new one is tried first.
    #[test]
    fn new_code_comes_first() {
        let mut first = [0, 0];
        for seed in 0..200 {
            let mut planner = ByWorth::new(seed);
            let mut hear = |what| planner.observe(Duration::ZERO, &Event { of: None, what });
            let What::Code(facts) = code() else {
                panic!("it is code");
            };
            let alike = facts.iter().map(|facts| SiteFacts {
                variable: None,
                ..*facts
            });
            hear(What::Code(alike.collect()));
            hear(What::Executes(FunctionId(0)));
            hear(What::Executes(FunctionId(1)));
            hear(What::New(FunctionId(1)));
            let purse = Purse {
                left_s: 0.02,
                most_s: 0.02,
                income: 0.02,
                credit_s: 0.005,
            };
            let action = planner.decide(Duration::ZERO, &purse);
            if let Deed::Wait { site, .. } = action.deed {
                first[usize::from(site.0 >= 4)] += 1;
            }
        }
        let [old, new] = first;
        assert!(new > 40 && new > 2 * old, "{first:?}");
    }
}
