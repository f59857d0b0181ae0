//! The clock strategy: wherever a sample of CPU time lands, an access within the next few
//! instructions is chosen at random; where those have all been tried, one that the thread comes
//! to when it returns to its callers.
//!
//! A hot loop draws most samples, and most of its accesses are private: a site that has been
//! tried in vain is tried less, so that what is executed rarely gets its share of the budget.

use std::{collections::HashMap, time::Duration};

use super::{
    ahead::{Place, places},
    return_addresses::return_addresses,
    strategy::{CodeView, Means, Outcome, Patience, Proposal, Sample, Step, Strategy},
};

/// Sites remembered; beyond that all is forgotten, which costs some repeated tries.
const MEMORY: usize = 1 << 16;

/// A site that was tried often is still tried with this probability when nothing else offers.
const LEAST_WEIGHT: f64 = 1.0 / 32.0;

/// See the module.
#[derive(Debug)]
pub struct Clock {
    random: fastrand::Rng,
    /// Tries, by site.
    tries: HashMap<u64, u32>,
    /// Whether they are remembered.
    learns: bool,
}

impl Clock {
    /// A strategy whose choices follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            tries: HashMap::new(),
            learns: true,
        }
    }

    /// The same, but what was tried counts for nothing: each access ahead is as likely each time. This is
    /// what the others are measured against.
    #[must_use]
    pub fn without_learning(mut self) -> Self {
        self.learns = false;
        self
    }

    fn weight(&self, site: u64) -> f64 {
        let tries = self.tries.get(&site).copied().unwrap_or(0);
        (1.0 / f64::from(1 + tries)).max(LEAST_WEIGHT)
    }
}

/// A place where a thread may be stalled, and what it weighs.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    place: Place,
    weight: f64,
}

impl Clock {
    /// Where a thread accesses memory shortly after an instruction.
    fn candidates(&mut self, pc: u64, sample: &Sample<'_>, code: &dyn CodeView) -> Vec<Candidate> {
        places(pc, sample, code, &mut self.random)
            .into_iter()
            .map(|place| Candidate {
                place,
                weight: self.weight(place.site),
            })
            .collect()
    }

    /// One of the candidates, or none if all have been tried enough for now.
    fn choose(&mut self, candidates: &[Candidate]) -> Option<Place> {
        let heaviest = candidates
            .iter()
            .map(|candidate| candidate.weight)
            .fold(0.0, f64::max);
        if self.random.f64() >= heaviest {
            return None;
        }
        let weights = candidates.iter().map(|candidate| candidate.weight);
        let mut point = self.random.f64() * weights.sum::<f64>();
        candidates
            .iter()
            .find(|candidate| {
                point -= candidate.weight;
                point <= 0.0
            })
            .or(candidates.last())
            .map(|candidate| candidate.place)
    }
}

impl Strategy for Clock {
    fn propose(&mut self, sample: &Sample<'_>, code: &dyn CodeView) -> Proposal {
        let patience = Patience::USUAL;
        let near = self.candidates(sample.regs.rip, sample, code);
        if let Some(Place { at, site }) = self.choose(&near) {
            return if at == sample.regs.rip {
                Proposal::StallHere { site, patience }
            } else {
                Proposal::Seek { at, site, patience }
            };
        }
        let mut far = Vec::new();
        for caller in return_addresses(&(sample.stack)(), code) {
            far.extend(self.candidates(caller, sample, code));
        }
        match self.choose(&far) {
            Some(Place { at, site }) => Proposal::Seek { at, site, patience },
            None if near.is_empty() && far.is_empty() => Proposal::Pass("no-access-ahead"),
            None => Proposal::Pass("sites-tried-before"),
        }
    }

    fn step(&mut self, _now: Duration, _means: &Means, _code: &dyn CodeView) -> Step {
        Step::Sample(Duration::MAX)
    }

    fn forget(&mut self) {
        self.tries.clear();
    }

    fn decay(&mut self) {
        self.tries.retain(|_, tries| {
            *tries /= 2;
            *tries > 0
        });
    }

    fn outcome(&mut self, site: u64, outcome: Outcome) {
        if !self.learns {
            return;
        }
        if self.tries.len() >= MEMORY {
            self.tries.clear();
        }
        let weight = match outcome {
            // The stall before has counted.
            Outcome::Shared(_) | Outcome::Private | Outcome::Unused | Outcome::Blind => return,
            // The race is known now; a second report of it is worth less than a new one. And a lock stays one.
            Outcome::Hit(_) | Outcome::Repeat | Outcome::Locked => 4,
            Outcome::NotReached
            | Outcome::Held
            | Outcome::TooOften
            | Outcome::Unsuitable
            | Outcome::KnownPrivate
            | Outcome::Beside
            | Outcome::Quiet => 1,
        };
        let tries = self.tries.entry(site).or_default();
        *tries = tries.saturating_add(weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a site that was tried in vain weighs less, unless nothing is to be learned.
    #[test]
    fn tries_count_for_those_that_learn() {
        let weight_after_a_try = |mut clock: Clock| {
            clock.outcome(7, Outcome::Quiet);
            clock.weight(7)
        };
        assert!(weight_after_a_try(Clock::new(1)) < 1.0);
        assert!(weight_after_a_try(Clock::new(1).without_learning()) >= 1.0);
    }
}
