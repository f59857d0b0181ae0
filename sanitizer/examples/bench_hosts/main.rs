//! What it is worth that machines share what they learn, and what it costs (`cargo xtask bench fleet --hosts`): simulated machines, of which each watches a simulated program by the real planner, and a real collector with a real store,
//! to which they send what they find and learn by HTTP, and which tells them what all have learned.
//!
//!     bench_hosts GWP_RACE STORE REPORT HOSTS HOURS SEED ROLLOUT
//!
//! `GWP_RACE` is the program that collects, into `STORE` (`sqlite:PATH`, `postgres://...`), which is to be empty; `REPORT` has a race (`--format json`), as which all that are found are sent. `ROLLOUT` machines find the same race at once
//! at the end (0: none). Writes an object of JSON to standard output, and to standard error how far it is.

mod code;
mod collector;
mod rollout;
mod shared;

use std::{collections::BTreeSet, env, fs, path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use gwp_race::{
    hunt::world::{
        fleet::{Fleet, Turns},
        population::Population,
    },
    report::Race,
};
use serde_json::{Value, json};

use collector::Collector;
use shared::Shared;

/// What is to be simulated.
struct Plan {
    population: Population,
    hosts: usize,
    hours: f64,
    seed: u64,
}

impl Plan {
    fn fleet(&self) -> Fleet {
        Fleet::new(self.population.clone(), Turns::USUAL, self.hosts, self.seed)
    }
}

/// The races that were found by all together: when each was found for the first time, s.
#[derive(Default)]
struct Found {
    races: BTreeSet<(usize, usize)>,
    times: Vec<f64>,
}

impl Found {
    fn add(&mut self, fleet: &Fleet) {
        let learned = fleet.learned().iter();
        let mut finds: Vec<_> = learned.flat_map(|learned| &learned.finds).collect();
        finds.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
        for find in finds {
            if self.races.insert(find.race) {
                self.times.push(find.time_s);
            }
        }
    }
}

/// Each by itself.
fn alone(plan: &Plan) -> Value {
    let mut fleet = plan.fleet();
    let mut found = Found::default();
    while fleet.now_s() < plan.hours * 3600.0 {
        fleet.round();
        found.add(&fleet);
        eprintln!("alone, {} s: {} races", fleet.now_s(), found.times.len());
    }
    json!({"times": found.times, "leases": fleet.leases()})
}

/// All together.
fn pooled(plan: &Plan, collector: &Collector, race: &Race) -> Result<Value> {
    let mut fleet = plan.fleet();
    let mut found = Found::default();
    let mut shared = Shared::new(&plan.population, plan.hosts, race.clone(), plan.seed);
    let cpu_s = collector.cpu_s();
    while fleet.now_s() < plan.hours * 3600.0 {
        fleet.round();
        found.add(&fleet);
        for (host, learned) in fleet.learned().iter().enumerate() {
            shared.send(collector, host, learned)?;
        }
        for host in 0..plan.hosts {
            if let Some(known) = shared.ask(collector, host, fleet.now_s())? {
                fleet.tell(host, Arc::clone(&known));
            }
        }
        eprintln!("pooled, {} s: {} races", fleet.now_s(), found.times.len());
    }
    let days = plan.hosts as f64 * fleet.now_s() / 86400.0;
    let figures = shared.figures;
    Ok(json!({
        "times": found.times,
        "leases": fleet.leases(),
        "messages": figures.messages,
        "sent_per_host_day": figures.sent as f64 / days,
        "told_per_host_day": figures.told as f64 / days,
        "rows": figures.rows,
        "sending_s": figures.sending.as_secs_f64(),
        "collector_cpu_s": collector.cpu_s() - cpu_s,
        "hints_bytes": figures.largest,
    }))
}

fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [gwp_race, store, report, hosts, hours, seed, rollout] = &words[..] else {
        anyhow::bail!("usage: bench_hosts GWP_RACE STORE REPORT HOSTS HOURS SEED ROLLOUT");
    };
    let report = fs::read_to_string(report).with_context(|| format!("reading {report}"))?;
    let mut lines = report.lines();
    let race: Race = lines
        .find_map(|line| serde_json::from_str(line).ok())
        .context("there is no race in the report")?;
    let seed = seed.parse()?;
    let plan = Plan {
        population: Population::new(seed),
        hosts: hosts.parse()?,
        hours: hours.parse()?,
        seed,
    };
    let collector = Collector::start(&PathBuf::from(gwp_race), store)?;
    let pooled = pooled(&plan, &collector, &race)?;
    let told = json!({
        "races": plan.fleet().races().len(),
        "sites": plan.population.whole.sites.len(),
        "pooled": pooled,
        "alone": alone(&plan),
        "rollout": rollout::all_at_once(&collector, &race, rollout.parse()?)?,
    });
    collector.end()?;
    println!("{told}");
    Ok(())
}
