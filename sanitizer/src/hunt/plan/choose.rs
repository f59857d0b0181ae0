//! The planner after the model: of what it could do, it draws for each what that might be worth, and does the best (Thompson sampling). So what is
//! uncertain is tried as often as it may be the best, and no share of anything is set aside for it.

mod arrivals;
mod contest;
mod preempted;
mod profiles;
mod stopped;

use std::time::Duration;

use super::{
    Planner,
    action::{Action, ActionId, Candidate, Deed, Then},
    belief::{Belief, Circumstances, writes},
    catalogue::{CLASSES, Number, is_new},
    counts::Counts,
    event::{AddressId, Event, SiteFacts, SiteId, StallEnd, What},
    pace::Pace,
    price::Price,
    prior,
    purse::Purse,
    trust::{KINDS, Kind, Trust},
    update::{Knowledge, stood::Means},
    worth::{Advance, Guess, Plan, best, best_watch},
};
use contest::{Choice, Contest};

/// Sites that are thought about at a time, at most, of those whose bytes others use.
const CONTENDED: usize = 16;
/// How long a sample is waited for.
const SAMPLE: Duration = Duration::from_millis(30);

/// See the module.
#[derive(Debug)]
pub struct ByWorth {
    random: fastrand::Rng,
    known: Knowledge,
    last: ActionId,
    pace: Pace,
    /// Races that were to be expected of all actions.
    expected: f64,
    hand: Option<Hand>,
    trust: [Trust; KINDS],
}

/// What is in hand.
#[derive(Clone, Copy, Debug)]
struct Hand {
    /// At what kind of site, if it is at one.
    kind: Option<Kind>,
    /// What things cost.
    price: Price,
    /// Since when, s.
    since: f64,
    /// Races that are to be expected of it, by the model, and those that have come of it.
    expected: f64,
    came: f64,
}

