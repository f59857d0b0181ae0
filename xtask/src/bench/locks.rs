//! `cargo xtask bench locks`: what stalls cost those who wait for a lock that the stalled thread holds. The program
//! measures how long its locked operations take.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{
    figure::{figure, printed},
    machine,
    pair::in_turns,
    statistics::{median, quantile},
    table::Table,
    throughput::lost,
};
use crate::{build, fixture, paths};

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Pairs of runs, plain and watched, for each budget.
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// Seconds that each half of a pair runs.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Threads that take the lock.
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// What gwp-race may cost.
    #[arg(long, value_delimiter = ',', default_value = "1%,3%")]
    budgets: Vec<String>,
}

/// Measures.
pub fn run(options: &Options) -> Result<()> {
    let gwp_race = build::run(true)?;
    let program = fixture::compile("bench", "locks")?;
    let mut table = Table::new(&[
        "budget",
        "99.9th percentile us, plain",
        "watched",
        "difference",
        "longest ms, plain",
        "watched",
        "difference, worst",
        "throughput loss %",
        "stalls a second",
        "of them with others waiting",
    ]);
    for budget in &options.budgets {
        let mut pairs = Vec::new();
        for pair in 1..=options.pairs {
            let (plain, watched) = in_turns(
                pair,
                || plain(&program, options),
                || watched(&gwp_race, &program, budget, options),
            )?;
            println!(
                "{budget}, pair {pair} of {}: {plain:?} / {watched:?}",
                options.pairs
            );
            pairs.push((plain, watched));
        }
        let all = |value: &dyn Fn(&(Run, Run)) -> f64| pairs.iter().map(value).collect::<Vec<_>>();
        let longer = all(&|(plain, watched)| watched.longest_ms - plain.longest_ms);
        let loss = all(&|(plain, watched)| lost(plain.turns, watched.turns));
        let middle = |value: &dyn Fn(&(Run, Run)) -> f64| median(&all(value));
        table.row(vec![
            budget.clone(),
            format!("{:.1}", middle(&|(plain, _)| plain.p999_us)),
            format!("{:.1}", middle(&|(_, watched)| watched.p999_us)),
            format!(
                "{:+.1}",
                middle(&|(plain, watched)| watched.p999_us - plain.p999_us)
            ),
            format!("{:.1}", middle(&|(plain, _)| plain.longest_ms)),
            format!("{:.1}", middle(&|(_, watched)| watched.longest_ms)),
            format!("{:+.1}", quantile(&longer, 1.0)),
            format!("{:+.2}", median(&loss)),
            format!(
                "{:.1}",
                middle(&|(_, watched)| watched.stalls / f64::from(options.seconds))
            ),
            format!(
                "{:.0} %",
                middle(&|(_, watched)| watched.locked / watched.stalls.max(1.0) * 100.0)
            ),
        ]);
    }
    let mut description = machine::description();
    description.push(format!(
        "{} threads; medians of {} pairs of {} s; an operation lasts from asking for the lock until it was given back.",
        options.threads, options.pairs, options.seconds
    ));
    table.publish("locks", &description)
}

/// What one run has shown.
#[derive(Clone, Copy, Debug)]
struct Run {
    turns: f64,
    p999_us: f64,
    longest_ms: f64,
    stalls: f64,
    locked: f64,
}

fn plain(program: &Path, options: &Options) -> Result<Run> {
    let text = printed(Command::new(program).args(arguments(options)))?;
    told(&text, 0.0, 0.0)
}

fn watched(gwp_race: &Path, program: &Path, budget: &str, options: &Options) -> Result<Run> {
    let written = paths::target().join("bench").join("locks.json");
    let mut command = Command::new(gwp_race);
    command
        .args([
            "run",
            "--quiet",
            "--format",
            "json",
            "--max-overhead",
            budget,
        ])
        .arg("--output")
        .arg(&written)
        .arg("--")
        .arg(program)
        .args(arguments(options));
    let text = printed(&mut command)?;
    let report = std::fs::read_to_string(&written)
        .with_context(|| format!("reading {}", written.display()))?;
    let summary = report.lines().last().context("nothing was reported")?;
    let summary: serde_json::Value = serde_json::from_str(summary)?;
    let decisions = summary["decisions"].as_object().context("no decisions")?;
    let locked = decisions
        .iter()
        .filter(|(name, _)| name.ends_with(": locked"));
    let locked = locked.filter_map(|(_, count)| count.as_f64()).sum();
    told(
        &text,
        summary["stalls"].as_f64().unwrap_or_default(),
        locked,
    )
}

fn arguments(options: &Options) -> [String; 2] {
    [options.seconds.to_string(), options.threads.to_string()]
}

fn told(text: &str, stalls: f64, locked: f64) -> Result<Run> {
    Ok(Run {
        turns: figure(text, "turns")?,
        p999_us: figure(text, "p999_ns")? / 1e3,
        longest_ms: figure(text, "longest_us")? / 1e3,
        stalls,
        locked,
    })
}
