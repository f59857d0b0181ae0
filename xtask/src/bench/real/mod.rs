//! `cargo xtask bench real`: memcached, from Debian's source, under load by itself, under gwp-race and built with
//! ThreadSanitizer. Which pairs of source lines both report, and how many requests are answered.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::Result;

use super::{machine, statistics::median, table::Table, throughput::lost};
use crate::build;

mod counts;
mod load;
mod pairs;
mod server;

use pairs::Pair;
use server::{Build, Server, Way};

/// Where all of it is built, below `target`.
const ROOM: &str = "real";
/// What is executed less often than this in a minute cannot be caught in the act.
const OFTEN_PER_MINUTE: f64 = 10.0;

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Seconds that gwp-race and ThreadSanitizer have to find races.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Rounds of throughput: plain, under gwp-race, and with ThreadSanitizer, in turns. 0 for none.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds that each of them lasts.
    #[arg(long, default_value_t = 8)]
    round_seconds: u64,
    /// What gwp-race may cost.
    #[arg(long, default_value = "2%")]
    max_overhead: String,
    /// Threads of the server.
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Clients, each with a connection.
    #[arg(long, default_value_t = 8)]
    clients: usize,
}

/// A pair of lines, and who has reported it.
#[derive(Default)]
struct Found {
    by_gwp_race: bool,
    by_thread_sanitizer: bool,
    /// How often in a minute each of both lines is executed.
    per_minute: [f64; 2],
}

/// Measures.
pub fn run(options: &Options) -> Result<()> {
    let gwp_race = build::run(true)?;
    let watched = Build::Watched.make()?;
    let sanitized = Build::Sanitized.make()?;
    let counted = Build::Counted.make()?;

    let way = Way::Watched {
        gwp_race: &gwp_race,
        max_overhead: &options.max_overhead,
    };
    let seconds = Duration::from_secs(options.seconds);
    println!("==> {} s under gwp-race", options.seconds);
    let of_gwp_race =
        Server::start(&watched, &way, options.threads)?.load(options.clients, seconds)?;
    println!("==> {} s with ThreadSanitizer", options.seconds);
    let of_thread_sanitizer = Server::start(&sanitized, &Way::Sanitized, options.threads)?
        .load(options.clients, seconds)?;
    println!("==> {} s with counters", options.seconds);
    let counters = Server::start(&counted, &Way::Counted, options.threads)?;
    let counters = counters.load(options.clients, seconds)?;
    let counts = counts::read(&counted, &counters.written)?;

    let mut found: BTreeMap<Pair, Found> = BTreeMap::new();
    for pair in pairs::of_gwp_race(&of_gwp_race.text()?) {
        found.entry(pair).or_default().by_gwp_race = true;
    }
    for pair in pairs::of_thread_sanitizer(&of_thread_sanitizer.text()?) {
        found.entry(pair).or_default().by_thread_sanitizer = true;
    }
    for (pair, of_pair) in &mut found {
        let count = |line: &String| counts.get(line).copied().unwrap_or(0) as f64;
        let minutes = options.seconds as f64 / 60.0;
        of_pair.per_minute = [&pair.0, &pair.1].map(|line| count(line) / minutes);
    }
    publish_pairs(&found)?;
    if options.rounds == 0 {
        return Ok(());
    }
    throughput(options, &gwp_race, [&watched, &sanitized])
}

fn publish_pairs(found: &BTreeMap<Pair, Found>) -> Result<()> {
    let often = |of_pair: &&Found| {
        of_pair
            .per_minute
            .iter()
            .all(|count| *count >= OFTEN_PER_MINUTE)
    };
    let count =
        |which: &dyn Fn(&&Found) -> bool| found.values().filter(|of_pair| which(of_pair)).count();
    let mut description = machine::description();
    description.push(format!(
        "Pairs of source lines: gwp-race {}, of which ThreadSanitizer reports {}; ThreadSanitizer {}, of which \
         both sides are executed at least {OFTEN_PER_MINUTE} times a minute in {}, of which gwp-race reports {}.",
        count(&|pair| pair.by_gwp_race),
        count(&|pair| pair.by_gwp_race && pair.by_thread_sanitizer),
        count(&|pair| pair.by_thread_sanitizer),
        count(&|pair| pair.by_thread_sanitizer && often(pair)),
        count(&|pair| pair.by_thread_sanitizer && often(pair) && pair.by_gwp_race),
    ));
    let mut table = Table::new(&[
        "one line",
        "other line",
        "gwp-race",
        "ThreadSanitizer",
        "executed a minute",
    ]);
    let word = |reported| if reported { "yes" } else { "no" }.to_owned();
    for (pair, of_pair) in found {
        let [one, other] = of_pair.per_minute;
        table.row(vec![
            pair.0.clone(),
            pair.1.clone(),
            word(of_pair.by_gwp_race),
            word(of_pair.by_thread_sanitizer),
            format!("{one:.0}, {other:.0}"),
        ]);
    }
    table.publish("real-pairs", &description)
}

fn throughput(options: &Options, gwp_race: &Path, [watched, sanitized]: [&Path; 2]) -> Result<()> {
    let seconds = Duration::from_secs(options.round_seconds);
    let way = Way::Watched {
        gwp_race,
        max_overhead: &options.max_overhead,
    };
    let ways = [
        ("plain", watched, &Way::Plain),
        ("gwp-race", watched, &way),
        ("ThreadSanitizer", sanitized, &Way::Sanitized),
    ];
    let mut rates = [const { Vec::new() }; 3];
    for round in 0..options.rounds {
        for step in 0..ways.len() {
            // Each is the first one in turn.
            let index = (round + step) % ways.len();
            let (Some((name, program, way)), Some(rates)) = (ways.get(index), rates.get_mut(index))
            else {
                continue;
            };
            let run =
                Server::start(program, way, options.threads)?.load(options.clients, seconds)?;
            let rate = run.requests as f64 / seconds.as_secs_f64();
            println!(
                "{name}, round {} of {}: {rate:.0} requests/s",
                round + 1,
                options.rounds
            );
            rates.push(rate);
        }
    }
    let mut table = Table::new(&["", "median requests/s", "median loss %", "losses %"]);
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
        "memcached with {} threads, {} clients; gwp-race with --max-overhead {}; \
         the first second of each run is not counted.",
        options.threads, options.clients, options.max_overhead
    ));
    table.publish("real-throughput", &description)
}
