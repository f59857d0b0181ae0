//! Planners in a recorded program, beside each other.

use super::{
    index::Index,
    known::{Knowing, Knowledge},
    scene::replay,
    summary,
};
use crate::hunt::{
    plan::{Planner, choose::ByWorth},
    world::{
        comparison::MINUTES,
        costs::Costs,
        oracle::Oracle,
        program::Program,
        simulation::{Hunt, Run},
        uniform::ByChance,
    },
};

/// What was found is told after so many threads were held.
pub const STALLS: [u64; 5] = [25, 100, 200, 600, 1200];

/// Who hunts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// One who knows something, and chooses by chance.
    Knowing(Knowledge),
    /// Any site by chance.
    Uniform,
    /// The model of the program.
    Planner,
    /// Who knows how often each site is come to, and each race met: the world's oracle, for which that is the truth. Here it is not all of it.
    Oracle,
}

impl Who {
    /// All of them.
    pub(super) const ALL: [Self; 8] = [
        Self::Knowing(Knowledge::Nothing),
        Self::Uniform,
        Self::Knowing(Knowledge::Executed),
        Self::Knowing(Knowledge::Contended),
        Self::Knowing(Knowledge::Unlocked),
        Self::Knowing(Knowledge::Racing),
        Self::Planner,
        Self::Oracle,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Knowing(Knowledge::Nothing) => "whoever a clock stops",
            Self::Uniform => "uniform: any site, executed or not",
            Self::Knowing(Knowledge::Executed) => "any executed site",
            Self::Knowing(Knowledge::Contended) => "any contended site",
            Self::Knowing(Knowledge::Unlocked) => {
                "any contended site that is reached without a lock"
            }
            Self::Knowing(Knowledge::Racing) => "any racing site",
            Self::Planner => "**planner**",
            Self::Oracle => "who knows rates and races",
        }
    }

    /// After so many threads it is over, which were held: who knows too much holds thousands a minute.
    const fn most_stalls(self) -> u64 {
        match self {
            Self::Knowing(_) => STALLS[STALLS.len() - 1],
            Self::Uniform | Self::Planner => u64::MAX,
            Self::Oracle => 10 * STALLS[STALLS.len() - 1],
        }
    }

    fn planner<'a>(
        self,
        index: &Index<'_>,
        program: &'a Program,
        costs: Costs,
        seed: u64,
    ) -> Box<dyn Planner + 'a> {
        match self {
            Self::Knowing(knowledge) => Box::new(Knowing::new(knowledge, index, seed)),
            Self::Uniform => Box::new(ByChance::uniform(seed)),
            Self::Planner => Box::new(ByWorth::new(seed)),
            Self::Oracle => Box::new(Oracle::new(program, costs)),
        }
    }
}

/// How it is compared.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// The machine.
    pub costs: Costs,
    /// The share of the program's CPU time that may be spent.
    pub share: f64,
    /// Hunts of each.
    pub hunts: u64,
    /// How long each takes of the program's time, s.
    pub length_s: f64,
}

/// What somebody finds: means of all hunts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figure {
    /// After [`STALLS`]; `None` where no hunt came to so many.
    pub(super) by_stalls: [Option<f64>; 5],
    /// After [`MINUTES`]; `None` where it was over before.
    pub(super) by_minutes: [Option<f64>; 3],
    /// Stalls a minute.
    pub(super) stalls: f64,
    /// What was spent on a race, s; one that was not found counts as all that could be spent. `None` where it was over before that.
    pub(super) cost_s: Option<f64>,
}

/// Lets everybody hunt.
pub(super) fn compare(index: &Index<'_>, conditions: &Conditions) -> Vec<Figure> {
    let program = summary::program(index, conditions.costs.delay_s);
    let figure = |who: &Who| {
        let runs: Vec<Run> = (1..=conditions.hunts)
            .map(|seed| {
                let hunt = Hunt {
                    costs: conditions.costs,
                    share: conditions.share,
                    length_s: conditions.length_s,
                    seed,
                    has_probes: false,
                };
                let mut planner = who.planner(index, &program, conditions.costs, seed);
                replay(index, planner.as_mut(), &hunt, who.most_stalls())
            })
            .collect();
        figure(&runs, index, conditions)
    };
    std::thread::scope(|scope| {
        let figure = &figure;
        let figures = Who::ALL.map(|who| scope.spawn(move || figure(&who)));
        let figures = figures.into_iter().map(std::thread::ScopedJoinHandle::join);
        figures.map(Result::unwrap_or_default).collect()
    })
}

fn figure(runs: &[Run], index: &Index<'_>, conditions: &Conditions) -> Figure {
    let count = runs.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Run) -> f64| runs.iter().map(of).sum::<f64>() / count;
    let races = index.pairs_of_lines as f64;
    let most = conditions.share * index.recorded.processors * conditions.length_s;
    // Who has found all holds nobody any more.
    let is_done = |run: &Run| run.finds.len() >= index.pairs_of_lines;
    let by = |run: &Run, is_in: &dyn Fn(f64, u64) -> bool| {
        let finds = run
            .finds
            .iter()
            .filter(|find| is_in(find.time_s, find.stalls));
        finds.count() as f64
    };
    Figure {
        by_stalls: STALLS.map(|stalls| {
            let reached = runs.iter().all(|run| run.stalls >= stalls || is_done(run));
            reached.then(|| mean(&|run| by(run, &|_, at| at <= stalls)))
        }),
        by_minutes: MINUTES.map(|minutes| {
            let seconds = 60.0 * minutes;
            let reached = runs.iter().all(|run| run.time_s >= seconds || is_done(run));
            reached.then(|| mean(&|run| by(run, &|at, _| at <= seconds)))
        }),
        stalls: mean(&|run| 60.0 * run.stalls as f64 / run.time_s.max(1e-9)),
        cost_s: {
            let reached =
                (runs.iter()).all(|run| run.time_s >= conditions.length_s || is_done(run));
            let cost = |run: &Run| {
                let spent: f64 = run.finds.iter().map(|find| find.spent_s.min(most)).sum();
                (spent + (races - run.finds.len() as f64) * most) / races.max(1.0)
            };
            reached.then(|| mean(&cost))
        },
    }
}
