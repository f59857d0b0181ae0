//! Threads that are off their processors: what it may bring to take one of them, and which.

use std::time::Duration;

use super::{ByWorth, Choice, Contest};
use crate::hunt::plan::{
    action::{Candidate, Deed, Then},
    price::Price,
    prior,
    worth::{Guess, best_of_preempted},
};

impl ByWorth {
    /// One of the threads that are off their processors, whichever is worth most of those that there will be.
    pub(super) fn of_preempted(&mut self, price: &Price, choices: &mut Contest) {
        if !self.known.sees_preempted {
            return;
        }
        let (races, budget, time) =
            (self.known.preempted).draw(prior::PREEMPTED_TIME, price.wait_s, &mut self.random);
        choices.push(Choice {
            worth: races / price.cost(time, budget),
            deed: Deed::Preempted,
            kind: None,
        });
    }

    /// Which of them is taken, if any, and for how long.
    pub(super) fn best_preempted(
        &mut self,
        now: f64,
        all: &[Candidate],
    ) -> Option<(usize, Duration)> {
        let price = self.hand?.price;
        let mut best: Option<(f64, (usize, Duration))> = None;
        let (mut expected, mut of_kind) = (0.0, None);
        for (index, candidate) in all.iter().enumerate() {
            let Some(number) = self.known.catalogue.number(candidate.site) else {
                continue;
            };
            let kind = Some(self.known.kind(number));
            let trust = self.trust(kind, now);
            let (belief, _) = self.thought(number, now);
            // Nobody is looked at afterwards.
            let guess = Guess::draw(&belief, None, 0.0, &mut self.random);
            let (worth, at_most) = best_of_preempted(&guess, &price, candidate.left);
            if trust * worth > best.map_or(0.0, |best| best.0) {
                best = Some((trust * worth, (index, at_most)));
                let hold = Then::Hold {
                    at_most,
                    look: Duration::ZERO,
                };
                expected = Guess::mean(&belief, None, 0.0).brings(hold, false);
                of_kind = kind;
            }
        }
        let trusted = self.trust(of_kind, now) * expected;
        self.known.preempted.stopped(now, trusted);
        if let Some(hand) = &mut self.hand {
            (hand.expected, hand.kind) = (expected, of_kind);
        }
        best.map(|(_, chosen)| chosen)
    }
}