impl ByWorth {
    /// A planner whose choices follow from the seed and from what it hears.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            known: Knowledge::default(),
            last: ActionId(0),
            pace: Pace::default(),
            expected: 0.0,
            hand: None,
            trust: [Trust::default(); KINDS],
        }
    }

    /// What it knows.
    #[must_use]
    pub const fn known(&self) -> &Knowledge {
        &self.known
    }

    fn choose(&mut self, now: f64, purse: &Purse) -> Deed {
        self.known.told.decide_whether_to_believe(&mut self.random);
        let price = Price::of(purse, self.known.costs());
        let mut choices = Contest::new(self.trust.map(|trust| trust.at(now)));
        self.of_contended(now, &price, &mut choices);
        self.of_tried(now, &price, &mut choices);
        self.of_untried(now, &price, &mut choices);
        self.of_samples(&price, &mut choices);
        self.of_preempted(&price, &mut choices);
        self.of_variables(now, &price, &mut choices);
        choices.extend(self.of_profiles(now, &price));
        let arrival = self.of_arrivals(now, &price, &choices);
        choices.extend(arrival);
        let Some(best) = choices.best() else {
            return Deed::Rest { time: SAMPLE };
        };
        let expected = match best.deed {
            Deed::Wait {
                site,
                at_most,
                then,
                wanted,
            } => self.expected(site, at_most, then, wanted, now),
            Deed::Profile { .. } => self.known.profiles.expected() * self.known.yields(),
            // That of a sample, or of a preempted thread, shows when it is known where it stands; and a watch finds no race.
            _ => 0.0,
        };
        self.hand = Some(Hand {
            kind: best.kind,
            price,
            since: now,
            expected,
            came: 0.0,
        });
        best.deed
    }

    /// How far what is expected at sites of a kind comes true.
    fn trust(&self, kind: Option<Kind>, now: f64) -> f64 {
        kind.map_or(1.0, |kind| self.trust[kind as usize].at(now))
    }

    /// What has come of what is in hand, in the terms in which it was expected.
    fn came(&self, now: f64, what: &What) -> f64 {
        match what {
            What::Held {
                end: StallEnd::Hit(partners),
                ..
            } => partners.len() as f64,
            What::Looked { site, users, .. } if !users.is_empty() => {
                let number = self.known.catalogue.number(*site);
                number.map_or(0.0, |number| self.known.look(number, now))
            }
            _ => 0.0,
        }
    }

    /// Sites whose bytes others use.
    fn of_contended(&mut self, now: f64, price: &Price, choices: &mut Contest) {
        let all = self.known.contended.len();
        let some = all.min(CONTENDED);
        // Where there are more, others each time.
        let first = if all > some {
            self.random.usize(..all)
        } else {
            0
        };
        for index in 0..some {
            let number = self.known.contended[(first + index) % all];
            self.of_site(number, now, price, Kind::Contended, choices);
        }
    }

    /// One of each class of those that were tried, and nothing was found.
    fn of_tried(&mut self, now: f64, price: &Price, choices: &mut Contest) {
        for class in 0..CLASSES {
            let tried = &self.known.tried[class];
            if !tried.is_empty() {
                let number = tried[self.random.usize(..tried.len())];
                self.of_site(number, now, price, Kind::Tried, choices);
            }
        }
    }

    /// What is thought of a site, and what it is worth to look there.
    fn thought(&self, number: Number, now: f64) -> (Belief, f64) {
        (self.known.belief(number, now), self.known.look(number, now))
    }

    fn of_site(
        &mut self,
        number: Number,
        now: f64,
        price: &Price,
        kind: Kind,
        choices: &mut Contest,
    ) {
        if self.known.means(number) == Means::Probe {
            return;
        }
        let (belief, look) = self.thought(number, now);
        let Some(facts) = self.known.catalogue.facts(number).copied() else {
            return;
        };
        let bar = choices.bar(kind);
        if let Some(guess) = bar.draw(&belief, None, look, price, &mut self.random) {
            let plan = self.of_facts(&facts, &guess, price);
            choices.push(wait(facts.site, plan, kind));
        }
        let known = self.known.addresses.of(number);
        if known.is_empty() || !self.known.watches_ahead {
            return;
        }
        let known = known[self.random.usize(..known.len())];
        let at_hand = self.known.at_hand(number, &known, belief.lambda, now);
        let bar = choices.bar(kind);
        if let Some(guess) = bar.draw(&belief, Some(&at_hand), look, price, &mut self.random) {
            let advance = Advance {
                address: known.address,
                passed: belief.lambda.mean(),
            };
            let wanted = best(&guess, price, Some(advance));
            choices.push(wait(facts.site, wanted, kind));
        }
    }

    /// The best at a site of which nothing tells what is at hand, unless it names that.
    fn of_facts(&self, facts: &SiteFacts, guess: &Guess, price: &Price) -> Plan {
        let plan = best(guess, price, None);
        let variable = facts.variable.filter(|_| self.known.watches_ahead);
        let Some(variable) = variable else {
            return plan;
        };
        let advance = Advance {
            address: variable.into(),
            passed: 0.0,
        };
        plan.or_better(best(guess, price, Some(advance)))
    }

    /// One of each class of sites that nobody has waited at; of those in new functions several.
    fn of_untried(&mut self, now: f64, price: &Price, choices: &mut Contest) {
        for class in 0..CLASSES {
            let some = if is_new(class) {
                prior::NEW_CODE as usize
            } else {
                1
            };
            for _ in 0..some {
                self.of_untried_in(class, now, price, choices);
            }
        }
    }

    fn of_untried_in(&mut self, class: usize, now: f64, price: &Price, choices: &mut Contest) {
        let sites = self.known.catalogue.untried(class);
        if sites.is_empty() {
            return;
        }
        let number = sites[self.random.usize(..sites.len())];
        let belief = self.of_class(number, class, now);
        let (bar, look) = (choices.bar(Kind::Untried), self.known.look(number, now));
        let guess = bar.draw(&belief, None, look, price, &mut self.random);
        let facts = self.known.catalogue.facts(number);
        if let (Some(guess), Some(facts)) = (guess, facts) {
            let plan = self.of_facts(facts, &guess, price);
            choices.push(wait(facts.site, plan, Kind::Untried));
        }
    }

    /// What is thought of an untried site of a class, where it is drawn how often somebody comes to those.
    fn of_class(&mut self, number: Number, class: usize, now: f64) -> Belief {
        let comes = self.known.comes(class, now).draw(&mut self.random);
        let around = Circumstances {
            comes,
            ..self.known.around(number, now)
        };
        Belief::of(&self.known.counts(number, now), &around)
    }

    /// Wherever a sample stops somebody.
    fn of_samples(&mut self, price: &Price, choices: &mut Contest) {
        let samples = self.known.samples;
        let (races, budget, time) =
            samples.draw(SAMPLE.as_secs_f64(), price.stop_s, &mut self.random);
        choices.push(Choice {
            worth: races / price.cost(time, budget),
            deed: Deed::Sample {
                at_most: SAMPLE,
                then: Then::LetGo,
            },
            kind: None,
        });
    }

    /// Races that are to be expected of a wait.
    fn expected(
        &self,
        site: SiteId,
        at_most: Duration,
        then: Then,
        wanted: Option<AddressId>,
        now: f64,
    ) -> f64 {
        let Some(number) = self.known.catalogue.number(site) else {
            return 0.0;
        };
        let (belief, look) = self.thought(number, now);
        let known = wanted.and_then(|address| self.known.addresses.find(number, address));
        let at_hand = known.map(|known| self.known.at_hand(number, known, belief.lambda, now));
        let guess = Guess::mean(&belief, at_hand.as_ref(), look);
        let (comes, _) = guess.lambda.within(at_most.as_secs_f64());
        comes * guess.brings(then, wanted.is_some())
    }

    /// Who writes a variable that changes.
    fn of_variables(&mut self, now: f64, price: &Price, choices: &mut Contest) {
        let yields = self.known.yields();
        for (&variable, counts) in &self.known.changing {
            let counts = counts.at(now, prior::HALF_LIFE);
            let tells = yields / (1.0 + counts.used).powi(2);
            let writes = writes(counts.waited_s).draw(&mut self.random);
            let (worth, at_most) = best_watch(writes, tells, price);
            choices.push(Choice {
                worth,
                deed: Deed::Watch { variable, at_most },
                kind: None,
            });
        }
    }
}

