//! Locks for which threads were seen to wait.

use std::collections::VecDeque;

use gwp_race_abi::LOCKS;

/// Of 256 stalls of a thread for whose lock others wait, so many are not cut short: somebody may forget the lock.
const IN_FULL: u8 = 64;
/// Of 256 times, so often whoever comes is made to stand, whatever it holds.
const ANYBODY: u8 = 64;

/// The last ones, as the gate wants them, the last one first.
#[derive(Debug, Default)]
pub struct WaitedFor(VecDeque<u64>);

impl WaitedFor {
    /// A thread waits for a lock.
    pub fn note(&mut self, lock: u64) {
        self.0.retain(|known| *known != lock);
        self.0.truncate(LOCKS - 1);
        self.0.push_front(lock);
    }

    /// Forgets the older half of them: something else may be there by now.
    pub fn decay(&mut self) {
        self.0.truncate(self.0.len() / 2);
    }

    /// Forgets all.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }

    /// Whether a stall ends early, this time, since others wait for a lock of the stalled thread: they cannot race with it.
    #[must_use]
    pub fn cuts_short(random: &mut fastrand::Rng) -> bool {
        random.u8(..) >= IN_FULL
    }

    /// Whether those are spared, this time, who hold such a lock: others would wait for it again.
    #[must_use]
    pub fn spares_holders(random: &mut fastrand::Rng) -> bool {
        random.u8(..) >= ANYBODY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the last locks are remembered, each once.
    #[test]
    fn locks_are_remembered() {
        let mut locks = WaitedFor::default();
        for futex in 1..=3 * LOCKS as u64 {
            locks.note(futex);
            locks.note(1);
        }
        assert_eq!(locks.all().count(), LOCKS);
        assert!(locks.all().take(2).eq([1, 3 * LOCKS as u64]));
        locks.decay();
        assert_eq!(locks.all().count(), LOCKS / 2);
        locks.forget();
        assert!(locks.is_empty());
    }
}
