//! Everything of gwp-race that plain `cargo build` cannot do: installing compilers, building
//! the eBPF object, the demonstration, the tests on real programs, the benchmarks, CI.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod apt;
mod bench;
mod browser;
mod build;
mod chaos;
mod children;
mod ci;
mod demo;
mod dist;
mod durations;
mod ebpf;
mod failures;
mod fixture;
mod fuzz;
mod install;
mod kernels;
#[cfg(test)]
mod layout;
mod paths;
mod plot;
mod pypi;
#[cfg(test)]
mod scale;
mod setup;
mod soak;
mod source;
mod steps;
mod suites;
mod test;
mod trace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks of gwp-race")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing: compilers and the eBPF toolchain.
    Setup,
    /// Build the eBPF object, then gwp-race with the object inside.
    Build {
        /// Build with optimizations, into target/release.
        #[arg(long)]
        release: bool,
    },
    /// Build both with optimizations, and install gwp-race as `cargo install` does.
    Install(install::Options),
    /// Build a static gwp-race and a Debian package of it, into target/packages.
    Dist(dist::Options),
    /// Catch a race in a small server under load, and show the report.
    Demo,
    /// Run all tests: unit, integration, and end to end on real programs.
    Test(test::Options),
    /// Measure; results go to stdout and to target/bench.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Record what programs do with their memory; their true races, and what planners find of them in the recording.
    Trace(trace::Options),
    /// Kill gwp-race at random instants, and examine the programs that it watched.
    Chaos(chaos::Options),
    /// Watch a program under a mixed load for some minutes, and draw what gwp-race uses.
    Soak(soak::Options),
    /// Run the test suites of memcached, CPython and redis by themselves and under gwp-race.
    Suites(suites::Options),
    /// Try gwp-race on Debian's kernels in virtual machines: deliveries, rights, Yama, lockdown, survival.
    Kernels(kernels::Options),
    /// Feed the parsers of files with bytes that no compiler would write.
    Fuzz(fuzz::Options),
    /// Look at the pages about a store in a real browser.
    Browser(browser::Options),
    /// What continuous integration runs: format, lints, documentation, tests.
    Ci,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Setup => setup::run(),
        Task::Build { release } => build::run(release).map(drop),
        Task::Install(options) => install::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::Demo => demo::run(),
        Task::Test(options) => test::run(&options),
        Task::Bench(bench) => bench::run(&bench),
        Task::Trace(options) => trace::run(&options),
        Task::Chaos(options) => chaos::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::Suites(options) => suites::run(&options),
        Task::Kernels(options) => kernels::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Browser(options) => browser::run(&options),
        Task::Ci => ci::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
