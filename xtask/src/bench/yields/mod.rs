//! `cargo xtask bench yield`: what the strategies find for what they cost. The planner against sampling the
//! clock as others do it, on the same programs and with the same budget.

use std::path::Path;

use anyhow::{Result, bail};

use super::{calibration::seconds_of_a_hash, machine};
use crate::{build, fixture, paths};

mod measure;
mod needle;
mod picture;
mod record;
mod strategy;
mod summary;
mod workload;

use measure::{Budget, Subject};
use record::Record;
use strategy::Strategy;
use workload::{WORKLOADS, Workload};

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Detections of each strategy in each program (20; with --short 5).
    #[arg(long)]
    runs: Option<usize>,
    /// Pairs of throughput, plain and watched, of each strategy in each program (20; with --short 3).
    #[arg(long)]
    pairs: Option<usize>,
    /// Seconds that each half of a pair is counted, after a first one that is not (5; with --short 1.5).
    #[arg(long)]
    seconds: Option<f64>,
    /// Seconds after which a detection is given up; it then counts as so many (60; with --short 12).
    #[arg(long)]
    cap: Option<f64>,
    /// Only these programs.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// What is compared.
    #[arg(long, value_delimiter = ',', default_values = ["clock", "planner"])]
    strategies: Vec<Strategy>,
    /// Less than 15 minutes: fewer and shorter runs.
    #[arg(long)]
    short: bool,
    /// What both strategies may cost.
    #[arg(long, default_value = "1%")]
    max_overhead: String,
    /// CPU time between two samples, for both, in place of gwp-race's own choice.
    #[arg(long)]
    sample_period: Option<String>,
    /// Take what target/bench/yield-runs.csv holds for measured, and go on from there.
    #[arg(long)]
    resume: bool,
}

/// The options, with what those that were left out stand for.
struct Plan {
    runs: usize,
    pairs: usize,
    seconds: f64,
    cap: f64,
    strategies: Vec<Strategy>,
}

impl Plan {
    fn new(options: &Options) -> Self {
        let (runs, pairs, seconds, cap) = if options.short {
            (5, 3, 1.5, 12.0)
        } else {
            (20, 20, 5.0, 60.0)
        };
        Self {
            runs: options.runs.unwrap_or(runs),
            pairs: options.pairs.unwrap_or(pairs),
            seconds: options.seconds.unwrap_or(seconds),
            cap: options.cap.unwrap_or(cap),
            strategies: options.strategies.clone(),
        }
    }
}

/// Measures all programs.
pub fn run(options: &Options) -> Result<()> {
    let chosen = chosen(&options.workloads)?;
    let plan = Plan::new(options);
    let gwp_race = build::run(true)?;
    let increments = fixture::compile("bench", "increments")?;
    let hash_s = seconds_of_a_hash(&increments)?;
    let directory = paths::target().join("bench");
    let mut record = Record::open(&directory.join("yield-runs.csv"), options.resume)?;
    for &workload in &chosen {
        let subject = Subject {
            gwp_race: &gwp_race,
            workload,
            program: &workload.build()?,
            arguments: &workload.arguments(hash_s),
            budget: Budget {
                max_overhead: &options.max_overhead,
                sample_period: options.sample_period.as_deref(),
            },
        };
        detections(&subject, &plan, &mut record)?;
        pairs(&subject, &plan, &mut record)?;
    }
    publish(&chosen, options, &plan, &record, &directory)
}

fn chosen(names: &[String]) -> Result<Vec<&'static Workload>> {
    let known = |name: &String| WORKLOADS.iter().any(|workload| workload.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all = WORKLOADS.map(|workload| workload.name).join(", ");
        bail!("there is no workload {unknown}; give some of: {all}");
    }
    let wanted =
        |workload: &&Workload| names.is_empty() || names.iter().any(|name| name == workload.name);
    Ok(WORKLOADS.iter().filter(wanted).collect())
}

/// Both strategies in turns, so that both see the machine in the same moods. Of a strategy that has found nothing in most of
/// its runs the others are left out: whatever they were, the median and the 90th percentile are the cap.
fn detections(subject: &Subject<'_>, plan: &Plan, record: &mut Record) -> Result<()> {
    let name = subject.workload.name;
    for run in 1..=plan.runs {
        for &strategy in &plan.strategies {
            let known = record.detections(name, strategy);
            let capped = known.iter().filter(|one| one.capped).count();
            let settled = 2 * capped > plan.runs;
            if settled || known.iter().any(|one| one.number == run) {
                continue;
            }
            let detection = subject.detection(strategy, run, plan.cap)?;
            println!(
                "{name}, {strategy}, run {run} of {}: {detection}",
                plan.runs
            );
            record.add_detection(name, strategy, detection)?;
        }
    }
    Ok(())
}

fn pairs(subject: &Subject<'_>, plan: &Plan, record: &mut Record) -> Result<()> {
    let name = subject.workload.name;
    for number in 1..=plan.pairs {
        for &strategy in &plan.strategies {
            let known = record.pairs(name, strategy);
            if known.iter().any(|one| one.number == number) {
                continue;
            }
            let pair = subject.pair(strategy, number, plan.seconds)?;
            println!(
                "{name}, {strategy}, pair {number} of {}: {pair}",
                plan.pairs
            );
            record.add_pair(name, strategy, pair)?;
        }
    }
    Ok(())
}

fn publish(
    chosen: &[&Workload],
    options: &Options,
    plan: &Plan,
    record: &Record,
    directory: &Path,
) -> Result<()> {
    let mut description = machine::description();
    let period = options.sample_period.as_ref();
    let period = period.map(|period| format!(" --sample-period {period}"));
    description.push(format!(
        "All with --max-overhead {}{}; clock: {}; planner: nothing else. A run is given up \
         after {} s, and counts as so many; when most of a strategy's {} have been, the others are left out. Loss and latency: medians of {} pairs of runs, plain and \
         watched, which take turns in being the first, without the first second; the latency is the longest \
         turn of a run. A false report names another pair of functions than those that race.",
        options.max_overhead,
        period.unwrap_or_default(),
        Strategy::Clock.options().join(" "),
        plan.cap,
        plan.runs,
        plan.pairs
    ));
    summary::figures(chosen, plan.runs, record).publish("yield", &description)?;
    summary::wishes(chosen, record).publish("yield-wanted", &description)?;
    picture::draw(chosen, record, plan.cap, &directory.join("yield.png"))
}
