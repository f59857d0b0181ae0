//! `cargo xtask test`: unit tests, and the end-to-end tests with a freshly built gwp-race.

use anyhow::Result;

use crate::{
    build,
    steps::{step, testing_cargo},
};

#[derive(Default, clap::Args)]
pub struct Options {
    /// Run the end-to-end tests in every configuration, not only in a pairwise choice.
    #[arg(long)]
    full: bool,
    /// Only the tests whose names contain this.
    filter: Option<String>,
}

/// End-to-end tests run programs with several busy threads each: more of them at once than
/// this, and a race is hidden by the threads not running at the same time.
const TESTS_AT_ONCE: &str = "2";

/// Builds what is needed, and runs the tests.
pub fn run(options: &Options) -> Result<()> {
    let binary = build::run(true)?;
    build::faulty()?;
    let mut command = testing_cargo();
    command.args(["test", "--workspace", "--"]);
    command.args(&options.filter);
    command.args(["--test-threads", TESTS_AT_ONCE]);
    command.env("GWP_RACE_BIN", binary);
    command.env("GWP_RACE_FULL", if options.full { "1" } else { "0" });
    step("running the tests", &mut command)
}
