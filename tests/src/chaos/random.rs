//! Random instants that a seed repeats, as far as a machine can be repeated.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.number().is_multiple_of(times)
    }

    /// Any time below a limit, to the microsecond.
    pub fn below(&mut self, limit: Duration) -> Duration {
        Duration::from_micros(self.number() % (limit.as_micros() as u64).max(1))
    }

    /// A time below 2^`doublings` times the shortest; each doubling is equally likely, so that
    /// short ones are frequent and long ones occur.
    pub fn spread(&mut self, shortest: Duration, doublings: u64) -> Duration {
        let scale = 1u32 << (self.number() % doublings);
        shortest * scale + self.below(shortest * scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a seed repeats, and that times stay in their range and fill it.
    #[test]
    fn times_fill_their_range() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| one.number() == other.number()));
        let shortest = Duration::from_millis(1);
        let spans: Vec<_> = (0..1000).map(|_| one.spread(shortest, 12)).collect();
        assert!(
            spans
                .iter()
                .all(|span| *span >= shortest && *span < shortest * 4096)
        );
        assert!(spans.iter().any(|span| *span < shortest * 4));
        assert!(spans.iter().any(|span| *span > shortest * 2048));
    }
}
