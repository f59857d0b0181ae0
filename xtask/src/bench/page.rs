//! `cargo xtask bench page`: how long pages about a large store take.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::machine;
use crate::{
    build, fixture, paths,
    steps::{cargo, step},
};

/// So often a program with a race is run until that is caught; as a rule the first time is enough.
const TRIES: usize = 5;

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
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let report = report(&gwp_race, &folder)?;
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
        fs::remove_dir_all(&folder)?;
    }
    measured
}

/// A file with the report of a race, of which the store is to have copies.
fn report(gwp_race: &Path, folder: &Path) -> Result<PathBuf> {
    let program = fixture::compile("races", "write_write")?;
    let report = folder.join("report.jsonl");
    for _ in 0..TRIES {
        let mut command = Command::new(gwp_race);
        command.args(["run", "--sample-period", "1ms", "--max-overhead", "20%"]);
        command.args(["--format", "json", "-o"]).arg(&report);
        command.arg("--").arg(&program).arg("3");
        step("catching a race", &mut command)?;
        let caught = fs::read_to_string(&report)?;
        if let Some(race) = caught
            .lines()
            .find(|line| line.contains("\"type\":\"race\""))
        {
            println!("    the report of a race: {} bytes", race.len());
            return Ok(report);
        }
    }
    bail!(
        "no race was caught in {TRIES} tries: try `gwp-race doctor`, which says what this machine lacks"
    )
}
