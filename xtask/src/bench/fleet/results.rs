//! What came of it: tables, and the picture.

use std::collections::BTreeMap;

use anyhow::Result;

use super::{
    PERCENT, picture,
    plan::Plan,
    told::{Leases, Races, Served},
    usage::Usage,
};
use crate::{
    bench::{
        statistics::{median, quantile},
        table::Table,
        throughput::lost,
    },
    paths,
};

/// Rows of the table of races by time.
const STEPS: u32 = 10;
const NAMES: [&str; 2] = ["fleet", "attaches"];
const COLOURS: [&str; 2] = ["#2060c0", "#d06020"];

/// What came of one way to watch.
pub struct Watched {
    /// Processes that were watched, or that could have been.
    pub count: usize,
    pub usage: Usage,
    pub races: Races,
}

/// What came of the daemon besides.
pub struct OfFleet {
    pub watched: Watched,
    pub served: Served,
    /// Seconds that its leases have cost by its own account, and what it has used otherwise.
    pub cost_s: f64,
    pub overhead_s: f64,
    /// Seconds until the first lease began, if there was one.
    pub first_lease_s: Option<f64>,
    pub leases: BTreeMap<String, Leases>,
    pub messages: BTreeMap<String, usize>,
    /// Requests a second, paused and watched.
    pub rates: Vec<(f64, f64)>,
}

/// See the module.
pub struct Results {
    pub plan: Plan,
    pub seconds: f64,
    pub processors: usize,
    pub fleet: OfFleet,
    pub attaches: Option<Watched>,
    /// Processes that have ended, though none should.
    pub ended: usize,
}

impl Results {
    /// Prints them and writes them below target/bench.
    pub fn publish(&self, mut description: Vec<String>) -> Result<()> {
        for (message, times) in &self.fleet.messages {
            description.push(format!("Said by the daemon, {times} times: {message}"));
        }
        for (name, watched) in self.ways() {
            for [one, other] in &watched.races.wrong {
                description.push(format!("WRONG, by {name}: a race of {one} and {other}"));
            }
        }
        self.leases().publish("fleet-leases", &description)?;
        self.by_time().publish("fleet-races", &description)?;
        self.measures().publish("fleet", &description)?;
        let ways: Vec<_> = self.ways().collect();
        let times: Vec<_> = ways.iter().map(|(_, way)| way.races.times()).collect();
        let curves = ways.iter().zip(COLOURS).zip(&times);
        let curves: Vec<_> = curves
            .map(|((&(name, _), colour), times)| (name, colour, times.as_slice()))
            .collect();
        let picture = paths::target().join("bench/fleet.png");
        picture::draw(&curves, self.seconds, self.plan.racy, &picture)
    }

    /// Both ways, or the one that was measured.
    fn ways(&self) -> impl Iterator<Item = (&'static str, &Watched)> {
        let all = std::iter::once(&self.fleet.watched).chain(&self.attaches);
        NAMES.into_iter().zip(all)
    }

    fn measures(&self) -> Table {
        let mut table = Table::new(&["", NAMES[0], NAMES[1]]);
        let mut row = |what: &str, of: &dyn Fn(&Watched) -> String| {
            let attaches = self.attaches.as_ref().map_or_else(|| "-".to_owned(), of);
            table.row(vec![what.to_owned(), of(&self.fleet.watched), attaches]);
        };
        let capacity_s = self.seconds * self.processors as f64;
        row("processes that may be watched", &|way| {
            way.count.to_string()
        });
        row("CPU time of gwp-race, % of the machine", &|way| {
            format!("{:.2}", way.usage.cpu_s / capacity_s * PERCENT)
        });
        row("memory in the first second, MiB (PSS)", &|way| {
            format!("{:.1}", way.usage.first_mib)
        });
        row("memory at most, MiB (PSS)", &|way| {
            format!("{:.1}", way.usage.peak_mib)
        });
        row("processes of gwp-race at most", &|way| {
            way.usage.peak_processes.to_string()
        });
        row("open descriptors at most", &|way| {
            way.usage.peak_descriptors.to_string()
        });
        row("planted races found", &|way| {
            format!("{} of {}", way.races.found.len(), self.plan.racy)
        });
        row("the first one, s", &|way| {
            let first = way.races.times().first().copied();
            first.map_or_else(|| "-".to_owned(), |first| format!("{first:.1}"))
        });
        row("wrong reports", &|way| way.races.wrong.len().to_string());

        let fleet = &self.fleet;
        let mut row = |what: &str, value: String| {
            table.row(vec![what.to_owned(), value, "-".to_owned()]);
        };
        let of_capacity = |seconds: f64| format!("{:.2}", seconds / capacity_s * PERCENT);
        row(
            "cost of leases by its own account, % of the machine",
            of_capacity(fleet.cost_s),
        );
        row(
            "what it has used otherwise, %",
            of_capacity(fleet.overhead_s),
        );
        let first = fleet.first_lease_s;
        row(
            "the first lease, s",
            first.map_or_else(|| "-".to_owned(), |first| format!("{first:.1}")),
        );
        let leases: usize = fleet.leases.values().map(|one| one.count).sum();
        row("leases that are over", leases.to_string());
        row("processes with a lease", fleet.served.leased.to_string());
        row(
            "processes without one whose purse allows it",
            fleet.served.waiting.to_string(),
        );
        let losses: Vec<f64> = fleet
            .rates
            .iter()
            .map(|&(paused, watched)| lost(paused, watched))
            .collect();
        row(
            "throughput loss %, median of pairs",
            format!("{:+.2}", median(&losses)),
        );
        row(
            "throughput loss %, quartiles",
            format!(
                "{:+.2} to {:+.2}",
                quantile(&losses, 0.25),
                quantile(&losses, 0.75)
            ),
        );
        let ended = self.ended.to_string();
        table.row(vec![
            "watched programs that have ended".to_owned(),
            ended.clone(),
            ended,
        ]);
        table
    }

    fn by_time(&self) -> Table {
        let mut table = Table::new(&["s", "races found by the fleet", "by the attaches"]);
        for step in 1..=STEPS {
            let until = self.seconds * f64::from(step) / f64::from(STEPS);
            let found = |way: &Watched| {
                let times = way.races.times();
                times
                    .iter()
                    .filter(|&&time| time <= until)
                    .count()
                    .to_string()
            };
            let attaches = self.attaches.as_ref().map_or_else(|| "-".to_owned(), found);
            table.row(vec![
                format!("{until:.0}"),
                found(&self.fleet.watched),
                attaches,
            ]);
        }
        table
    }

    fn leases(&self) -> Table {
        let mut table = Table::new(&[
            "ended since",
            "leases",
            "seconds each",
            "ms of cost each",
            "stalls each",
            "races caught",
        ]);
        for (why, leases) in &self.fleet.leases {
            let each = |sum: f64| sum / leases.count as f64;
            table.row(vec![
                why.clone(),
                leases.count.to_string(),
                format!("{:.1}", each(leases.seconds)),
                format!("{:.2}", each(leases.cost_s) * 1e3),
                format!("{:.1}", each(leases.stalls as f64)),
                leases.caught.to_string(),
            ]);
        }
        table
    }
}
