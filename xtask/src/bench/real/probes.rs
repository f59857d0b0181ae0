//! `cargo xtask bench real --probes`: what the kernel's probes add, by pairs of runs without and with them.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{
    Options, ROOM, known, pairs,
    program::{self, Load, Program, Way},
};
use crate::{
    bench::{machine, statistics::median, table::Table},
    paths,
};

/// Until when what is found, and what is known, counts as soon, seconds.
const SOON_S: f64 = 10.0;
const VERY_SOON_S: f64 = 5.0;

/// What came of one run.
struct Outcome {
    pairs: f64,
    pairs_soon: f64,
    known: f64,
    known_very_soon: f64,
    stalls: f64,
    traps_percent: f64,
    one_cpu_percent: f64,
}

impl Outcome {
    /// All of it, in the order of the table's columns.
    fn figures(&self) -> [f64; 7] {
        [
            self.pairs,
            self.pairs_soon,
            self.known,
            self.known_very_soon,
            self.stalls,
            self.traps_percent,
            self.one_cpu_percent,
        ]
    }
}

/// Runs the program as often as is asked for, each time without and with probes, and publishes what was found.
pub fn compare(
    options: &Options,
    program: &dyn Program,
    load: &Load,
    watched: &Path,
    gwp_race: &Path,
) -> Result<()> {
    let ways = ["no", "yes"];
    let mut outcomes = [Vec::new(), Vec::new()];
    for number in 1..=options.runs {
        for (probes, outcomes) in ways.iter().zip(&mut outcomes) {
            println!(
                "==> {} s with --probes {probes}, run {number} of {}",
                options.seconds, options.runs
            );
            let outcome = run(options, program, load, watched, gwp_race, probes)?;
            println!("{} pairs", outcome.pairs);
            outcomes.push(outcome);
        }
    }
    let mut table = Table::new(&[
        "--probes",
        "pairs of lines",
        "after 10 s",
        "contended sites known",
        "after 5 s",
        "stalls",
        "traps, % of what is spent",
        "% of one CPU",
    ]);
    for (probes, outcomes) in ways.iter().zip(&outcomes) {
        let of_run = |outcome: &Outcome| outcome.figures();
        let columns = transposed(outcomes.iter().map(of_run));
        let cells = columns.iter().map(|column| {
            let each: Vec<String> = column.iter().map(|figure| short(*figure)).collect();
            format!("{} (median {})", each.join(", "), short(median(column)))
        });
        table.row(std::iter::once((*probes).to_owned()).chain(cells).collect());
    }
    let mut description = machine::description();
    description.push(format!(
        "Load: {}; {} s under gwp-race with --max-overhead {}, without and with probes in turns.",
        program.work(load),
        options.seconds,
        options.max_overhead
    ));
    table.publish(&super::table_name(options, "probes"), &description)
}

fn transposed(rows: impl Iterator<Item = [f64; 7]>) -> [Vec<f64>; 7] {
    let mut columns: [Vec<f64>; 7] = Default::default();
    for row in rows {
        for (column, figure) in columns.iter_mut().zip(row) {
            column.push(figure);
        }
    }
    columns
}

/// Counts have no places, shares two.
fn short(figure: f64) -> String {
    if figure.fract() == 0.0 {
        figure.to_string()
    } else {
        format!("{figure:.2}")
    }
}

fn run(
    options: &Options,
    program: &dyn Program,
    load: &Load,
    watched: &Path,
    gwp_race: &Path,
    probes: &str,
) -> Result<Outcome> {
    let log = paths::target().join(ROOM).join("decisions");
    let more = [
        "--probes".into(),
        probes.into(),
        "--decision-log".into(),
        log.clone().into_os_string(),
    ];
    let way = Way::Watched {
        gwp_race,
        max_overhead: &options.max_overhead,
        more: &more,
    };
    let (command, report) = way.command(watched)?;
    let begun = SystemTime::now();
    program.run(command, load, Duration::from_secs(options.seconds))?;
    let report = program::text(&report)?;
    let summary = report.lines().rev().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        (line["type"] == "summary").then_some(line)
    });
    let Some(summary) = summary else {
        bail!("gwp-race has written no summary: run it by hand to see why");
    };
    let decisions = Command::new(gwp_race)
        .arg("decisions")
        .arg(&log)
        .output()
        .with_context(|| format!("starting {}", gwp_race.display()))?;
    if !decisions.status.success() {
        bail!(
            "gwp-race decisions: {}",
            String::from_utf8_lossy(&decisions.stderr)
        );
    }
    fs::remove_file(&log).with_context(|| format!("removing {}", log.display()))?;
    let known = known::contended(&String::from_utf8_lossy(&decisions.stdout));
    let spent = summary["spent_s"].as_object();
    let all: f64 = spent.map_or(0.0, |spent| spent.values().filter_map(Value::as_f64).sum());
    let traps = summary["spent_s"]["traps"].as_f64().unwrap_or(0.0);
    let soon = begun + Duration::from_secs_f64(SOON_S);
    Ok(Outcome {
        pairs: pairs::of_gwp_race(&report, SystemTime::now()).len() as f64,
        pairs_soon: pairs::of_gwp_race(&report, soon).len() as f64,
        known: known.len() as f64,
        known_very_soon: known
            .values()
            .filter(|after| **after <= VERY_SOON_S)
            .count() as f64,
        stalls: summary["stalls"].as_f64().unwrap_or(0.0),
        traps_percent: 100.0 * traps / f64::max(all, f64::MIN_POSITIVE),
        one_cpu_percent: summary["one_cpu_percent"].as_f64().unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that counts are told as such.
    #[test]
    fn figures_are_short() {
        assert_eq!([3.0, 0.1234].map(short), ["3", "0.12"]);
    }
}
