//! `cargo xtask bench page`: how long pages about a large store take.

use anyhow::{Context as _, Result};

use super::{detection::report_of_a_race, machine};
use crate::{
    build, paths,
    steps::{cargo, step},
};

/// How large the store is.
#[derive(clap::Args)]
pub struct Options {
    /// Races.
    #[arg(long, default_value_t = 100_000)]
    races: u64,
    /// Sightings of them.
    #[arg(long, default_value_t = 10_000_000)]
    sightings: u64,
    /// A database that is empty, or was filled by this before: postgres://HOST/DATABASE; a file of its own without it.
    #[arg(long)]
    store: Option<String>,
    /// Keep the file for the next time.
    #[arg(long)]
    keep: bool,
}

/// Measures.
pub fn run(options: &Options) -> Result<()> {
    // The example is of the same package, which is not built without gates.
    let gwp_race = build::run(true)?;
    for line in machine::description() {
        println!("{line}");
    }
    let folder = paths::target().join("bench").join("page");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let report = report_of_a_race(&gwp_race)?;
    let file = folder.join(format!("{}-{}.db", options.races, options.sightings));
    let mut command = cargo();
    command.args(["run", "--release", "--package", "gwp-race"]);
    command.args(["--example", "bench_page", "--"]);
    command.arg(
        options
            .store
            .clone()
            .unwrap_or_else(|| format!("sqlite:{}", file.display())),
    );
    command.args([options.races, options.sightings].map(|number| number.to_string()));
    command.arg(report);
    let measured = step("measuring pages", &mut command);
    if !options.keep {
        std::fs::remove_dir_all(&folder)?;
    }
    measured
}
