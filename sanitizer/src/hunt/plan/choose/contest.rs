//! What is thought of doing, of which only the best is of interest: so whatever cannot be better than what is the best so far need not be thought through.

use crate::hunt::plan::{
    action::Deed,
    trust::{KINDS, Kind},
    worth::Bar,
};

/// What is thought of doing.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) worth: f64,
    pub(super) deed: Deed,
    /// At what kind of site, if it is at one.
    pub(super) kind: Option<Kind>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Contest {
    /// How far what is expected at sites of each kind comes true.
    trust: [f64; KINDS],
    /// The best, whose worth is what may be trusted.
    best: Option<Choice>,
}

impl Contest {
    pub(super) const fn new(trust: [f64; KINDS]) -> Self {
        Self { trust, best: None }
    }

    fn trust(&self, kind: Option<Kind>) -> f64 {
        kind.map_or(1.0, |kind| self.trust[kind as usize])
    }

    /// One more.
    pub(super) fn push(&mut self, choice: Choice) {
        let worth = choice.worth * self.trust(choice.kind);
        if worth > self.bar_s() {
            self.best = Some(Choice { worth, ..choice });
        }
    }

    /// What is worth something is worth more than this; nothing is as good as not to do it.
    fn bar_s(&self) -> f64 {
        self.best.as_ref().map_or(0.0, |best| best.worth)
    }

    /// What is to be done at a site of this kind must be worth more than that.
    pub(super) fn bar(&self, kind: Kind) -> Bar {
        Bar(self.bar_s() / self.trust(Some(kind)))
    }

    /// The best of all, if any is worth anything.
    pub(super) fn best(self) -> Option<Choice> {
        self.best
    }
}

impl Extend<Choice> for Contest {
    fn extend<T: IntoIterator<Item = Choice>>(&mut self, choices: T) {
        for choice in choices {
            self.push(choice);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Check that what is trusted most wins, that nothing wins which is worth nothing, and that what has won is what others have to be better than.
    #[test]
    fn the_best_wins() {
        let mut contest = Contest::new([1.0, 0.5, 0.1, 1.0]);
        assert!(contest.bar(Kind::Tried).0 == 0.0);
        let rest = |ms, worth, kind| Choice {
            worth,
            deed: Deed::Rest {
                time: Duration::from_millis(ms),
            },
            kind,
        };
        contest.push(rest(1, 0.0, None));
        assert!(contest.best.is_none());
        contest.extend([
            rest(2, 3.0, Some(Kind::Tried)),
            rest(3, 10.0, Some(Kind::Contended)),
            rest(4, 1.4, None),
        ]);
        assert_eq!(contest.bar(Kind::Untried).0, 1.5);
        assert_eq!(contest.bar(Kind::Tried).0, 3.0);
        let best = contest.best().map(|best| best.deed);
        assert_eq!(
            best,
            Some(Deed::Rest {
                time: Duration::from_millis(2)
            })
        );
    }
}