fn wait(site: SiteId, plan: Plan, kind: Kind) -> Choice {
    Choice {
        kind: Some(kind),
        worth: plan.worth,
        deed: Deed::Wait {
            site,
            at_most: plan.at_most,
            then: plan.then,
            wanted: plan.wanted,
        },
    }
}

impl Planner for ByWorth {
    fn observe(&mut self, now: Duration, event: &Event) {
        let now_s = now.as_secs_f64();
        let came = self.came(now_s, &event.what);
        if let Some(hand) = &mut self.hand {
            hand.came += came;
        }
        if let What::Cost(cost_s) = event.what
            && let Some(hand) = self.hand.take()
        {
            let trust = self.trust(hand.kind, now_s);
            let time_s = (now_s - hand.since).max(0.0);
            let cost = hand.price.cost(time_s, cost_s);
            self.pace.add(trust * hand.expected, cost);
            self.expected += trust * hand.expected;
            if let Some(kind) = hand.kind {
                self.trust[kind as usize].add(now_s, hand.expected, hand.came);
            }
        }
        self.known.update(now, event);
    }

    fn decide(&mut self, now: Duration, purse: &Purse) -> Action {
        self.last = self.last.next();
        let deed = if purse.may_stop() {
            self.choose(now.as_secs_f64(), purse)
        } else {
            Deed::Rest {
                time: Duration::from_secs_f64(purse.until_left_s()),
            }
        };
        let action = Action {
            id: self.last,
            deed,
        };
        self.known.begin(now, action.clone());
        action
    }

    fn expected(&self) -> f64 {
        self.expected
    }

    fn gained(&mut self) -> Vec<(SiteId, Counts)> {
        self.known.take_gained()
    }

    fn stopped(
        &mut self,
        now: Duration,
        ahead: &[SiteId],
        waited: Option<Duration>,
    ) -> Option<(SiteId, Then)> {
        match waited {
            Some(_) => None,
            None => self.of_stopped(now.as_secs_f64(), ahead),
        }
    }

    fn preempted(&mut self, now: Duration, all: &[Candidate]) -> Option<(usize, Duration)> {
        self.best_preempted(now.as_secs_f64(), all)
    }
}
