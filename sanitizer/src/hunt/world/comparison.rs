//! How much planners find in the families, beside each other.

use std::time::Duration;

use crate::hunt::plan::{
    Planner,
    action::{Action, Candidate, Then},
    choose::ByWorth,
    event::{Event, SiteId, What},
    purse::Purse,
};

use super::{
    costs::{Costs, MOST_ADVANCE_S},
    families::Family,
    oracle::Oracle,
    program::Program,
    simulation::{Hunt, Run, simulate},
    uniform::ByChance,
    wired::Wired,
};

/// The share of the program's CPU time that may be spent, as a rule.
pub const SHARE: f64 = 0.01;
/// What is found is told after so many minutes.
pub const MINUTES: [f64; 3] = [1.0, 10.0, 60.0];

/// A planner that is compared with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Any site by chance.
    Uniform,
    /// Any executed one, as the prototype did.
    Executed,
    /// The model of the program.
    Planner,
    /// The same, where probes stand as well.
    Standing,
    /// The same, where there are no probes.
    Unprofiled,
    /// The same, where nothing can be watched before a thread comes either: as it is put into the engine's terms.
    Plain,
    /// The same, where it is not seen which threads are off their processors.
    Stopping,
    /// That by way of the engine's terms: what is wired in.
    Wired,
    /// Who knows the truth.
    Oracle,
}

impl Who {
    /// All that are compared.
    pub const ALL: [Self; 5] = [
        Self::Uniform,
        Self::Executed,
        Self::Unprofiled,
        Self::Planner,
        Self::Oracle,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Executed => "prototype",
            Self::Planner => "planner",
            Self::Unprofiled => "without profiles",
            Self::Standing => "standing",
            Self::Plain => "plain",
            Self::Stopping => "stopping",
            Self::Wired => "wired",
            Self::Oracle => "oracle",
        }
    }

    fn planner<'a>(
        self,
        program: &'a Program,
        conditions: &Conditions,
        seed: u64,
    ) -> Box<dyn Planner + 'a> {
        match self {
            Self::Uniform => Box::new(ByChance::uniform(seed)),
            Self::Executed => Box::new(ByChance::executed(seed)),
            Self::Planner => {
                let is_heard = |what: &What| !matches!(what, What::Stood(_));
                Box::new(Deaf(ByWorth::new(seed), is_heard))
            }
            Self::Standing => Box::new(ByWorth::new(seed)),
            Self::Unprofiled => {
                let is_heard =
                    |what: &What| !matches!(what, What::Profiles { .. } | What::Stood(_));
                Box::new(Deaf(ByWorth::new(seed), is_heard))
            }
            Self::Stopping => {
                let is_heard =
                    |what: &What| !matches!(what, What::SeesPreempted(_) | What::Stood(_));
                Box::new(Deaf(ByWorth::new(seed), is_heard))
            }
            Self::Plain => {
                let is_heard = |what: &What| {
                    !matches!(
                        what,
                        What::Profiles { .. } | What::Stood(_) | What::WatchesAhead
                    )
                };
                Box::new(Deaf(ByWorth::new(seed), is_heard))
            }
            Self::Wired => Box::new(Wired::new(seed)),
            Self::Oracle => Box::new(Oracle::new(program, conditions.costs)),
        }
    }
}

/// Does not hear of some things that can be done.
struct Deaf(ByWorth, fn(&What) -> bool);

impl Planner for Deaf {
    fn observe(&mut self, now: Duration, event: &Event) {
        if (self.1)(&event.what) {
            self.0.observe(now, event);
        }
    }

    fn decide(&mut self, now: Duration, purse: &Purse) -> Action {
        self.0.decide(now, purse)
    }

    fn stopped(
        &mut self,
        now: Duration,
        ahead: &[SiteId],
        waited: Option<Duration>,
    ) -> Option<(SiteId, Then)> {
        self.0.stopped(now, ahead, waited)
    }

    fn preempted(&mut self, now: Duration, all: &[Candidate]) -> Option<(usize, Duration)> {
        self.0.preempted(now, all)
    }
}

/// How it is compared.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// The machine.
    pub costs: Costs,
    /// The share of the program's CPU time that may be spent.
    pub share: f64,
    /// Hunts in each family, in programs that differ in what is left to chance.
    pub hunts: u64,
    /// How long each takes of the program's time, s.
    pub length_s: f64,
}

