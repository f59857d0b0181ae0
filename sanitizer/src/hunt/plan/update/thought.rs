//! What is thought of sites, by all that is known.

use crate::hunt::plan::{
    addresses::Known,
    belief::{AtHand, Belief, Circumstances, MEETS_S},
    catalogue::{Number, is_related, kind, kind_index, nearness, object_of},
    counts::Counts,
    posterior::{Beta, Gamma},
    prior,
};

use super::Knowledge;

impl Knowledge {
    /// What was seen at a site.
    #[must_use]
    pub fn counts(&self, number: Number, now: f64) -> Counts {
        let counts = self.sites.get(&number).copied().unwrap_or_default();
        let counts = counts.at(now, prior::HALF_LIFE);
        self.told.as_far_as_believed(number, counts, now)
    }

    /// Whether somebody comes to an untried site of a class within a first wait.
    #[must_use]
    pub fn comes(&self, class: usize, now: f64) -> Beta {
        let odds = match nearness(class) {
            0 => prior::COMES_UNSEEN,
            1 => prior::COMES_EXECUTES,
            _ => prior::COMES_BESIDE,
        };
        let seen = self.of_class[class].at(now, prior::HALF_LIFE);
        Beta::prior(odds, prior::COMES_WEIGHT).with(seen.came, seen.missed)
    }

    /// Which sites are like this one, where it is learned whether others use their bytes.
    pub(super) fn kind_of_use(&self, number: Number) -> usize {
        let kind = kind_index(self.catalogue.class(number));
        kind + 4 * usize::from(self.catalogue.has_probe(number))
    }

    /// Whether others use the bytes of sites that are like this one.
    fn uses_of_kind(&self, number: Number, now: f64) -> Beta {
        let seen = self.uses[self.kind_of_use(number)].at(now, prior::HALF_LIFE);
        Beta {
            yes: seen.used,
            no: seen.unused,
        }
    }

    /// What is known beside a site's own counts.
    #[must_use]
    pub fn around(&self, number: Number, now: f64) -> Circumstances {
        let Some(facts) = self.catalogue.facts(number) else {
            return Circumstances::default();
        };
        let class = self.catalogue.class(number);
        let at = |counts: Option<&Counts>| {
            let counts = counts.copied().unwrap_or_default();
            counts.at(now, prior::HALF_LIFE)
        };
        let object = object_of(facts);
        Circumstances {
            comes: self.comes(class, now).mean(),
            uses: self.uses_of_kind(number, now),
            writes: facts.writes,
            names: kind(class).0,
            meets_s: self.meets_s(),
            is_related: is_related(class),
            of_kind: at(self.of_kind.get(usize::from(facts.writes))),
            of_function: at(self.of_function.get(&facts.function)),
            of_object: at(object.and_then(|object| self.of_object.get(&object))),
        }
    }

    /// How soon others come, s, as a rule.
    fn meets_s(&self) -> f64 {
        let (sum, count) = self.meets;
        let mean = (MEETS_S.ln() * prior::MEETS_POOL + sum) / (prior::MEETS_POOL + count);
        mean.exp()
    }

    /// What is thought of a site.
    #[must_use]
    pub fn belief(&self, number: Number, now: f64) -> Belief {
        Belief::of(&self.counts(number, now), &self.around(number, now))
    }

    /// What is thought of an address that may be at hand at a site, where somebody comes so often.
    #[must_use]
    pub fn at_hand(&self, number: Number, known: &Known, lambda: Gamma, now: f64) -> AtHand {
        let own = known.counts.at(now, prior::HALF_LIFE);
        AtHand::of(&own, &self.addresses.all(now, number), lambda)
    }

    /// What it is worth to look at a site: what was seen already does not have to be seen again.
    #[must_use]
    pub fn look(&self, number: Number, now: f64) -> f64 {
        let counts = self.counts(number, now);
        self.yields() / (1.0 + counts.used + counts.unused).powi(2)
    }

    /// Races that a site brings by and by, once others were seen to use its bytes.
    #[must_use]
    pub fn yields(&self) -> f64 {
        let races = prior::YIELD * prior::YIELD_WEIGHT + self.races;
        races / (prior::YIELD_WEIGHT + self.contended.len() as f64)
    }

    /// What it costs to wait, and to stop somebody, s.
    #[must_use]
    pub fn costs(&self) -> (f64, f64) {
        let mean = |first: f64, (sum, count): (f64, f64)| {
            (first * prior::COST_WEIGHT + sum) / (prior::COST_WEIGHT + count)
        };
        (
            mean(prior::COST_WAIT, self.waits),
            mean(prior::COST_STOP, self.stops),
        )
    }
}
