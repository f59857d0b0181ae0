//! Catching a race takes luck. What is shown of it is a count, not a time: so many attempts, stalls and waits for
//! one, have led to so many catches. That bounds the rate, where one success in several tries does not.

use std::ops::{AddAssign, Mul};

use anyhow::{Result, bail};

use crate::{Outcome, Report};

/// How often a test fails that has nothing to complain of but bad luck, at most.
const FALSE_ALARM: f64 = 1e-4;
/// Catches of one kind where a loss is to be seen for certain: where they have come to take ten times as many attempts,
/// 997 tests of 1,000 fail.
pub const CATCHES: u32 = 8;

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
        }
    }

    /// Takes note of a run until the first race; whether there was one.
    pub fn add(&mut self, outcome: &Outcome) -> bool {
        let races = &outcome.report.races;
        let (what, spent) = (&self.what, Spent::from(&outcome.report));
        self.tries += 1;
        self.caught += u32::from(!races.is_empty());
        self.spent += spent;
        let tries = self.tries;
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
        let Self {
            what,
            usual,
            caught,
            tries,
            spent,
        } = self;
        let (attempts, most) = (spent.attempts(), usual * most(*caught));
        println!(
            "{what}: {attempts} attempts for {caught} catches in {tries} tries; at most {most:.0}, of {usual} each"
        );
        if attempts > most {
            bail!(
                "{what}: {caught} catches took {attempts} attempts. Of some {usual} that each takes it would be \
                 {most:.0} at most in all but one of 10,000 tests"
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
            if self.spent.attempts() > enough || self.tries >= 2 * CATCHES {
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
/// The attempts that one takes are distributed geometrically, so their sum over their mean follows the Gamma
/// distribution of that shape, or is closer to its mean.
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

    /// Check that a tenfold loss is seen as often as said, also by the four catches that a program has.
    #[test]
    fn tenfold_losses_are_seen() {
        assert!(exceeds(CATCHES, most(CATCHES) / 10.0) > 0.997);
        assert!(exceeds(4, most(4) / 10.0) > 0.9);
    }

    /// Check that what took too much is an error, and what did not is none.
    #[test]
    fn too_much_is_an_error() {
        let caught = |waits| Luck {
            caught: 4,
            tries: 4,
            spent: Spent {
                waits,
                ..Spent::default()
            },
            ..Luck::new("it", 10.0)
        };
        assert!(caught(100.0).judge().is_ok());
        assert!(caught(200.0).judge().is_err());
        assert!(
            Luck {
                caught: 0,
                ..caught(1.0)
            }
            .judge()
            .is_err()
        );
    }
}
