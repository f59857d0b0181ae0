//! `cargo xtask bench real`: programs from Debian's sources, under load by themselves, under gwp-race and built with
//! ThreadSanitizer. Which pairs of source lines both report, and how much work is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};

use super::{machine, statistics::median, table::Table, throughput::lost};
use crate::build;

mod counts;
mod known;
mod load;
pub mod memcached;
mod pairs;
mod probes;
pub mod program;
mod redis;
mod restarts;
mod server;
mod sqlite;

use pairs::Pair;
use program::{Build, Load, Name, Program, Way};

/// Where all of it is built, below `target`.
const ROOM: &str = "real";
/// What is executed less often than this in a minute cannot be caught in the act.
const OFTEN_PER_MINUTE: f64 = 10.0;
/// Of longer runs, what was found until then is counted as well.
const MINUTE: Duration = Duration::from_secs(60);

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// The program.
    #[arg(value_enum, default_value = "memcached")]
    program: Name,
    /// Seconds that gwp-race has to find races.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds of each run with ThreadSanitizer, and of the one with counters.
    #[arg(long, default_value_t = 60)]
    sanitizer_seconds: u64,
    /// Runs under gwp-race, each of which is counted by itself.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Rounds of throughput: plain, under gwp-race, and (but for `--alone`) with ThreadSanitizer, in turns. 0 for none.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds that each of them lasts.
    #[arg(long, default_value_t = 8)]
    round_seconds: u64,
    /// What gwp-race may cost.
    #[arg(long, default_value = "2%")]
    max_overhead: String,
    /// Threads of a server.
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Clients of a server, each with a connection (memcached 8, redis 8 for each thread).
    #[arg(long)]
    clients: Option<usize>,
    /// Leave ThreadSanitizer out.
    #[arg(long)]
    alone: bool,
    /// Only compare runs without and with the kernel's probes, in turns: what is found, and how soon it is known which access sites are contended.
    #[arg(long)]
    probes: bool,
    /// Only measure what the ledger is worth when a program is started again: the time until a pair is found that was not found before, without and with what was learned, in turns.
    #[arg(long, conflicts_with = "probes")]
    restarts: bool,
    /// Seconds for which it has run before it is started again.
    #[arg(long, default_value_t = 20)]
    before: u64,
    /// Runs with ThreadSanitizer, whose pairs are put together: of each address it reports one race, as a rule.
    #[arg(long, default_value_t = 3)]
    sanitizer_runs: usize,
}

/// A pair of lines, and who has reported it.
#[derive(Default)]
struct Found {
    /// In which of its runs, and in which within the first minute.
    by_gwp_race: BTreeSet<usize>,
    in_first_minute: BTreeSet<usize>,
    by_thread_sanitizer: bool,
    /// How often in a minute each of both lines is executed.
    per_minute: [f64; 2],
}

impl Found {
    /// Both lines are executed so often that who stands at one can meet the other.
    fn is_often_executed(&self) -> bool {
        let mut counts = self.per_minute.iter();
        counts.all(|count| *count >= OFTEN_PER_MINUTE)
    }
}

/// How long a run takes.
#[derive(Clone, Copy)]
struct Lasts {
    watched: Duration,
    sanitized: Duration,
}

