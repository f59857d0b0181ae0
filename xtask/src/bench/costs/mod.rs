//! `cargo xtask bench costs`: what grows with the program. Arming, with the number of threads; start-up and
//! memory, with the number of functions.

use anyhow::Result;

use super::{machine, statistics::median};
use crate::{build, paths, plot};

mod functions;
mod threads;

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Numbers of threads, most of them idle.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000,5000")]
    threads: Vec<usize>,
    /// Numbers of functions.
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000")]
    functions: Vec<usize>,
    /// Measurements of each, of which the median counts.
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// Measures both.
pub fn run(options: &Options) -> Result<()> {
    let gwp_race = build::run(true)?;
    let description = machine::description();
    let by_threads = threads::measure(&gwp_race, &options.threads, options.runs)?;
    threads::table(&by_threads).publish("costs-threads", &description)?;
    let by_functions = functions::measure(&gwp_race, &options.functions, options.runs)?;
    functions::table(&by_functions).publish("costs-functions", &description)?;
    let script = threads::script(&by_threads) + &functions::script(&by_functions);
    plot::draw(
        &format!("set multiplot layout 1,2\n{script}unset multiplot\n"),
        &paths::target().join("bench/costs.png"),
    )
}

/// The median of a figure.
fn middle<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    median(&runs.iter().map(figure).collect::<Vec<_>>())
}
