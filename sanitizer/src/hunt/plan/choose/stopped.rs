//! Threads that were stopped wherever they came, by a sample or at a probe: what is done with one is decided when it stands.

use super::ByWorth;
use crate::hunt::plan::{
    action::{Deed, Then},
    event::SiteId,
    worth::{Guess, best_of_stopped},
};

impl ByWorth {
    /// What to do with a thread that a sample has stopped, at one of the sites to which it may come.
    pub(super) fn of_stopped(&mut self, now: f64, ahead: &[SiteId]) -> Option<(SiteId, Then)> {
        let price = self.hand?.price;
        let hand = self.known.hand.as_ref();
        // At a probe somebody is stopped only where that is to be expected to be worth it: what is to be done then follows from the same.
        let is_expected = hand.is_some_and(|hand| matches!(hand.deed, Deed::Arrival { .. }));
        let Some(first) = ahead.first() else {
            self.has_stopped(now, 0.0);
            return None;
        };
        let mut best = (0.0, (*first, Then::LetGo));
        let (mut expected, mut of_kind) = (0.0, None);
        for site in ahead {
            let Some(number) = self.known.catalogue.number(*site) else {
                continue;
            };
            let kind = Some(self.known.kind(number));
            let trust = self.trust(kind, now);
            let (belief, look) = self.thought(number, now);
            let mean = Guess::mean(&belief, None, look);
            let guess = if is_expected {
                mean
            } else {
                Guess {
                    look: mean.look,
                    ..Guess::draw(&belief, None, look, &mut self.random)
                }
            };
            let (gain, then) = best_of_stopped(&guess, &price, self.pace.worth() / trust);
            if trust * gain > best.0 {
                best = (trust * gain, (*site, then));
                (expected, of_kind) = (mean.brings(then, false), kind);
            }
        }
        let trusted = self.trust(of_kind, now) * expected;
        self.has_stopped(now, trusted);
        if let Some(hand) = &mut self.hand {
            (hand.expected, hand.kind) = (expected, of_kind);
        }
        Some(best.1)
    }

    /// Somebody was stopped who was not waited for at a site; so many races are to be expected of it.
    fn has_stopped(&mut self, now: f64, races: f64) {
        let deed = self.known.hand.as_ref().map(|hand| &hand.deed);
        if matches!(deed, Some(Deed::Sample { .. })) {
            self.known.samples.stopped(now, races);
        }
    }
}
