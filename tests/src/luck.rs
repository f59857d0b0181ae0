//! Catching a race takes luck. What is shown of it is a count, not a time: so many attempts, stalls and waits for
//! one, have led to so many catches. That bounds the rate, where one success in several tries does not.

use std::ops::{AddAssign, Mul};

use anyhow::{Result, bail};

use crate::{Outcome, Report};

/// How often a test fails that has nothing to complain of but bad luck, at most.
const FALSE_ALARM: f64 = 1e-4;
/// Catches of one kind where a loss is to be seen for certain: where they have come to take ten times as many attempts,
/// 95 tests of 100 fail.
pub const CATCHES: u32 = 8;
/// One catch counts as so many usual ones at most. The planner learns from what it has tried: where its first tries at the racing
/// places were unlucky, it looks elsewhere for long, so that beside catches of 5 to 40 attempts some take 100 to 270 (48 catches of one
/// program beside two busy loops), and one alone would decide about all.
const AT_MOST: f64 = 5.0;

/// What gwp-race has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    samples: f64,
    waits: f64,
    /// Threads stalled.
    pub stalls: f64,
}

impl From<&Report> for Spent {
    fn from(report: &Report) -> Self {
        Self {
            samples: report.number("samples"),
            waits: report.number("site_waits"),
            stalls: report.number("stalls"),
        }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.waits += other.waits;
        self.stalls += other.stalls;
    }
}

impl Mul<f64> for Spent {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self {
            samples: self.samples * factor,
            waits: self.waits * factor,
            stalls: self.stalls * factor,
        }
    }
}

impl Spent {
    /// So many samples, waits and stalls.
    #[must_use]
    pub const fn new(samples: f64, waits: f64, stalls: f64) -> Self {
        Self {
            samples,
            waits,
            stalls,
        }
    }

    /// The larger one of each.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        Self {
            samples: self.samples.max(other.samples),
            waits: self.waits.max(other.waits),
            stalls: self.stalls.max(other.stalls),
        }
    }

    /// Stalls, and waits for one. What is sampled while the program's code is not yet known does not count.
    #[must_use]
    pub fn attempts(&self) -> f64 {
        self.waits + self.stalls
    }

    /// Instants at which it could have chosen a place to stall at, whether there was one or not.
    #[must_use]
    pub fn chances(&self) -> f64 {
        self.waits + self.samples
    }
}

/// Catches of one kind, with what they took.
#[derive(Clone, Debug)]
pub struct Luck {
    what: String,
    usual: f64,
    caught: u32,
    tries: u32,
    spent: Spent,
    /// What the catches so far count, and attempts since the last one.
    counted: f64,
    since: f64,
}

impl Luck {
    /// Nothing yet of something that takes so many attempts each time, on average.
    #[must_use]
    pub fn new(what: impl Into<String>, usual: f64) -> Self {
        Self {
            what: what.into(),
            usual,
            caught: 0,
            tries: 0,
            spent: Spent::default(),
            counted: 0.0,
            since: 0.0,
        }
    }

    /// Takes note of a run until the first race; whether there was one.
    pub fn add(&mut self, outcome: &Outcome) -> bool {
        let races = &outcome.report.races;
        let spent = Spent::from(&outcome.report);
        self.note(spent, !races.is_empty());
        let (what, tries) = (&self.what, self.tries);
        match (races.first(), outcome.first_race_s) {
            (Some(race), seconds) => println!(
                "{what}: caught on try {tries} after {} attempts, {:.2} s: {}",
                spent.attempts(),
                seconds.unwrap_or(f64::NAN),
                race.places()
            ),
            (None, _) => println!("{what}: try {tries}: {:?}", outcome.report.summary),
        }
        !races.is_empty()
    }

    fn note(&mut self, spent: Spent, caught: bool) {
        self.tries += 1;
        self.spent += spent;
        self.since += spent.attempts();
        if caught {
            self.caught += 1;
            self.counted = self.counts();
            self.since = 0.0;
        }
    }

    /// The attempts so far, with no catch counting for more than it may.
    fn counts(&self) -> f64 {
        self.counted + self.since.min(self.usual * AT_MOST)
    }

    /// How many there were.
    #[must_use]
    pub const fn caught(&self) -> u32 {
        self.caught
    }

    /// What all of them took.
    #[must_use]
    pub const fn spent(&self) -> Spent {
        self.spent
    }

