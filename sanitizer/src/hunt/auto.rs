//! The usual strategy: [`Clock`] for what is executed often, [`Site`] for all the rest.

use std::time::Duration;

use super::{
    clock::Clock,
    site::Site,
    strategy::{CodeView, Outcome, Proposal, Sample, Strategy, Wait},
};

/// Whose proposal is in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Clock,
    Site,
}

/// See the module.
#[derive(Debug)]
pub struct Auto {
    clock: Clock,
    site: Site,
    whose: Whose,
}

impl Auto {
    /// A strategy whose choices follow from the seed.
    #[must_use]
    pub fn new(seed: u64, max_overhead: f64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self {
            clock: Clock::new(random.u64(..)),
            site: Site::new(random.u64(..), max_overhead),
            whose: Whose::Clock,
        }
    }
}

impl Strategy for Auto {
    fn propose(&mut self, sample: &Sample<'_>, code: &dyn CodeView) -> Proposal {
        // A thread that has come to the site that is waited at is the site's; any other one was
        // sampled by the clock.
        let proposal = self.site.propose(sample, code);
        if matches!(proposal, Proposal::Pass(_)) {
            self.whose = Whose::Clock;
            return self.clock.propose(sample, code);
        }
        self.whose = Whose::Site;
        proposal
    }

    fn probe(&self, site: u64) -> Option<Duration> {
        self.site.probe(site)
    }

    fn wait(&mut self, code: &dyn CodeView) -> Option<Wait> {
        self.whose = Whose::Site;
        self.site.wait(code)
    }

    fn seen(&mut self, pc: u64, code: &dyn CodeView) {
        self.site.seen(pc, code);
    }

    fn forget(&mut self) {
        self.clock.forget();
        self.site.forget();
    }

    fn decay(&mut self) {
        self.clock.decay();
        self.site.decay();
    }

    fn coverage(&self) -> Option<(u64, u64)> {
        self.site.coverage()
    }

    fn outcome(&mut self, site: u64, outcome: Outcome) {
        if self.whose == Whose::Clock {
            self.clock.outcome(site, outcome);
        }
        // What the clock has tried the other one need not, where they mean the same.
        self.site.outcome(site, outcome);
    }
}
