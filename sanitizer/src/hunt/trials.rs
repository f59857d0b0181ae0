//! How often a kind of choice is made: the less often, the more of its tries were in vain. Of some kinds nothing ever
//! comes in one program, and much in another one.

/// What a forgetting leaves of what was seen. A kind that brings nothing costs something in each minute, so it is not to be
/// taken for new after each of them.
const KEPT: f64 = 0.9;

/// What is thought of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its share before any try, of 1.
    pub first: f64,
    /// The least that it has.
    pub least: f64,
    /// Tries in vain that halve it.
    pub halved_by: f64,
    /// Tries in vain that one find outweighs.
    pub find: f64,
}

/// See the module.
#[derive(Debug)]
pub struct Trials {
    kind: Kind,
    /// Tries in vain, less what finds outweigh: less than none for no more than one of them.
    in_vain: f64,
}

impl Trials {
    /// No try yet.
    pub const fn of(kind: Kind) -> Self {
        Self { kind, in_vain: 0.0 }
    }

    /// It was tried; for how many tries that counts.
    pub fn tried(&mut self, count: f64) {
        self.in_vain += count;
    }

    /// Something was found.
    pub fn found(&mut self) {
        let find = self.kind.find;
        self.in_vain = (self.in_vain - find).max(-find);
    }

    /// The probability with which it is to be chosen.
    #[must_use]
    pub fn share(&self) -> f64 {
        let in_vain = self.in_vain.max(0.0);
        (self.kind.first / (1.0 + in_vain / self.kind.halved_by)).max(self.kind.least)
    }

    /// Forgets a part of what was seen.
    pub fn decay(&mut self) {
        self.in_vain *= KEPT;
    }

    /// Forgets all.
    pub const fn forget(&mut self) {
        *self = Self::of(self.kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that tries in vain make a kind rarer, down to its least share, that finds outweigh them, and that it gets its
    /// first share back by and by, not at once.
    #[test]
    fn what_is_in_vain_gets_rarer() {
        let mut trials = Trials::of(Kind {
            first: 0.5,
            least: 0.05,
            halved_by: 8.0,
            find: 2.0,
        });
        assert_eq!(trials.share(), 0.5);
        for _ in 0..8 {
            trials.tried(1.0);
        }
        assert_eq!(trials.share(), 0.25);
        // However much was found before, it is soon noticed that nothing is any more.
        for _ in 0..400 {
            trials.found();
        }
        assert_eq!(trials.share(), 0.5);
        for _ in 0..10 {
            trials.tried(1.0);
        }
        assert_eq!(trials.share(), 0.25);
        for _ in 0..1000 {
            trials.tried(0.25);
        }
        assert_eq!(trials.share(), 0.05);
        trials.decay();
        assert_eq!(trials.share(), 0.05);
        for _ in 0..60 {
            trials.decay();
        }
        assert!(trials.share() > 0.45);
        trials.tried(1000.0);
        trials.forget();
        assert_eq!(trials.share(), 0.5);
    }
}
