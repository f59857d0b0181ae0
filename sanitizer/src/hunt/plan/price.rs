//! What actions cost, in time and of the budget.

use super::{action::Then, purse::Purse};

/// What things cost.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// What a second of budget is worth in seconds of time.
    pub of_budget: f64,
    /// To wait for somebody costs so much of the budget, s.
    pub wait_s: f64,
    /// To stop somebody, besides the time for which one stands.
    pub stop_s: f64,
    /// What a wait costs is earned in so much time, s.
    pub earned_in_s: f64,
}

impl Price {
    /// The more is left of the budget, the cheaper it is: what cannot be saved is lost. Where nothing is left, time is free.
    #[must_use]
    pub fn of(purse: &Purse, (wait_s, stop_s): (f64, f64)) -> Self {
        /// How much dearer it is by e, for a part of the savings.
        const STEEPNESS: f64 = 8.0;
        const MOST: f64 = 8.0;
        let short = 0.5 - purse.left_s / purse.most_s;
        let of_budget = (STEEPNESS * short).clamp(-MOST, MOST).exp() / purse.income;
        Self {
            of_budget,
            wait_s,
            stop_s,
            earned_in_s: wait_s / purse.income,
        }
    }

    /// Of doing that with a thread that stands.
    #[must_use]
    pub fn of_stopped(&self, then: Then) -> f64 {
        let (hold, look) = then.times();
        self.cost(
            (hold + look).as_secs_f64(),
            self.wait_s + hold.as_secs_f64(),
        )
    }

    /// Of so much time and budget.
    #[must_use]
    pub fn cost(&self, time_s: f64, budget_s: f64) -> f64 {
        time_s + self.of_budget * budget_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that budget costs nothing while it would be lost, and time nothing while none is left.
    #[test]
    fn prices_follow_the_purse() {
        let price = |left_s| {
            let purse = Purse {
                left_s,
                income: 0.02,
                most_s: 0.02,
                credit_s: 0.005,
            };
            Price::of(&purse, (0.5e-3, 1e-3)).of_budget
        };
        assert!(price(0.02) < 2.0 && price(0.01) == 50.0 && price(-0.005) > 1e4);
    }
}
