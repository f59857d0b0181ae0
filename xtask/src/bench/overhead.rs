//! `cargo xtask bench overhead`: whether `--max-overhead` is kept, as measured from outside, for
//! several budgets and numbers of threads.

use std::process::Command;

use anyhow::Result;

use super::{
    machine,
    statistics::{median, quantile},
    table::Table,
    throughput,
};
use crate::{build, fixture};

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Pairs of runs, plain and watched, for each budget; as many of two plain runs.
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Seconds that each half of a pair runs.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Budgets, percent.
    #[arg(long, value_delimiter = ',', default_value = "0.5,1,2,3")]
    budgets: Vec<f64>,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_value = "2,16,200")]
    threads: Vec<usize>,
    /// Run gwp-race without any capability, so without eBPF.
    #[arg(long)]
    without_ebpf: bool,
}

/// What setpriv(1) takes a program's rights away with.
const NO_RIGHTS: [&str; 3] = [
    "--inh-caps=-all",
    "--ambient-caps=-all",
    "--bounding-set=-all",
];
/// Points above the budget that count as keeping it.
const TOLERANCE: f64 = 0.5;

/// Measures.
pub fn run(options: &Options) -> Result<()> {
    let gwp_race = build::run(true)?;
    let program = fixture::compile("bench", "pool")?;
    let seconds = options.seconds.to_string();
    let mut table = Table::new(&[
        "threads",
        "--max-overhead %",
        "median loss %",
        "quartiles %",
        "two plain runs differ by %",
        "kept",
    ]);
    for threads in &options.threads {
        let threads = threads.to_string();
        let plain = || {
            let mut command = Command::new(&program);
            command.args([&seconds, &threads]);
            command
        };
        let losses = |name: &str, watched: &dyn Fn() -> Command| -> Result<Vec<f64>> {
            let measure = |pair| {
                let loss = throughput::loss(&mut plain(), &mut watched(), pair)?;
                println!(
                    "{threads} threads, {name}: pair {pair} of {}: {loss:+.2} %",
                    options.pairs
                );
                Ok(loss)
            };
            (1..=options.pairs).map(measure).collect()
        };
        // Half the width of the middle 95 %.
        let noise = losses("two plain runs", &plain)?;
        let noise = (quantile(&noise, 0.975) - quantile(&noise, 0.025)) / 2.0;
        for &budget in &options.budgets {
            let watched = || {
                let mut command = if options.without_ebpf {
                    let mut command = Command::new("setpriv");
                    command.args(NO_RIGHTS).arg(&gwp_race);
                    command
                } else {
                    Command::new(&gwp_race)
                };
                command
                    .args(["run", "--max-overhead", &format!("{budget}%")])
                    .args(["--output", "/dev/null", "--"])
                    .arg(&program)
                    .args([&seconds, &threads]);
                command
            };
            let losses = losses(&format!("{budget} %"), &watched)?;
            let kept = median(&losses) <= budget + TOLERANCE.max(noise);
            table.row(vec![
                threads.clone(),
                budget.to_string(),
                format!("{:+.2}", median(&losses)),
                format!(
                    "{:+.2} to {:+.2}",
                    quantile(&losses, 0.25),
                    quantile(&losses, 0.75)
                ),
                format!("{noise:.2}"),
                if kept { "yes" } else { "no" }.to_owned(),
            ]);
        }
    }
    let mut description = machine::description();
    description.push(format!(
        "Kept: the median of {} pairs is at most {TOLERANCE} points above the budget, or as much \
         above it as 95 % of pairs of plain runs differ by at most, if that is more. The first second, in which \
         gwp-race starts, is not counted.",
        options.pairs
    ));
    let name = if options.without_ebpf {
        "overhead-without-ebpf"
    } else {
        "overhead"
    };
    table.publish(name, &description)
}
