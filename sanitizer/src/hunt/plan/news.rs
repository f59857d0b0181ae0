//! Whether what is caught at a site is news.

use super::{counts::Counts, posterior::Beta, prior};

/// Whether a race that is caught at a site is one that was not known. Either there is none left there, or it is a part of those that are caught, of
/// which nothing is known but how many catches in turn were others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct News {
    /// Something was caught there.
    is_known: f64,
    /// Catches that were news, and those that were not.
    news: f64,
    known: f64,
}

impl News {
    /// Of what was seen.
    #[must_use]
    pub fn of(counts: &Counts) -> Self {
        Self {
            is_known: counts.caught.min(1.0),
            news: counts.news,
            known: (counts.caught - counts.news).max(0.0),
        }
    }

    /// How likely it is, where news are such a part of catches while there are any.
    fn with(self, part: f64) -> f64 {
        // The more there were, the likelier there are more.
        let odds = prior::MORE.exp() * self.news.max(1.0) / (1.0 + self.known);
        let is_left = odds / (1.0 + odds);
        self.is_known * is_left * part + (1.0 - self.is_known)
    }

    fn part(self) -> Beta {
        Beta {
            yes: 1.0,
            no: 1.0 + self.known,
        }
    }

    /// No more is to be expected.
    #[must_use]
    pub fn at_most(self) -> f64 {
        self.with(1.0)
    }

    /// What is to be expected.
    #[must_use]
    pub fn mean(self) -> f64 {
        self.with(self.part().mean())
    }

    /// A value by chance, as likely as it is thought to be.
    pub fn draw(self, random: &mut fastrand::Rng) -> f64 {
        self.with(self.part().draw(random))
    }
}