/// What a planner finds in a family; means of all hunts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Races that there are.
    pub races: f64,
    /// Those that were found after [`MINUTES`].
    pub found: [f64; 3],
    /// What was spent until a race was found, s; one that was not found counts as all that could be spent.
    pub cost_s: f64,
    /// The part of the races that was found, on average over the logarithm of the time from a second to the end: each half of the time in
    /// which all is found counts as much as the next one.
    pub score: f64,
}

/// Hunts in a family.
#[must_use]
pub fn measure(family: Family, who: Who, conditions: &Conditions) -> Figure {
    let mut sum = Figure {
        races: 0.0,
        found: [0.0; 3],
        cost_s: 0.0,
        score: 0.0,
    };
    for seed in 1..=conditions.hunts {
        let one = one(family, who, conditions, seed);
        let part = 1.0 / conditions.hunts as f64;
        sum.races += part * one.races;
        sum.cost_s += part * one.cost_s;
        sum.score += part * one.score;
        for (sum, found) in sum.found.iter_mut().zip(one.found) {
            *sum += part * found;
        }
    }
    sum
}

/// One hunt.
#[must_use]
pub fn one(family: Family, who: Who, conditions: &Conditions, seed: u64) -> Figure {
    let program = family(seed);
    let hunt = Hunt {
        costs: conditions.costs,
        share: conditions.share,
        length_s: conditions.length_s,
        seed,
        has_probes: who == Who::Standing,
    };
    let mut planner = who.planner(&program, conditions, seed);
    let run = simulate(&program, planner.as_mut(), &hunt);
    figure(&program, &run, &hunt)
}

/// What one hunt comes to.
fn figure(program: &Program, run: &Run, hunt: &Hunt) -> Figure {
    let races = program.races() as f64;
    let unfound = races - run.finds.len() as f64;
    let earned = hunt.share * program.processors;
    let most = earned * hunt.length_s + earned.min(MOST_ADVANCE_S);
    let spent: f64 = run.finds.iter().map(|find| find.spent_s.min(most)).sum();
    let scores = run.finds.iter().map(|find| {
        let time = find.time_s.clamp(1.0, hunt.length_s);
        1.0 - time.ln() / hunt.length_s.ln()
    });
    let by = |minutes: f64| {
        let found = run.finds.iter();
        let found = found.filter(|find| find.time_s <= 60.0 * minutes);
        found.count() as f64
    };
    Figure {
        races,
        found: MINUTES.map(by),
        cost_s: (spent + unfound * most) / races,
        score: scores.sum::<f64>() / races,
    }
}

/// The figures of some planners in all of some families, as many hunts at a time as there are processors.
#[must_use]
pub fn compare(families: &[Family], whos: &[Who], conditions: &Conditions) -> Vec<Vec<Figure>> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let done = std::sync::Mutex::new(vec![Vec::new(); families.len()]);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(family) = families.get(index) else {
                        return;
                    };
                    let of_family = whos.iter().map(|who| measure(*family, *who, conditions));
                    let of_family = of_family.collect();
                    if let Ok(mut done) = done.lock()
                        && let Some(place) = done.get_mut(index)
                    {
                        *place = of_family;
                    }
                }
            });
        }
    });
    done.into_inner().unwrap_or_default()
}

/// The geometric mean of some figures, each of them at least a thousandth.
#[must_use]
pub fn geometric_mean(figures: impl IntoIterator<Item = f64>) -> f64 {
    const LEAST: f64 = 1e-3;
    let (mut sum, mut count) = (0.0, 0.0);
    for figure in figures {
        sum += figure.max(LEAST).ln();
        count += 1.0;
    }
    f64::exp(sum / f64::max(count, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::world::{costs::NESTED, families::ALL, simulation::Find};

    /// Check what a hunt comes to: what was found by when, what it cost, and how soon that was.
    #[test]
    fn figures() {
        let program = ALL[15](1);
        let hunt = Hunt {
            costs: NESTED,
            share: SHARE,
            length_s: 3600.0,
            seed: 1,
            has_probes: false,
        };
        let find = |time_s, spent_s| Find {
            time_s,
            spent_s,
            stalls: 1,
        };
        let run = Run {
            finds: vec![find(60.0, 1.0), find(0.5, 0.1)],
            ..Run::default()
        };
        let told = figure(&program, &run, &hunt);
        assert_eq!((told.races, told.found), (3.0, [2.0, 2.0, 2.0]));
        assert!((told.cost_s - (1.1 + 72.02) / 3.0).abs() < 1e-9);
        assert!((told.score - 1.5 / 3.0).abs() < 1e-9);
        assert!((geometric_mean([0.5, 2.0]) - 1.0).abs() < 1e-12);
    }
}
