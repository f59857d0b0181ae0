//! How far what the model promises of sites comes true, by their kind: it knows of no site that it is not like the others.

use super::{counts::left_of, prior};

/// Kinds of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One that was never tried.
    Untried,
    /// One at which nothing was found.
    Tried,
    /// One whose bytes others use.
    Contended,
    /// One of the first two to which hardly anybody comes: a probe stands there.
    Cold,
}

/// How many kinds there are.
pub(super) const KINDS: usize = 4;

/// What was expected at sites of one kind, and what has come of it, in races. Both fade by the same half-life.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trust {
    expected: f64,
    came: f64,
    as_of_s: f64,
}

impl Trust {
    /// Something has come of one, of which so much was expected.
    pub(super) fn add(&mut self, now: f64, expected: f64, came: f64) {
        let left = left_of(self.as_of_s, now, prior::HALF_LIFE);
        self.expected = self.expected * left + expected;
        self.came = self.came * left + came;
        self.as_of_s = self.as_of_s.max(now);
    }

    /// What part of what is expected comes true.
    pub(super) fn at(&self, now: f64) -> f64 {
        let left = left_of(self.as_of_s, now, prior::HALF_LIFE);
        (prior::TRUST + self.came * left) / (prior::TRUST + self.expected * left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what does not come true is trusted less, what does is not, and that both are forgotten.
    #[test]
    fn promises_count() {
        let mut trust = Trust::default();
        assert_eq!(trust.at(0.0), 1.0);
        for _ in 0..30 {
            trust.add(0.0, 0.1, 0.0);
        }
        assert!((trust.at(0.0) - 0.25).abs() < 1e-9);
        trust.add(0.0, 1.0, 4.0);
        assert!((trust.at(0.0) - 1.0).abs() < 1e-9);
        trust.add(0.0, 100.0, 0.0);
        assert!(trust.at(0.0) < 0.06 && trust.at(30.0 * prior::HALF_LIFE) > 0.99);
    }
}
