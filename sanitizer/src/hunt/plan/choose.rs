//! The planner after the model: of what it could do, it draws for each what that might be worth, and does the best (Thompson sampling). So what is
//! uncertain is tried as often as it may be the best, and no share of anything is set aside for it.

use std::time::Duration;

use super::{
    Planner,
    action::{Action, ActionId, Deed},
    belief::{Belief, Circumstances},
    catalogue::{CLASSES, Number},
    counts::Counts,
    event::Event,
    posterior::{Beta, Gamma},
    prior,
    purse::Purse,
    update::Knowledge,
    worth::{Guess, Plan, Price, best},
};

/// Sites that are thought about at a time, at most, of those whose bytes others use.
const CONTENDED: usize = 40;
/// How long a variable is watched for who writes it, and a sample waited for.
const WATCH: Duration = Duration::from_millis(500);
const SAMPLE: Duration = Duration::from_millis(30);

/// See the module.
#[derive(Debug)]
pub struct ByWorth {
    random: fastrand::Rng,
    known: Knowledge,
    last: ActionId,
}

/// What is thought of doing.
#[derive(Clone, Copy, Debug)]
struct Choice {
    worth: f64,
    deed: Deed,
}

impl ByWorth {
    /// A planner whose choices follow from the seed and from what it hears.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            known: Knowledge::default(),
            last: ActionId(0),
        }
    }

    /// What it knows.
    #[must_use]
    pub const fn known(&self) -> &Knowledge {
        &self.known
    }

    fn choose(&mut self, now: f64, purse: &Purse) -> Deed {
        let price = Price::of(purse, self.known.costs());
        let mut choices = Vec::with_capacity(CONTENDED + 2 * CLASSES + 8);
        self.of_contended(now, &price, &mut choices);
        self.of_tried(now, &price, &mut choices);
        self.of_untried(now, &price, &mut choices);
        self.of_samples(now, &price, &mut choices);
        self.of_variables(now, &price, &mut choices);
        let best = choices
            .into_iter()
            .max_by(|one, other| one.worth.total_cmp(&other.worth));
        match best {
            Some(best) if best.worth > 0.0 => best.deed,
            _ => Deed::Rest { time: SAMPLE },
        }
    }

    /// Sites whose bytes others use.
    fn of_contended(&mut self, now: f64, price: &Price, choices: &mut Vec<Choice>) {
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
            choices.extend(self.of_site(number, now, price));
        }
    }

    /// One of each class of those that were tried, and nothing was found.
    fn of_tried(&mut self, now: f64, price: &Price, choices: &mut Vec<Choice>) {
        for class in 0..CLASSES {
            let tried = &self.known.tried[class];
            if !tried.is_empty() {
                let number = tried[self.random.usize(..tried.len())];
                choices.extend(self.of_site(number, now, price));
            }
        }
    }

    fn of_site(&mut self, number: Number, now: f64, price: &Price) -> Option<Choice> {
        let belief = self.known.belief(number, now);
        let counts = self.known.counts(number, now);
        // What was seen already does not have to be seen again.
        let looked = counts.used + counts.unused;
        let look = self.known.yields() / (1.0 + looked).powi(2);
        let guess = Guess::draw(&belief, look, &mut self.random);
        let site = self.known.catalogue.facts(number)?.site;
        Some(wait(site, best(&guess, price)))
    }

    /// One of each class of sites that nobody has waited at.
    fn of_untried(&mut self, now: f64, price: &Price, choices: &mut Vec<Choice>) {
        for class in 0..CLASSES {
            let sites = self.known.catalogue.untried(class);
            if sites.is_empty() {
                continue;
            }
            let number = sites[self.random.usize(..sites.len())];
            let comes = self.known.comes(class, now).draw(&mut self.random);
            let around = Circumstances {
                comes,
                ..self.known.around(number, now)
            };
            // Of a class it is known what looks at others of it have shown.
            let seen = self.known.class_counts(class, now);
            let of_class = Belief::of(&Counts::default(), &around);
            let belief = Belief {
                sigma: of_class.sigma.with(seen.used, seen.unused),
                ..of_class
            };
            let guess = Guess::draw(&belief, self.known.yields(), &mut self.random);
            if let Some(facts) = self.known.catalogue.facts(number) {
                choices.push(wait(facts.site, best(&guess, price)));
            }
        }
    }

    /// Wherever a sample stops somebody.
    fn of_samples(&mut self, now: f64, price: &Price, choices: &mut Vec<Choice>) {
        let seen = self.known.of_samples.at(now, prior::HALF_LIFE);
        let of_reads = Belief::of(&seen, &Circumstances::default());
        let belief = Belief {
            lambda: Gamma {
                events: 1.0 + seen.used + seen.unused,
                time_s: SAMPLE.as_secs_f64() * (1.0 + seen.used + seen.unused + seen.missed),
            },
            ..of_reads
        };
        let guess = Guess::draw(&belief, self.known.yields(), &mut self.random);
        let Plan { worth, then, .. } = best(&guess, price);
        choices.push(Choice {
            worth,
            deed: Deed::Sample {
                at_most: SAMPLE,
                then,
            },
        });
    }

    /// Who writes a variable that changes.
    fn of_variables(&mut self, now: f64, price: &Price, choices: &mut Vec<Choice>) {
        let yields = self.known.yields();
        for (&variable, counts) in &self.known.changing {
            let counts = counts.at(now, prior::HALF_LIFE);
            let seen = Beta::prior(prior::CHANGES, 1.0).with(0.0, counts.unused);
            let tells = seen.draw(&mut self.random) * yields / (1.0 + counts.used).powi(2);
            choices.push(Choice {
                worth: tells / price.cost(WATCH.as_secs_f64(), price.wait_s),
                deed: Deed::Watch {
                    variable,
                    at_most: WATCH,
                },
            });
        }
    }
}

fn wait(site: super::event::SiteId, plan: Plan) -> Choice {
    Choice {
        worth: plan.worth,
        deed: Deed::Wait {
            site,
            at_most: plan.at_most,
            then: plan.then,
        },
    }
}

impl Planner for ByWorth {
    fn observe(&mut self, now: Duration, event: &Event) {
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
        self.known.begin(action);
        action
    }
}