    /// Whether that is not too much for so many catches.
    ///
    /// # Errors
    /// Says how much it is, and how much it may be.
    pub fn judge(&self) -> Result<()> {
        let (what, usual, caught) = (&self.what, self.usual, self.caught);
        let (counts, most) = (self.counts(), usual * most(caught));
        let attempts = self.spent.attempts();
        println!(
            "{what}: {attempts} attempts for {caught} catches in {} tries, which count as {counts:.0}; at most {most:.0}, of \
             {usual} each",
            self.tries
        );
        if counts > most {
            bail!(
                "{what}: {caught} catches took {attempts} attempts, which count as {counts:.0}. Of some {usual} that each takes it \
                 would be {most:.0} at most in all but one of 10,000 tests"
            );
        }
        Ok(())
    }

    /// Runs something until its race is caught, `CATCHES` times, and judges.
    ///
    /// # Errors
    /// Fails as soon as it is too much, or where the run does.
    pub fn repeat(mut self, mut run: impl FnMut() -> Result<Outcome>) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let enough = self.usual * most(CATCHES);
        while outcomes.len() < CATCHES as usize {
            let outcome = run()?;
            if self.add(&outcome) {
                outcomes.push(outcome);
            }
            if self.counts() > enough || self.tries >= 2 * CATCHES {
                self.judge()?;
                bail!("{}: {} of {} tries", self.what, self.caught, self.tries);
            }
        }
        self.judge()?;
        Ok(outcomes)
    }
}

/// The sum of what so many catches take, over the mean of one, that is exceeded with the chance `FALSE_ALARM`.
///
/// Were the attempts that one takes distributed geometrically, their sum over their mean would follow the Gamma distribution of that
/// shape. That no catch counts for more than `AT_MOST` makes the sum smaller.
fn most(catches: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1e3);
    while high - low > 1e-6 {
        let middle = f64::midpoint(low, high);
        if exceeds(catches, middle) > FALSE_ALARM {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The chance that a Gamma distribution of this shape exceeds a value: that of fewer than so many events of a Poisson
/// process in that time.
fn exceeds(shape: u32, value: f64) -> f64 {
    let mut term = (-value).exp();
    let mut sum = 0.0;
    for number in 0..shape {
        sum += term;
        term *= value / f64::from(number + 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the distribution is the one that tables have: half of the chi-squared one of twice the degrees of freedom.
    #[test]
    fn quantiles_are_those_of_tables() {
        for (shape, value, chance) in [(1, 6.908, 0.001), (4, 13.062, 0.001), (6, 1.785, 0.99)] {
            assert!((exceeds(shape, value) - chance).abs() < 2e-4, "{shape}");
        }
        assert!((exceeds(CATCHES, most(CATCHES)) - FALSE_ALARM).abs() < 1e-6);
    }

    /// The share of tests that fail where catches take so many times as many attempts as usual, each by a geometric distribution.
    fn alarms(catches: u32, times: f64) -> f64 {
        const TESTS: u32 = 20_000;
        let mut random = fastrand::Rng::with_seed(1);
        let most = most(catches);
        let failed = (0..TESTS).filter(|_| {
            let sum: f64 = (0..catches)
                .map(|_| (-random.f64().ln() * times).min(AT_MOST))
                .sum();
            sum > most
        });
        failed.count() as f64 / f64::from(TESTS)
    }

    /// Check that a tenfold loss is seen as often as said, half of the time by the four catches that a program has, and that no loss
    /// is no alarm, even where catches take twice as long.
    #[test]
    fn tenfold_losses_are_seen() {
        assert!(alarms(CATCHES, 10.0) > 0.95);
        assert!(alarms(4, 10.0) > 0.4);
        assert!(alarms(CATCHES, 2.0) < 0.05);
        assert!(alarms(4, 2.0) < 0.01);
        assert!(alarms(CATCHES, 1.0) <= 2.0 * FALSE_ALARM);
    }

    /// Check that what took too much is an error, that one unlucky catch is none, and that nothing caught at all is one.
    #[test]
    fn too_much_is_an_error() {
        let judged = |catches: &[f64]| {
            let mut luck = Luck::new("it", 10.0);
            for &waits in catches {
                luck.note(Spent::new(0.0, waits, 0.0), true);
            }
            luck.judge()
        };
        assert!(judged(&[25.0; 4]).is_ok());
        assert!(judged(&[1000.0, 10.0, 10.0, 10.0]).is_ok());
        assert!(judged(&[50.0; 4]).is_err());
        let mut luck = Luck::new("it", 10.0);
        luck.note(Spent::new(0.0, 1.0, 0.0), false);
        assert!(luck.judge().is_err());
    }
}
