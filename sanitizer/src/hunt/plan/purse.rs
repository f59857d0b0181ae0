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
