//! Threads that come to sites at which probes stand: what it may bring to stop the next one, and where one is let pass.

use std::time::Duration;

use super::{ByWorth, Choice, Contest};
use crate::hunt::plan::{
    action::Deed,
    belief::Belief,
    catalogue::{CLASSES, Number},
    posterior::Gamma,
    trust::Kind,
    worth::{Guess, Price, best_of_stopped},
};

/// How long it is waited for one.
const ARRIVAL: Duration = Duration::from_millis(50);
/// Sites that are thought about at a time, at most, of those to which somebody has come.
const VISITED: usize = 16;

/// Of all that is waited for at a time: threads that come in a second; of these, races that are to be expected, and what it costs to stop them.
#[derive(Clone, Copy, Debug, Default)]
struct Coming {
    rate: f64,
    races: f64,
    cost: f64,
}

impl ByWorth {
    /// Whoever comes next to any of them, but for those where that is worth less than what else can be done.
    pub(super) fn of_arrivals(
        &mut self,
        now: f64,
        price: &Price,
        choices: &Contest,
    ) -> Option<Choice> {
        let mut all = Coming::default();
        for class in 0..CLASSES {
            let idle = self.known.catalogue.idle(class);
            if idle.is_empty() {
                continue;
            }
            // All of a class are alike.
            let (number, count) = (idle[self.random.usize(..idle.len())], idle.len());
            let belief = self.of_class(number, class, now);
            let look = self.known.look(number, now);
            let guess = self.of_one(&belief, look);
            let guess = Guess {
                lambda: Gamma {
                    events: count as f64 * guess.lambda.events,
                    ..guess.lambda
                },
                ..guess
            };
            all.add(&guess, price, choices.bar(Kind::Cold).0, self.trust(Some(Kind::Cold), now));
        }
        let mut but = Vec::new();
        let visited = self.known.visited.len();
        let first = if visited > VISITED {
            self.random.usize(..visited)
        } else {
            0
        };
        for index in 0..visited {
            let number = self.known.visited[(first + index) % visited];
            if index >= VISITED || !self.adds(&mut all, number, now, price, choices) {
                but.extend(self.known.catalogue.facts(number).map(|facts| facts.site));
            }
        }
        Some(Choice {
            worth: all.worth(price)?,
            deed: Deed::Arrival {
                but: but.into(),
                at_most: ARRIVAL,
            },
            kind: None,
        })
    }

    /// What is thought of a site as if it were known, but of what a look would tell what is to be expected.
    pub(super) fn of_one(&mut self, belief: &Belief, look: f64) -> Guess {
        Guess {
            look: Guess::mean(belief, None, look).look,
            ..Guess::draw(belief, None, look, &mut self.random)
        }
    }

    /// Whether whoever comes to this one is to be stopped.
    fn adds(
        &mut self,
        all: &mut Coming,
        number: Number,
        now: f64,
        price: &Price,
        choices: &Contest,
    ) -> bool {
        let kind = self.known.kind(number);
        let (belief, look) = self.thought(number, now);
        let guess = self.of_one(&belief, look);
        all.add(&guess, price, choices.bar(kind).0, self.trust(Some(kind), now))
    }
}

impl Coming {
    /// Those who come to a site, if that is worth more than so much; whether it is. `trust`: what part of what is expected comes true.
    fn add(&mut self, guess: &Guess, price: &Price, bar: f64, trust: f64) -> bool {
        let (gain, then) = best_of_stopped(guess, price, bar);
        let cost = price.of_stopped(then) + price.cost(0.0, price.stop_s - price.wait_s);
        let races = guess.brings(then, false);
        if gain <= 0.0 || races <= bar * cost {
            return false;
        }
        let (comes, _) = guess.lambda.within(ARRIVAL.as_secs_f64());
        let rate = -(1.0 - comes).max(1e-9).ln() / ARRIVAL.as_secs_f64();
        self.rate += rate;
        self.races += rate * trust * races;
        self.cost += rate * cost;
        true
    }

    /// Races for what they cost, with the time for which it is waited.
    fn worth(&self, price: &Price) -> Option<f64> {
        if self.rate <= 0.0 {
            return None;
        }
        let comes = 1.0 - (-self.rate * ARRIVAL.as_secs_f64()).exp();
        let each = comes / self.rate;
        Some(each * self.races / (price.cost(each, 0.0) + each * self.cost))
    }
}
