//! `cargo xtask bench world`: what planners find in simulated programs. Nothing of the machine matters, but for how long it takes.

use anyhow::Result;

use crate::{
    paths,
    steps::{cargo, step},
};

/// How to compare.
#[derive(clap::Args)]
pub struct Options {
    /// Record the figures below which the planner must not fall by a tenth.
    #[arg(long)]
    record: bool,
}

/// Compares, and writes the tables and the picture into docs.
pub fn run(options: &Options) -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--package", "gwp-race", "--example", "bench_world"]);
    command.arg("--").arg(paths::root().join("docs"));
    if options.record {
        command.arg(paths::root().join("sanitizer/src/hunt/world/recorded.csv"));
    }
    step("hunting in simulated programs", &mut command)
}
