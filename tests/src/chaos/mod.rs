//! Killing gwp-race at random instants, and finding out whether its target took harm: none may
//! die, stand still, stay traced, keep a breakpoint or a probe, or have a system call interrupted.

mod blow;
mod code;
pub mod fault;
pub mod random;
mod round;
mod tally;
pub mod target;

pub use blow::Blow;
pub use tally::{Record, Tally};

use anyhow::{Context as _, Result};

use random::Random;
use target::Target;

use crate::Watch;

/// How gwp-race comes to its target, and by which signal it stops threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// `run`; threads are stopped by SIGTRAP.
    Run,
    /// `run` of a program with a SIGTRAP handler of its own; a gate sends another signal.
    RunHandled,
    /// `run` without capabilities, so without gates: breakpoints send a signal.
    RunWithoutRights,
    /// `attach`; a gate sends a signal.
    Attach,
}

impl Way {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run, SIGTRAP",
            Self::RunHandled => "run, gate signal",
            Self::RunWithoutRights => "run, without eBPF",
            Self::Attach => "attach, gate signal",
        }
    }
}

/// One kind of kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mix {
    /// How the target is watched.
    pub way: Way,
    /// How many threads it has.
    pub threads: usize,
    /// What becomes of gwp-race.
    pub blow: Blow,
}

/// How gwp-race chooses what to stop.
#[derive(Clone, Copy, Debug)]
struct Strategy {
    /// In tables.
    name: &'static str,
    options: &'static [&'static str],
    /// The blow comes while the kernel's probes stand, if they come to.
    has_probes: bool,
}

/// What the kills take turns in. Without eBPF all come to the clock strategy.
const STRATEGIES: [Strategy; 3] = [
    Strategy {
        name: "planner",
        options: &["--strategy", "planner"],
        has_probes: false,
    },
    Strategy {
        name: "probes",
        options: &["--strategy", "planner", "--probes", "yes"],
        has_probes: true,
    },
    Strategy {
        name: "clock",
        options: &["--strategy", "clock"],
        has_probes: false,
    },
];

/// Few threads, more than processors, and more than a tracer can look after in passing.
const THREADS: [usize; 3] = [2, 50, 500];

/// The number in a variable of the environment, by which `cargo xtask chaos` tells what it wants.
///
/// # Panics
/// It is no number.
#[must_use]
pub fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{variable} is no number: {text}")))
}

/// Kills this many gwp-races in these ways, over all numbers of threads, all blows and all strategies in turn.
///
/// # Errors
/// Fails where a kill cannot be tried. What a kill has done to the target is in the tally.
pub fn unleash(ways: &[Way], kills: usize, seed: u64) -> Result<Tally> {
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    let mut mixes = Vec::new();
    for &way in ways {
        for threads in THREADS {
            mixes.extend(Blow::ALL.map(|blow| Mix { way, threads, blow }));
        }
    }
    // With fewer kills than mixes, each way and number of threads still gets its share.
    let share = |mix: usize| kills * (mix + 1) / mixes.len() - kills * mix / mixes.len();
    let mut attached: Option<Target> = None;
    let mut strategies = STRATEGIES.into_iter().cycle();
    for (number, &mix) in mixes.iter().enumerate() {
        for strategy in strategies.by_ref().take(share(number)) {
            let watch = Watch::aggressive().option(strategy.options);
            let (name, has_probes) = (strategy.name, strategy.has_probes);
            let record = match mix.way {
                Way::Run | Way::RunHandled | Way::RunWithoutRights => {
                    round::run(mix, has_probes, watch, &mut random)
                }
                Way::Attach => round::attach(mix, has_probes, &watch, &mut attached, &mut random),
            };
            let record = record.with_context(|| format!("{mix:?}, {name}"))?;
            tally.add(mix, name, record);
        }
    }
    if let Some(target) = attached {
        target.end()?;
    }
    Ok(tally)
}
