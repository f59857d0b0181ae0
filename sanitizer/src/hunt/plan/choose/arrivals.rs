//! Threads that come to sites at which probes stand: what it may bring to stop the next one.

use std::time::Duration;

use super::{ByWorth, Choice};
use crate::hunt::plan::{action::Deed, prior, worth::Price};

/// How long it is waited for one.
const ARRIVAL: Duration = Duration::from_millis(50);

impl ByWorth {
    /// Whoever comes next to any of them.
    pub(super) fn of_arrivals(&mut self, price: &Price) -> Option<Choice> {
        if self.known.standing == 0 {
            return None;
        }
        let (races, budget, time) = self.known.arrivals.draw_from(
            prior::ARRIVAL,
            ARRIVAL.as_secs_f64(),
            price.stop_s,
            &mut self.random,
        );
        Some(Choice {
            worth: races / price.cost(time, budget),
            deed: Deed::Arrival { at_most: ARRIVAL },
            kind: None,
        })
    }

    /// Somebody was stopped who was not waited for at a site; so many races are to be expected of it.
    pub(super) fn has_stopped(&mut self, now: f64, races: f64) {
        let deed = self.known.hand.as_ref().map(|hand| &hand.deed);
        let is_arrival = matches!(deed, Some(Deed::Arrival { .. }));
        if is_arrival {
            self.known.arrivals.stopped(now, races);
        } else {
            self.known.samples.stopped(now, races);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::plan::{
        Planner as _,
        event::{Event, What},
        purse::Purse,
    };

    /// Check that arrivals are asked for only where probes stand, and that what has come of them is learned of them alone: where nothing does, they become rare.
    #[test]
    fn arrivals_are_learned() {
        let purse = Purse {
            left_s: 0.02,
            most_s: 0.02,
            income: 0.02,
            credit_s: 0.005,
        };
        let mut planner = ByWorth::new(1);
        let mut now = Duration::ZERO;
        let mut asked = |planner: &mut ByWorth, times: usize| {
            let mut arrivals = 0;
            for _ in 0..times {
                let action = planner.decide(now, &purse);
                let of = Some(action.id);
                now += ARRIVAL;
                if matches!(action.deed, Deed::Arrival { .. }) {
                    arrivals += 1;
                    // It stands before nothing.
                    assert_eq!(planner.stopped(now, &[], None), None);
                } else {
                    let waited = ARRIVAL;
                    let what = What::NoSample { waited };
                    planner.observe(now, &Event { of, what });
                }
                let what = What::Cost(1e-3);
                planner.observe(now, &Event { of, what });
            }
            arrivals
        };
        assert_eq!(asked(&mut planner, 50), 0);
        let what = What::Standing { sites: 100 };
        planner.observe(Duration::ZERO, &Event { of: None, what });
        let first = asked(&mut planner, 50);
        assert!((1..50).contains(&first), "{first}");
        asked(&mut planner, 300);
        let last = asked(&mut planner, 50);
        assert!(last < first, "{first}, then {last}");
    }
}
