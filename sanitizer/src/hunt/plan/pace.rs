//! What the planner's actions bring for what they cost.

/// What actions bring for what they cost, lately: races that were to be expected, not those that were found, which are few.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    races: f64,
    cost: f64,
}

impl Pace {
    /// An action of which so many races were to be expected has cost so much.
    pub(super) fn add(&mut self, races: f64, cost: f64) {
        /// What is left of it with each action.
        const FADES: f64 = 0.98;
        self.races = FADES * self.races + races;
        self.cost = FADES * self.cost + cost;
    }

    /// Races for what they cost.
    pub(super) fn worth(self) -> f64 {
        if self.cost > 0.0 {
            self.races / self.cost
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what actions bring is that of the last ones, and nothing before there were any.
    #[test]
    fn paces_are_of_late() {
        let mut pace = Pace::default();
        assert_eq!(pace.worth(), 0.0);
        for (races, expected) in [(0.2, 0.1), (0.0, 0.0), (0.4, 0.2)] {
            for _ in 0..1000 {
                pace.add(races, 2.0);
            }
            assert!((pace.worth() - expected).abs() < 1e-6, "{}", pace.worth());
        }
    }
}
