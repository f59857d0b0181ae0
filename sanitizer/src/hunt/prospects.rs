//! Whether stalls at reading or at writing sites find races in this program, where two threads were seen to use the
//! same bytes. If all who write hold a lock and some who read do not, only stalls of those who read do: whoever writes makes the
//! others wait for the lock.

use super::strategy::Outcome;

/// What is thought of each kind before any stall: so many of so many stalls find somebody.
const FOUND: f64 = 1.0;
const TRIED: f64 = 4.0;
/// Stalls of each kind until they are compared.
const FEW: f64 = 8.0;
/// The least that is expected of one, of what is expected of the other.
const LEAST: f64 = 0.25;
/// What a forgetting leaves of what was seen.
const KEPT: f64 = 0.9;

/// See the module.
#[derive(Debug, Default)]
pub struct Prospects {
    reading: Seen,
    writing: Seen,
}

#[derive(Debug, Default)]
struct Seen {
    tried: f64,
    found: f64,
}

impl Seen {
    fn expected(&self) -> f64 {
        (self.found + FOUND) / (self.tried + TRIED)
    }
}

impl Prospects {
    /// What came of a stall at a site that writes, or does not.
    pub fn outcome(&mut self, writes: bool, outcome: Outcome) {
        let seen = if writes {
            &mut self.writing
        } else {
            &mut self.reading
        };
        match outcome {
            // A known race shows as well that there is no lock.
            Outcome::Hit(_) | Outcome::Repeat => {
                seen.tried += 1.0;
                seen.found += 1.0;
            }
            Outcome::Quiet | Outcome::Locked => seen.tried += 1.0,
            _ => {}
        }
    }

    /// What is expected of a stall at a site of one kind, of what is at the more promising kind: 1/4 to 1.
    #[must_use]
    pub fn of(&self, writes: bool) -> f64 {
        if self.reading.tried.min(self.writing.tried) < FEW {
            return 1.0;
        }
        let (reading, writing) = (self.reading.expected(), self.writing.expected());
        let expected = if writes { writing } else { reading };
        (expected / reading.max(writing)).max(LEAST)
    }

    /// Forgets a part of it.
    pub fn decay(&mut self) {
        for seen in [&mut self.reading, &mut self.writing] {
            seen.tried *= KEPT;
            seen.found *= KEPT;
        }
    }

    /// Forgets all.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::strategy::Conflict;
    use std::time::Duration;

    const HIT: Outcome = Outcome::Hit(Conflict {
        behind: 0x100,
        distance: Duration::ZERO,
    });

    /// Check that both kinds are the same until one of them proves better, and that the other one is never given up, and
    /// is as good again when it finds as much.
    #[test]
    fn what_finds_promises() {
        let mut prospects = Prospects::default();
        assert_eq!((prospects.of(true), prospects.of(false)), (1.0, 1.0));
        for _ in 0..20 {
            prospects.outcome(true, Outcome::Locked);
            prospects.outcome(false, Outcome::Quiet);
            prospects.outcome(true, Outcome::NotReached);
        }
        assert_eq!((prospects.of(true), prospects.of(false)), (1.0, 1.0));
        for _ in 0..10 {
            prospects.outcome(false, HIT);
            prospects.outcome(false, Outcome::Repeat);
        }
        assert_eq!((prospects.of(true), prospects.of(false)), (LEAST, 1.0));
        for _ in 0..60 {
            prospects.outcome(true, HIT);
        }
        assert!(prospects.of(true) == 1.0 && prospects.of(false) < 0.8);
        for _ in 0..60 {
            prospects.decay();
        }
        assert!(prospects.of(false) > 0.95);
        prospects.forget();
        assert_eq!(prospects.of(false), 1.0);
    }
}
