//! The usual strategy: [`Clock`] for what is executed often, [`Site`] for all the rest. Each gets the more
//! turns the more its last ones have brought to light.

use std::time::Duration;

use crate::report::LookedAt;

use super::{
    clock::Clock,
    site::{LARGE_BUDGET, Site},
    strategy::{CodeView, Conflict, Outcome, Proposal, Sample, Strategy, Turn, Unexplained, Wait},
    values::Read,
};

/// Neither gets less than this share of the turns.
const LEAST_SHARE: f64 = 0.2;
/// What is expected of two turns before any was made.
const CLOCK_PRIOR: f64 = 0.5;
const SITE_PRIOR: f64 = 1.0;

/// A turn of the clock, with a small budget and with a large one, where time is what is short: about as long as a site is waited at.
/// Where its samples come less often than that, sites are waited at meanwhile.
const CLOCK_TIME: [Duration; 2] = [Duration::from_millis(30), Duration::from_millis(8)];
/// For how much of a turn it counts that a thread was stopped, and let go at once.
const PASSED: f64 = 0.25;

/// Whose proposal is in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Clock,
    Site,
}

/// What one of the two has brought.
#[derive(Clone, Copy, Debug, Default)]
struct Yield {
    turns: f64,
    found: f64,
}

impl Yield {
    /// What a turn brings, with something for the unknown (finds in two turns).
    fn each(self, prior: f64) -> f64 {
        (self.found + prior) / (self.turns + 2.0)
    }

    fn add(&mut self, outcome: Outcome) {
        let (turn, found) = match outcome {
            Outcome::Hit(_) => (1.0, 1.0),
            // The turn was counted before.
            Outcome::Shared(_) => (0.0, 0.5),
            Outcome::Private | Outcome::Unused | Outcome::Blind | Outcome::Beside => (0.0, 0.0),
            Outcome::Quiet | Outcome::Locked | Outcome::Repeat => (1.0, 0.0),
            // Nobody stood still.
            Outcome::NotReached
            | Outcome::Held
            | Outcome::TooOften
            | Outcome::Unsuitable
            | Outcome::KnownPrivate => (0.25, 0.0),
        };
        self.turns += turn;
        self.found += found;
    }
}

/// How often the clock finds a thread where it could be stalled.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    samples: f64,
    seconds: f64,
}

