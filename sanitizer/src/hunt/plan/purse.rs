//! What may be spent: a share of the program's CPU time, as [`crate::hunt::budget`] keeps it.

use serde::{Deserialize, Serialize};

/// The budget as a planner sees it, in seconds of the program's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Purse {
    /// What is left. Below zero that much is owed, and nobody is stopped who would cost more than [`Purse::credit_s`].
    pub left_s: f64,
    /// What is earned in a second.
    pub income: f64,
    /// No more than this is saved: what is earned beyond it is lost.
    pub most_s: f64,
    /// So much may be owed for a thread that is worth it.
    pub credit_s: f64,
}

impl Purse {
    /// The same of savings, where nothing is earned until `ahead_s` was earned once more, and all is over in `time_s`. What is left then is lost, and nothing before that: so a second may cost what is left and what comes in after all,
    /// evenly over that time, whether the savings are large or small.
    #[must_use]
    pub fn saved(self, ahead_s: f64, time_s: f64) -> Self {
        /// Of a shorter time nothing is made any more.
        const SHORTEST_S: f64 = 1.0;
        if self.left_s <= 0.0 {
            return self;
        }
        let time_s = time_s.max(SHORTEST_S);
        let earned = (self.income * time_s - ahead_s).max(0.0);
        Self {
            income: (self.left_s + earned) / time_s,
            most_s: 2.0 * self.left_s,
            ..self
        }
    }

    /// Whether a thread may be stopped now.
    #[must_use]
    pub fn may_stop(&self) -> bool {
        self.left_s > -self.credit_s
    }

    /// Seconds until something is left.
    #[must_use]
    pub fn until_left_s(&self) -> f64 {
        if self.left_s > 0.0 || self.income <= 0.0 {
            0.0
        } else {
            -self.left_s / self.income
        }
    }
}
