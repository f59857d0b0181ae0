//! Threads that come to sites at which probes stand: what it may bring to stop the next one, and where one is let pass.

use std::time::Duration;

use super::{ByWorth, Choice, Contest};
use crate::hunt::plan::{
    action::Deed,
    catalogue::{CLASSES, Number},
    posterior::Gamma,
    price::Price,
    trust::Kind,
    worth::{Guess, best_of_stopped},
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
            let guess = Guess::mean(&belief, None, look);
            let guess = Guess {
                lambda: Gamma {
                    events: count as f64 * guess.lambda.events,
                    ..guess.lambda
                },
                ..guess
            };
            let (bar, trust) = self.least_of(Kind::Cold, now, choices);
            all.add(&guess, price, bar, trust);
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
        let guess = Guess::mean(&belief, None, look);
        let (bar, trust) = self.least_of(kind, now, choices);
        all.add(&guess, price, bar, trust)
    }

    /// What somebody who comes to a site must be worth: more than what else there is to be done, and than what would have him let go when he stands; and what part of what is expected there comes true.
    fn least_of(&self, kind: Kind, now: f64, choices: &Contest) -> (f64, f64) {
        let trust = self.trust(Some(kind), now);
        (choices.bar(kind).0.max(self.pace.worth() / trust), trust)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::plan::{
        Planner as _,
        action::ActionId,
        event::{Event, FunctionId, SiteFacts, SiteId, StallEnd, Stood, What},
        purse::Purse,
    };

    const SITES: u64 = 40;

    fn hear(planner: &mut ByWorth, of: Option<ActionId>, now: Duration, what: What) {
        planner.observe(now, &Event { of, what });
    }

    fn told(site: u64, lasted: Duration, count: u32) -> Stood {
        Stood {
            site: SiteId(site),
            lasted,
            count,
            stands: true,
        }
    }

    /// A planner of a program in which probes stand at all sites.
    fn planner() -> ByWorth {
        let mut planner = ByWorth::new(1);
        let facts = (0..SITES).map(|site| SiteFacts {
            site: SiteId(site),
            function: FunctionId(site),
            writes: site % 2 == 0,
            variable: None,
            member: None,
            can_be_probed: true,
        });
        hear(
            &mut planner,
            None,
            Duration::ZERO,
            What::Code(facts.collect()),
        );
        planner
    }

    fn stand(planner: &mut ByWorth, stands: bool) {
        let all = (0..SITES).map(|site| Stood {
            stands,
            ..told(site, Duration::ZERO, 0)
        });
        hear(planner, None, Duration::ZERO, What::Stood(all.collect()));
    }

    fn decide(planner: &mut ByWorth, now: Duration) -> (ActionId, Deed) {
        let purse = Purse {
            left_s: 0.02,
            most_s: 0.02,
            income: 0.02,
            credit_s: 0.005,
        };
        let action = planner.decide(now, &purse);
        (action.id, action.deed)
    }

    /// Check that nobody is waited for at probes where there are none, nor where none stands any more, and at no site by a breakpoint where one stands.
    #[test]
    fn a_probe_is_enough() {
        let mut planner = planner();
        let (mut at_sites, mut arrivals) = ([0; 3], [0; 3]);
        for round in 0..3 {
            for _ in 0..50 {
                let now = Duration::from_secs(round);
                let (id, deed) = decide(&mut planner, now);
                at_sites[round as usize] += u32::from(matches!(deed, Deed::Wait { .. }));
                arrivals[round as usize] += u32::from(matches!(deed, Deed::Arrival { .. }));
                hear(&mut planner, Some(id), now, What::Cost(0.0));
            }
            stand(&mut planner, round == 0);
        }
        assert!(
            at_sites[0] > 0 && at_sites[1] == 0 && at_sites[2] > 0,
            "{at_sites:?}"
        );
        assert!(
            arrivals[0] == 0 && arrivals[1] > 0 && arrivals[2] == 0,
            "{arrivals:?}"
        );
    }

    /// Check that who comes to a site where nobody else uses the bytes is let pass by and by, that whoever comes to others is not, and that it is learned of each how often that is.
    #[test]
    fn what_tells_no_more_is_let_pass() {
        let mut planner = planner();
        stand(&mut planner, true);
        let mut now = Duration::ZERO;
        let mut stops = 0;
        for _ in 0..300 {
            now += Duration::from_secs(1);
            let all =
                (0..SITES).map(|site| told(site, Duration::from_secs(1), u32::from(site == 7)));
            hear(&mut planner, None, now, What::Stood(all.collect()));
            let (id, deed) = decide(&mut planner, now);
            let is_spared = match deed {
                Deed::Arrival { but, .. } => but.contains(&SiteId(7)),
                _ => true,
            };
            let stopped = (!is_spared).then(|| planner.stopped(now, &[SiteId(7)], None));
            if let Some((site, then)) = stopped.flatten() {
                stops += 1;
                let (lasted, look) = then.times();
                let end = StallEnd::Quiet;
                if !lasted.is_zero() {
                    hear(
                        &mut planner,
                        Some(id),
                        now,
                        What::Held { site, lasted, end },
                    );
                }
                let what = What::Looked {
                    site,
                    lasted: look,
                    users: Vec::new(),
                    is_private: true,
                };
                hear(&mut planner, Some(id), now, what);
            }
            hear(&mut planner, Some(id), now, What::Cost(2e-3));
        }
        assert!((1..30).contains(&stops), "{stops}");
        let number = |site| {
            planner
                .known()
                .catalogue
                .number(SiteId(site))
                .expect("it is known")
        };
        let rate = |site| {
            planner
                .known()
                .belief(number(site), now.as_secs_f64())
                .lambda
                .mean()
        };
        assert!((0.8..1.2).contains(&rate(7)) && rate(8) < 0.01);
    }
}
