//! What a simulated hunt may spend, by when.

use crate::hunt::plan::purse::Purse;

use super::costs::{CREDIT_S, MOST_ADVANCE_S, SAVINGS_S};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// Earned in a second, s.
    income: f64,
    /// What may be spent, by now; savings are cut.
    left: f64,
    /// Until when that is.
    settled: f64,
}

impl Account {
    /// One of so much in a second, s.
    pub(super) fn new(income: f64) -> Self {
        Self {
            income,
            left: income.min(MOST_ADVANCE_S),
            settled: 0.0,
        }
    }

    /// Nothing was earned before this time, s.
    pub(super) const fn begins_at(&mut self, now: f64) {
        self.settled = now;
    }

    /// Earns what has come in until now.
    pub(super) fn earn(&mut self, now: f64) {
        let most = self.left.max(SAVINGS_S);
        let earned = (now - self.settled) * self.income;
        self.left = (self.left + earned).min(most);
        self.settled = now;
    }

    pub(super) const fn spend(&mut self, seconds: f64) {
        self.left -= seconds;
    }

    /// How long nobody who comes is stopped, since too much is owed, s.
    pub(super) fn owed_for_s(&self) -> f64 {
        (-self.left - CREDIT_S).max(0.0) / self.income
    }

    /// The same for a planner.
    pub(super) const fn purse(&self) -> Purse {
        Purse {
            left_s: self.left,
            income: self.income,
            most_s: SAVINGS_S,
            credit_s: CREDIT_S,
        }
    }
}