/// Measures.
pub fn run(options: &Options) -> Result<()> {
    let gwp_race = build::run(true)?;
    let program = options.program.program();
    let watched = program.make(Build::Watched)?;
    let load = Load {
        threads: options.threads,
        clients: (options.clients).unwrap_or_else(|| program.clients(options.threads)),
    };
    if options.probes {
        return probes::compare(options, program, &load, &watched, &gwp_race);
    }
    if options.restarts {
        return restarts::compare(options, program, &load, &watched, &gwp_race);
    }
    // What the program, or who watches it, has written.
    let run = |way: &Way<'_>, built: &Path, seconds: u64| {
        let (command, written) = way.command(built)?;
        program.run(command, &load, Duration::from_secs(seconds))?;
        anyhow::Ok(written)
    };
    let lasts = |seconds| program.lasts(Duration::from_secs(seconds));
    let lasts = Lasts {
        watched: lasts(options.seconds),
        sanitized: lasts(options.sanitizer_seconds),
    };
    let way = Way::Watched {
        gwp_race: &gwp_race,
        max_overhead: &options.max_overhead,
        more: &[],
    };
    let mut found: BTreeMap<Pair, Found> = BTreeMap::new();
    for number in 1..=options.runs {
        println!(
            "==> {} s under gwp-race, run {number} of {}",
            lasts.watched.as_secs(),
            options.runs
        );
        let begun = SystemTime::now();
        let written = run(&way, &watched, options.seconds)?;
        // Each is kept, for whoever wants to read on.
        let report = written.with_file_name(format!("gwp-race-{number}.json"));
        fs::rename(&written, &report).with_context(|| format!("keeping {}", report.display()))?;
        let report = program::text(&report)?;
        let pairs = pairs::of_gwp_race(&report, SystemTime::now());
        println!("{} pairs", pairs.len());
        for pair in pairs {
            let of_pair = found.entry(pair).or_default();
            of_pair.by_gwp_race.insert(number);
        }
        for pair in pairs::of_gwp_race(&report, begun + MINUTE) {
            let of_pair = found.entry(pair).or_default();
            of_pair.in_first_minute.insert(number);
        }
    }
    if options.alone {
        publish_pairs(options, &program.work(&load), lasts, &found)?;
        return throughput(
            options,
            program,
            &load,
            &[
                ("plain", &watched, &Way::Plain),
                ("gwp-race", &watched, &way),
            ],
        );
    }
    let sanitized = program.make(Build::Sanitized)?;
    let counted = program.make(Build::Counted)?;
    for number in 1..=options.sanitizer_runs {
        println!(
            "==> {} s with ThreadSanitizer, run {number} of {}",
            lasts.sanitized.as_secs(),
            options.sanitizer_runs
        );
        let reports = run(&Way::Sanitized, &sanitized, options.sanitizer_seconds)?;
        let reports = program::text(&reports)?;
        let pairs = pairs::of_thread_sanitizer(&reports);
        println!("{} pairs", pairs.len());
        for pair in pairs {
            found.entry(pair).or_default().by_thread_sanitizer = true;
        }
    }
    println!("==> {} s with counters", lasts.sanitized.as_secs());
    let profile = run(&Way::Counted, &counted, options.sanitizer_seconds)?;
    let counts = counts::read(&counted, &profile)?;
    for (pair, of_pair) in &mut found {
        let count = |line: &String| counts.get(line).copied().unwrap_or(0) as f64;
        let minutes = lasts.sanitized.as_secs_f64() / 60.0;
        of_pair.per_minute = [&pair.0, &pair.1].map(|line| count(line) / minutes);
    }
    publish_pairs(options, &program.work(&load), lasts, &found)?;
    let ways: [Competitor<'_>; 3] = [
        ("plain", &watched, &Way::Plain),
        ("gwp-race", &watched, &way),
        ("ThreadSanitizer", &sanitized, &Way::Sanitized),
    ];
    throughput(options, program, &load, &ways)
}

fn table_name(options: &Options, what: &str) -> String {
    let program = options.program.program().package();
    format!("real-{program}-{what}")
}

