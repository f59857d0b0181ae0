//! What may be spent beside the watching itself: CPU time that is earned as time passes, some of it in advance.

use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub struct Allowance {
    /// Seconds of CPU time a second.
    rate: f64,
    /// Seconds of it that can be saved, or owed.
    most: f64,
    /// Seconds of CPU time; less than 0 where more was spent than earned.
    left: f64,
    as_of: Instant,
}

impl Allowance {
    /// `rate`: what is earned, as a share of the time; `advance`: what may be spent before that, and what can be saved.
    #[must_use]
    pub const fn new(rate: f64, advance: Duration, now: Instant) -> Self {
        Self {
            rate,
            most: advance.as_secs_f64(),
            left: advance.as_secs_f64(),
            as_of: now,
        }
    }

    /// Spends CPU time.
    pub fn spend(&mut self, cpu: Duration) {
        self.left -= cpu.as_secs_f64();
    }

    /// Takes back that some was spent.
    pub fn give_back(&mut self, cpu: Duration) {
        self.left += cpu.as_secs_f64();
    }

    /// Whether more than this is left.
    pub fn has_more(&mut self, cpu: Duration, now: Instant) -> bool {
        self.has(now) && self.left > cpu.as_secs_f64()
    }

    /// Whether something is left.
    pub fn has(&mut self, now: Instant) -> bool {
        let earned = now.saturating_duration_since(self.as_of).as_secs_f64() * self.rate;
        self.as_of = now;
        // A debt is forgotten in time: what cannot be avoided must not keep everything else from being done for ever.
        self.left = (self.left + earned).clamp(-self.most, self.most);
        self.left > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the advance can be spent once, and that as much is earned as the budget says.
    #[test]
    fn what_is_spent_is_earned() {
        const ADVANCE: Duration = Duration::from_millis(20);
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut allowance = Allowance::new(0.001, ADVANCE, begin);
        assert!(allowance.has(begin));
        assert!(allowance.has_more(ADVANCE / 2, begin) && !allowance.has_more(ADVANCE, begin));
        allowance.spend(ADVANCE + Duration::from_millis(5));
        assert!(!allowance.has(at(1)));
        assert!(!allowance.has(at(4)));
        assert!(allowance.has(at(6)));
        allowance.spend(Duration::from_secs(100));
        assert!(!allowance.has(at(15)));
        assert!(allowance.has(at(40)));
    }
}
