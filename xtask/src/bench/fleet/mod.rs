//! `cargo xtask bench fleet`: a machine with many processes, of which some are active, watched by one daemon: what that costs, who gets a
//! lease, and which of the planted races are found, beside an `attach` for some of the processes with the same budget. With `--hosts`: many simulated machines that share what they learn.

mod attaches;
mod crowd;
mod daemon;
mod hosts;
mod interrupt;
mod picture;
mod plan;
mod results;
mod told;
mod usage;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use super::{machine, pair::in_turns, throughput::lost};
use crate::{build, paths};
use attaches::Attaches;
use crowd::{Crowd, Scratch};
use daemon::{Budgets, Daemon};
use plan::Plan;
use results::{OfFleet, Results, Watched};
use told::{Races, Served};
use usage::Usage;

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Processes.
    #[arg(long, default_value_t = 1000)]
    processes: usize,
    /// Programs that they execute.
    #[arg(long, default_value_t = 50)]
    binaries: usize,
    /// Processes that serve requests; the others wait for ever.
    #[arg(long, default_value_t = 200)]
    active: usize,
    /// Programs with a race (default: a fifth of them).
    #[arg(long)]
    racy: Option<usize>,
    /// Seconds that the daemon, and then the attaches, watch.
    #[arg(long, default_value_t = 600.0)]
    seconds: f64,
    /// What the active processes use together, percent of the machine's processors.
    #[arg(long, default_value_t = 50.0)]
    load: f64,
    /// Pairs of intervals, paused and watched, in which throughput is measured afterwards.
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// Seconds of an interval.
    #[arg(long, default_value_t = 15.0)]
    interval: f64,
    /// Processes that are watched by an `attach` each afterwards, of different programs; 0 for none.
    #[arg(long, default_value_t = 50)]
    attaches: usize,
    #[command(flatten)]
    budgets: Budgets,
    #[command(flatten)]
    hosts: hosts::Hosts,
}

/// After a pause has begun or ended, until throughput is measured.
const SETTLE: Duration = Duration::from_secs(1);
const PERCENT: f64 = 100.0;

/// Measures.
pub fn run(options: &Options) -> Result<()> {
    if let Some(hosts) = options.hosts.hosts {
        return hosts::run(&options.hosts, hosts);
    }
    let Options {
        processes,
        binaries,
        active,
        racy,
        seconds,
        ..
    } = *options;
    let plan = Plan::new(processes, binaries, active, racy)?;
    ensure!(
        seconds > 0.0 && options.interval > 0.0 && options.load > 0.0,
        "--seconds, --interval and --load must be above 0"
    );
    let gwp_race = build::run(true)?;
    interrupt::note_signals()?;
    let programs = crowd::build(&plan)?;
    // Removed last: the programs and the daemon have files in it.
    let scratch = Scratch::new()?;
    println!("==> starting {processes} processes");
    let mut crowd = Crowd::start(&plan, &programs, options.load / PERCENT, scratch.path())?;
    let fleet = watch_by_fleet(options, &plan, &gwp_race, &crowd, scratch.path())?;
    let attaches = watch_by_attaches(options, &plan, &gwp_race, &crowd, scratch.path())?;
    let ended = crowd.ended()?;
    drop(crowd);

    let mut description = machine::description();
    description.push(format!(
        "{processes} processes of {binaries} programs, {} of which have a race; {active} processes are active and use {} % of the processors \
         together. Budgets: {} % of the machine, {} % of a process, {} % while it is watched. Watched for {seconds} s.",
        plan.racy,
        options.load,
        options.budgets.host_budget,
        options.budgets.process_budget,
        options.budgets.lease_budget,
    ));
    let results = Results {
        plan,
        seconds,
        processors: processors()?,
        fleet,
        attaches,
        ended,
    };
    results.publish(description)
}

fn processors() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

/// What the rule of the configuration matches: the programs that [`crowd::build`] makes.
fn pattern() -> PathBuf {
    paths::target().join("bench/fleet-*")
}

fn watch_by_fleet(
    options: &Options,
    plan: &Plan,
    gwp_race: &Path,
    crowd: &Crowd,
    folder: &Path,
) -> Result<OfFleet> {
    println!("==> one daemon watches for {} s", options.seconds);
    let begun = Instant::now();
    let daemon = Daemon::start(gwp_race, &options.budgets, &pattern(), folder)?;
    let mut usage = Usage::of(vec![daemon.pid()]);
    let watched = usage.watch_until(begun + Duration::from_secs_f64(options.seconds));
    watched.with_context(|| {
        let told = daemon.told().unwrap_or_default();
        format!("while the daemon watched, which has said: {told}")
    })?;
    let (told, status) = (daemon.told()?, daemon.status()?);
    let races = Races::of(&told, plan, daemon.began);

    let rate = |is_paused: bool| -> Result<f64> {
        daemon.pause(is_paused)?;
        interrupt::wait_until(Instant::now() + SETTLE)?;
        let (begun, before) = (Instant::now(), crowd.served()?);
        interrupt::wait_until(begun + Duration::from_secs_f64(options.interval))?;
        Ok((crowd.served()? - before) as f64 / begun.elapsed().as_secs_f64())
    };
    let mut rates = Vec::new();
    for pair in 1..=options.pairs {
        let (paused, watched) = in_turns(pair, || rate(true), || rate(false))?;
        println!(
            "pair {pair} of {}: {paused:.1} and {watched:.1} requests a second, {:+.2} % lost",
            options.pairs,
            lost(paused, watched)
        );
        rates.push((paused, watched));
    }
    let first_lease_s = told::first_lease(&told, daemon.began);
    let all = daemon.end()?;
    let seconds = |name: &str| status[name].as_f64().unwrap_or(f64::NAN);
    Ok(OfFleet {
        watched: Watched {
            count: Served::of(&status).known,
            usage,
            races,
        },
        served: Served::of(&status),
        cost_s: seconds("cost_s"),
        overhead_s: seconds("overhead_s"),
        first_lease_s,
        leases: told::leases(&told),
        messages: told::messages(&all),
        rates,
    })
}

fn watch_by_attaches(
    options: &Options,
    plan: &Plan,
    gwp_race: &Path,
    crowd: &Crowd,
    folder: &Path,
) -> Result<Option<Watched>> {
    let affordable = attaches::affordable(&fs::read_to_string("/proc/meminfo")?);
    let wanted = plan.one_of_each(options.attaches);
    let count = wanted.min(affordable);
    if count < wanted {
        println!("there is memory for {count} attaches, and not for {wanted}");
    }
    if count == 0 {
        return Ok(None);
    }
    let processors = processors()?;
    let share = plan.share(0, options.load / PERCENT, processors);
    let percent = attaches::budget(options.budgets.host_budget, processors, count, share);
    println!(
        "==> {count} attaches watch for {} s, with {percent:.2} % each",
        options.seconds
    );
    let begun = Instant::now();
    let attaches = Attaches::start(gwp_race, &crowd.pids(count), percent, folder)?;
    let mut usage = Usage::of(attaches.pids());
    usage.watch_until(begun + Duration::from_secs_f64(options.seconds))?;
    let began = attaches.began;
    let told = attaches.end()?;
    Ok(Some(Watched {
        count,
        usage,
        races: Races::of(&told, plan, began),
    }))
}
