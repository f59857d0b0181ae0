//! `cargo xtask bench`: measurements. They say on which machine, when and by which command they
//! were taken; none decides whether a test passes.

use anyhow::Result;

mod calibration;
mod costs;
mod detect;
mod detection;
mod figure;
mod fleet;
mod gaps;
mod inspect;
mod locks;
pub mod machine;
mod metadata;
mod numbers;
mod overhead;
mod page;
mod pair;
pub mod real;
mod reported;
mod started;
mod statistics;
mod switches;
mod table;
mod throughput;
mod world;
mod yields;

/// What to measure.
#[derive(clap::Subcommand)]
pub enum Bench {
    /// Time to the first report, and throughput lost, for accesses close together and far apart.
    Detect(detect::Options),
    /// How long threads stand still when gwp-race hangs and all processors are busy.
    Gaps(gaps::Options),
    /// What stalls cost those who wait for a lock of the stalled thread.
    Locks(locks::Options),
    /// Whether the budget is kept, for several budgets and numbers of threads.
    Overhead(overhead::Options),
    /// What grows with the number of threads, and with that of functions.
    Costs(costs::Options),
    /// What it costs a watched program to be given a processor.
    Switches(switches::Options),
    /// What the strategies find for what they cost, in ten programs.
    Yield(yields::Options),
    /// memcached under load: the races that gwp-race finds, those of ThreadSanitizer, and what both cost.
    Real(real::Options),
    /// What planners find in simulated programs; the tables and the picture of docs/planner.md.
    World(world::Options),
    /// A machine with a thousand processes, watched by one daemon, and by an `attach` of each of some of them.
    Fleet(fleet::Options),
    /// Loading and searching the metadata of a very large program.
    Metadata,
    /// Pages about a store with many races.
    Page(page::Options),
    /// Reading the tables of a very large program with `inspect`, and with LLVM's own tool.
    Inspect(inspect::Options),
}

/// Measures.
pub fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Detect(options) => detect::run(options),
        Bench::Gaps(options) => gaps::run(options),
        Bench::Locks(options) => locks::run(options),
        Bench::Overhead(options) => overhead::run(options),
        Bench::Switches(options) => switches::run(options),
        Bench::Costs(options) => costs::run(options),
        Bench::Yield(options) => yields::run(options),
        Bench::Real(options) => real::run(options),
        Bench::World(options) => world::run(options),
        Bench::Fleet(options) => fleet::run(options),
        Bench::Metadata => metadata::run(),
        Bench::Page(options) => page::run(options),
        Bench::Inspect(options) => inspect::run(options),
    }
}
