//! `cargo xtask suites`: the test suites of other people's programs, by themselves and under
//! gwp-race. Both must give the same results, test by test.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};

use crate::{build, paths, source};

mod cpython;
mod memcached;
mod races;
mod redis;
mod results;
mod watching;

use races::Races;
use results::Results;
use watching::Watching;

/// How often a test that passes by itself may be tried under gwp-race.
const TRIES: usize = 2;

#[derive(clap::Args)]
pub struct Options {
    /// The suites to run: memcached, cpython, redis. All of them where none is named.
    names: Vec<String>,
    /// CPU time between two samples.
    #[arg(long, default_value = "1ms")]
    sample_period: String,
}

/// A program with a test suite of its own.
trait Suite {
    fn name(&self) -> &'static str;
    /// The Debian source package.
    fn package(&self) -> &'static str;
    /// Debian packages that it needs to be built and tested, besides compilers.
    fn needs(&self) -> &'static [&'static str] {
        &[]
    }
    /// Builds the program with metadata, in its own source tree.
    fn build(&self, tree: &source::Tree) -> Result<()>;
    /// Runs the tests; under gwp-race where there is something to watch with.
    fn run(&self, tree: &source::Tree, watching: Option<&Watching>) -> Result<Results>;
}

/// Runs the suites, and fails if gwp-race changed a result.
pub fn run(options: &Options) -> Result<()> {
    let all: [&dyn Suite; 3] = [&memcached::Memcached, &cpython::Cpython, &redis::Redis];
    for name in &options.names {
        if !all.iter().any(|suite| suite.name() == name) {
            bail!("there is no suite {name}; there are memcached, cpython and redis");
        }
    }
    let gwp_race = build::run(true)?;
    let mut changed = Vec::new();
    let mut rows = String::new();
    for suite in all {
        if options.names.is_empty() || options.names.iter().any(|name| name == suite.name()) {
            let done = one(suite, &gwp_race, &options.sample_period)?;
            rows += &done.row;
            changed.extend(done.changed);
        }
    }
    println!(
        "\n| suite | tests | passed by themselves, both times | of them failed under gwp-race | \
         samples | stalls | races |\n| --- | --- | --- | --- | --- | --- | --- |\n{rows}"
    );
    if !changed.is_empty() {
        bail!(
            "these pass by themselves, and fail under gwp-race:\n{}",
            changed.join("\n")
        );
    }
    Ok(())
}

/// What came of a suite.
struct Done {
    row: String,
    changed: Vec<String>,
}

fn one(suite: &dyn Suite, gwp_race: &Path, sample_period: &str) -> Result<Done> {
    let name = suite.name();
    let tree = source::fetch("suites", suite.package(), suite.needs())?;
    tree.once("built", || suite.build(&tree))?;
    let mut alone = Vec::new();
    for turn in ["once", "twice"] {
        println!("==> {name} by itself, {turn}");
        alone.push(suite.run(&tree, None)?);
    }
    let stable = Results::agreed(&alone);
    for test in stable.unstable(&alone) {
        println!("    by itself not always the same: {test}");
    }
    let mut races = Races::default();
    let mut changed = Vec::new();
    for turn in 0..TRIES {
        println!("==> {name} under gwp-race, try {} of {TRIES}", turn + 1);
        let reports = paths::target().join(format!("suites/reports/{name}-{turn}"));
        let _ = fs::remove_dir_all(&reports);
        fs::create_dir_all(&reports).with_context(|| format!("making {}", reports.display()))?;
        let watching = Watching::new(gwp_race, &reports, sample_period);
        let watched = suite.run(&tree, Some(&watching))?;
        races.read(&reports)?;
        let worse = stable.worse_in(&watched);
        for test in &worse {
            println!("    fails: {test}");
        }
        changed = worse
            .into_iter()
            .filter(|test| turn == 0 || changed.contains(test))
            .collect();
        if changed.is_empty() {
            break;
        }
    }
    println!("{races}");
    if races.stalls == 0 {
        bail!(
            "gwp-race has stalled no thread in {name}, so nothing was tested; try `gwp-race doctor`"
        );
    }
    let row = format!(
        "| {name} | {} | {} | {} | {} | {} | {} |\n",
        stable.describe(),
        stable.passed(),
        changed.len(),
        races.samples,
        races.stalls,
        races.distinct(),
    );
    Ok(Done { row, changed })
}