impl Pace {
    /// Whose turn it is when it is the clock's, for so long. A program that uses no CPU time has no samples.
    fn turn(self, time: Duration) -> Turn {
        let is_slow = self.seconds > self.samples * time.as_secs_f64();
        // Nothing is known at first.
        if is_slow && self.seconds >= time.as_secs_f64() {
            Turn::Both
        } else {
            Turn::Clock(time)
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Auto {
    random: fastrand::Rng,
    clock: Clock,
    site: Site,
    whose: Whose,
    of_clock: Yield,
    of_site: Yield,
    pace: Pace,
    clock_time: Duration,
    /// Until when that is counted.
    counted: Option<Duration>,
}

impl Auto {
    /// A strategy whose choices follow from the seed; no stall will be longer than this.
    #[must_use]
    pub fn new(seed: u64, max_overhead: f64, longest_stall: Duration) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let [small, large] = CLOCK_TIME;
        Self {
            clock_time: if max_overhead < LARGE_BUDGET {
                small
            } else {
                large
            },
            clock: Clock::new(random.u64(..)),
            site: Site::new(random.u64(..), max_overhead, longest_stall),
            random,
            whose: Whose::Clock,
            of_clock: Yield::default(),
            of_site: Yield::default(),
            pace: Pace::default(),
            counted: None,
        }
    }

    /// The same, but nothing follows from a clock: the same comes out each time.
    #[must_use]
    pub fn by_steps(self) -> Self {
        Self {
            site: self.site.by_steps(),
            ..self
        }
    }

    /// The clock's share of the turns.
    fn clock_share(&self) -> f64 {
        let clock = self.of_clock.each(CLOCK_PRIOR);
        let site = self.of_site.each(SITE_PRIOR);
        (clock / (clock + site)).clamp(LEAST_SHARE, 1.0 - LEAST_SHARE)
    }
}

impl Strategy for Auto {
    fn propose(&mut self, sample: &Sample<'_>, code: &dyn CodeView) -> Proposal {
        // A thread that has come to the site that is waited at is the site's; any other one was
        // sampled by the clock.
        let proposal = self.site.propose(sample, code);
        if matches!(proposal, Proposal::Pass(_)) {
            self.whose = Whose::Clock;
            let Self { clock, site, .. } = self;
            let sample = Sample {
                own_frame: &|pc| site.own_frame(pc),
                ..*sample
            };
            let proposal = clock.propose(&sample, code);
            if matches!(proposal, Proposal::Pass(_)) {
                // Of which no outcome is told.
                self.of_clock.turns += PASSED;
            }
            return proposal;
        }
        self.whose = Whose::Site;
        proposal
    }

    fn own_frame(&self, pc: u64) -> u64 {
        self.site.own_frame(pc)
    }

    fn probe(&self, site: u64) -> Option<Duration> {
        self.site.probe(site)
    }

    fn wait(&mut self, code: &dyn CodeView) -> Option<Wait> {
        self.whose = Whose::Site;
        self.site.wait(code)
    }

    fn wait_meanwhile(&mut self) -> Option<Wait> {
        let wait = self.site.wait_meanwhile();
        if wait.is_some() {
            self.whose = Whose::Site;
        }
        wait
    }

    fn unexplained(&mut self) -> Option<Unexplained> {
        self.site.unexplained()
    }

    fn watched(&mut self, variable: u64, part: f64, writers: &[Conflict]) {
        self.site.watched(variable, part, writers);
    }

    fn turn(&mut self, now: Duration) -> Turn {
        let counted = self.counted.replace(now).unwrap_or(now);
        self.pace.seconds += now.saturating_sub(counted).as_secs_f64();
        if self.random.f64() < self.clock_share() {
            self.pace.turn(self.clock_time)
        } else {
            Turn::Site
        }
    }

    fn turn_was_in_vain(&mut self) {
        self.of_clock.turns += 1.0;
    }

    fn sampled(&mut self, count: u64) {
        self.pace.samples += count as f64;
    }

    fn seen(&mut self, pc: u64, code: &dyn CodeView) {
        self.site.seen(pc, code);
    }

    fn extend(&mut self) {
        self.site.extend();
    }

    fn forget(&mut self) {
        self.clock.forget();
        self.site.forget();
    }

    fn decay(&mut self) {
        self.clock.decay();
        self.site.decay();
        for found in [&mut self.of_clock, &mut self.of_site] {
            found.turns /= 2.0;
            found.found /= 2.0;
        }
        self.pace.samples /= 2.0;
        self.pace.seconds /= 2.0;
    }

    fn coverage(&self) -> Option<(u64, u64)> {
        self.site.coverage()
    }

    fn looked_at(&self) -> Vec<LookedAt> {
        self.site.looked_at()
    }

    fn costs(&mut self, per_stall: Duration) {
        self.site.costs(per_stall);
    }

    fn uses(&mut self, other: Conflict) {
        self.site.uses(other);
    }

    fn is_shared(&mut self, address: u64) {
        self.site.is_shared(address);
    }

    fn look_at_values(&mut self, read: &Read<'_>) {
        self.site.look_at_values(read);
    }

    fn outcome(&mut self, site: u64, outcome: Outcome) {
        // That it is shared may have been seen before.
        let is_news = !matches!(outcome, Outcome::Shared(_)) || !self.site.is_contended(site);
        let of_whose = match self.whose {
            Whose::Clock => {
                self.clock.outcome(site, outcome);
                &mut self.of_clock
            }
            Whose::Site => &mut self.of_site,
        };
        if is_news {
            of_whose.add(outcome);
        }
        // What the clock has tried the other one need not, where they mean the same.
        self.site.outcome(site, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that nothing waits for the clock alone where its samples are rare.
    #[test]
    fn sites_are_waited_at_where_samples_are_rare() {
        let [time, _] = CLOCK_TIME;
        let turn = |samples, seconds| Pace { samples, seconds }.turn(time);
        assert_eq!(turn(0.0, 0.0), Turn::Clock(time));
        assert_eq!(turn(1000.0, 1.0), Turn::Clock(time));
        assert_eq!(turn(20.0, 2.0), Turn::Both);
        assert_eq!(turn(0.0, 1.0), Turn::Both);
    }

    /// Check that turns in which the clock stops nobody, or lets everybody go, count: neither it nor the sites get nearly all of the
    /// time where both find nothing, with a small budget and with a large one.
    #[test]
    fn turns_in_vain_are_turns() {
        for (max_overhead, wait) in [(0.01, 20), (1.0, 6)] {
            let mut auto = Auto::new(1, max_overhead, Duration::from_millis(5));
            let mut of_clock = Duration::ZERO;
            let mut of_site = Duration::ZERO;
            let mut turns = 0;
            for round in 0..2000 {
                match auto.turn(Duration::ZERO) {
                    Turn::Clock(time) => {
                        of_clock += time;
                        turns += 1;
                        auto.turn_was_in_vain();
                    }
                    Turn::Site | Turn::Both => {
                        auto.whose = Whose::Site;
                        auto.outcome(7, Outcome::NotReached);
                        of_site += Duration::from_millis(wait);
                    }
                }
                if round % 400 == 399 {
                    auto.decay();
                }
            }
            assert!((400..700).contains(&turns), "{max_overhead}: {turns}");
            let part = of_clock.div_duration_f64(of_clock + of_site);
            assert!((0.2..0.5).contains(&part), "{max_overhead}: {part}");
        }
    }

    /// Check that the one that finds more gets more turns, that the other one keeps some, and that old
    /// merits fade.
    #[test]
    fn turns_follow_what_is_found() {
        let mut auto = Auto::new(1, 0.01, Duration::from_millis(5));
        let at_first = auto.clock_share();
        assert!((0.3..0.4).contains(&at_first));
        auto.whose = Whose::Site;
        for _ in 0..40 {
            auto.outcome(7, Outcome::Quiet);
        }
        assert!(auto.clock_share() > 0.75);
        auto.whose = Whose::Clock;
        for _ in 0..400 {
            auto.outcome(7, Outcome::Quiet);
        }
        assert!(auto.clock_share() < 0.25);
        assert!(auto.clock_share() >= LEAST_SHARE);
        let turns = (0..1000)
            .filter(|_| auto.turn(Duration::ZERO) != Turn::Site)
            .count();
        assert!((100..300).contains(&turns), "{turns}");
        for _ in 0..12 {
            auto.decay();
        }
        assert!((auto.clock_share() - at_first).abs() < 0.1);
    }
}
