//! `cargo xtask test`: unit tests, and the end-to-end tests with a freshly built gwp-race.

use std::process::Command;

use anyhow::Result;

use crate::{
    build,
    durations::Durations,
    failures::Failures,
    paths, pypi, setup,
    steps::{step, step_with, testing_cargo},
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
const TESTS_AT_ONCE: usize = 2;

/// Builds what is needed, runs the tests, and tells which have taken longest and what those said that failed.
pub fn run(options: &Options) -> Result<()> {
    let binary = build::run(true)?;
    build::tests()?;
    pypi::have_rotel()?;
    pypi::have_charts(|| setup::have(&["python3-pip"]))?;
    // A workspace of its own. The gates themselves are built for the kernel alone.
    let mut shared = testing_cargo();
    shared.args(["test", "--lib", "--manifest-path"]);
    shared.arg(paths::ebpf_crate().join("Cargo.toml"));
    shared.arg("--").args(&options.filter);
    step("testing what the gates share with user space", &mut shared)?;
    let mut command = tests_of(options, &["--tests"]);
    command.args(["--test-threads", &TESTS_AT_ONCE.to_string()]);
    command.env("GWP_RACE_BIN", binary);
    command.env("GWP_RACE_FULL", if options.full { "1" } else { "0" });
    let mut durations = Durations::new(TESTS_AT_ONCE);
    let mut failures = Failures::default();
    let result = step_with("running the tests", &mut command, &mut |line, now| {
        durations.hear(line, now);
        failures.hear(line);
    });
    let examples = step_with(
        "testing the examples of the documentation",
        &mut tests_of(options, &["--doc"]),
        &mut |line, _| failures.hear(line),
    );
    durations.print();
    print!("{}", failures.text());
    result.and(examples)
}

/// The command that runs tests of some kinds. What `cargo test` does without a kind is more: it links each example of a package.
fn tests_of(options: &Options, kinds: &[&str]) -> Command {
    let mut command = testing_cargo();
    // One run is to tell all that fails.
    let what = [&["test", "--no-fail-fast"], kinds].concat();
    command.args(build::checked(&what)).arg("--");
    command.args(&options.filter);
    command
}