fn publish_pairs(
    options: &Options,
    work: &str,
    lasts: Lasts,
    found: &BTreeMap<Pair, Found>,
) -> Result<()> {
    let count = |which: &dyn Fn(&Found) -> bool| {
        let pairs = found.values();
        pairs.filter(|of_pair| which(of_pair)).count()
    };
    // Those of each run of gwp-race, and their median.
    let medians = |counts: Vec<f64>| {
        let each: Vec<_> = counts.iter().map(f64::to_string).collect();
        format!("{} (median {})", each.join(", "), median(&counts))
    };
    let of_runs = |which: &dyn Fn(&Found) -> bool| {
        let all = |run| count(&|pair| pair.by_gwp_race.contains(&run) && which(pair)) as f64;
        let soon = |run| count(&|pair| pair.in_first_minute.contains(&run) && which(pair)) as f64;
        let runs = 1..=options.runs;
        let found = medians(runs.clone().map(all).collect());
        if lasts.watched > MINUTE {
            format!(
                "{found}, in the first minute {}",
                medians(runs.map(soon).collect())
            )
        } else {
            found
        }
    };
    let mut description = machine::description();
    description.push(format!(
        "Load: {work}; {} s under gwp-race with --max-overhead {}.",
        lasts.watched.as_secs(),
        options.max_overhead
    ));
    if options.alone {
        description.push(format!(
            "Pairs of source lines in each run: {}; in all together {}.",
            of_runs(&|_| true),
            found.len()
        ));
        let mut table = Table::new(&["one line", "other line"]);
        for (one, other) in found.keys() {
            table.row(vec![one.clone(), other.clone()]);
        }
        return table.publish(&table_name(options, "pairs"), &description);
    }
    let sanitizers = |pair: &Found| pair.by_thread_sanitizer && pair.is_often_executed();
    description.push(format!(
        "Pairs of source lines: ThreadSanitizer {} (in {} runs of {} s), of which both sides are executed at least {OFTEN_PER_MINUTE} \
         times a minute in {}; gwp-race {} (in {} runs), of which ThreadSanitizer reports {}, and of those that are executed so \
         often {}. In each of gwp-race's runs: {}; of ThreadSanitizer's that are executed so often: {}.",
        count(&|pair| pair.by_thread_sanitizer),
        options.sanitizer_runs,
        lasts.sanitized.as_secs(),
        count(&sanitizers),
        count(&|pair| !pair.by_gwp_race.is_empty()),
        options.runs,
        count(&|pair| !pair.by_gwp_race.is_empty() && pair.by_thread_sanitizer),
        count(&|pair| !pair.by_gwp_race.is_empty() && sanitizers(pair)),
        of_runs(&|_| true),
        of_runs(&sanitizers),
    ));
    let mut table = Table::new(&[
        "one line",
        "other line",
        "gwp-race, runs",
        "ThreadSanitizer",
        "executed a minute",
    ]);
    for (pair, of_pair) in found {
        let [one, other] = of_pair.per_minute;
        table.row(vec![
            pair.0.clone(),
            pair.1.clone(),
            of_pair.by_gwp_race.len().to_string(),
            if of_pair.by_thread_sanitizer {
                "yes"
            } else {
                "no"
            }
            .to_owned(),
            format!("{one:.0}, {other:.0}"),
        ]);
    }
    table.publish(&table_name(options, "pairs"), &description)
}

/// A name, what is run, and how.
type Competitor<'a> = (&'static str, &'a Path, &'a Way<'a>);

/// Measures the requests a second of each in turns; the losses are those against the first.
fn throughput(
    options: &Options,
    program: &dyn Program,
    load: &Load,
    ways: &[Competitor<'_>],
) -> Result<()> {
    if options.rounds == 0 {
        return Ok(());
    }
    let seconds = Duration::from_secs(options.round_seconds);
    let mut rates = vec![Vec::new(); ways.len()];
    for round in 0..options.rounds {
        for step in 0..ways.len() {
            // Each is the first one in turn.
            let index = (round + step) % ways.len();
            let (Some((name, built, way)), Some(rates)) = (ways.get(index), rates.get_mut(index))
            else {
                continue;
            };
            let rate = program.run(way.command(built)?.0, load, seconds)?;
            println!(
                "{name}, round {} of {}: {rate:.0} a second",
                round + 1,
                options.rounds
            );
            rates.push(rate);
        }
    }
    let mut table = Table::new(&["", "median a second", "median loss %", "losses %"]);
    let plain = rates.first().cloned().unwrap_or_default();
    for ((name, ..), rates) in ways.iter().zip(&rates) {
        let losses: Vec<f64> = plain
            .iter()
            .zip(rates)
            .map(|(plain, rate)| lost(*plain, *rate))
            .collect();
        let each: Vec<String> = losses.iter().map(|loss| format!("{loss:+.2}")).collect();
        table.row(vec![
            (*name).to_owned(),
            format!("{:.0}", median(rates)),
            format!("{:+.2}", median(&losses)),
            each.join(" "),
        ]);
    }
    let mut description = machine::description();
    description.push(format!(
        "{}; gwp-race with --max-overhead {}; what it takes to start is not counted.",
        program.work(load),
        options.max_overhead
    ));
    table.publish(&table_name(options, "throughput"), &description)
}
