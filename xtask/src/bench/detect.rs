//! `cargo xtask bench detect`: how soon a race is reported when sampling is at its most
//! aggressive, and what watching with the defaults costs a program.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::{
    calibration::{hashes, seconds_of_a_hash},
    detection::detect,
    machine,
    statistics::{median, quantile},
    table::Table,
    throughput,
};
use crate::{build, fixture};

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Detections measured for each program.
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// Pairs of throughput, plain and watched, for each program.
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Seconds that each half of a pair runs.
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// Seconds after which a detection is given up.
    #[arg(long, default_value_t = 60.0)]
    limit: f64,
    /// Only these programs.
    #[arg(long, value_delimiter = ',', default_value = "hot,warm,rare,very-rare")]
    programs: Vec<String>,
}

/// The programs, and how long the private work between two accesses takes.
const PROGRAMS: [(&str, f64); 4] = [
    ("hot", 0.0),
    ("warm", 15e-6),
    ("rare", 1.5e-3),
    ("very-rare", 20e-3),
];

/// Measures all programs.
pub fn run(options: &Options) -> Result<()> {
    let gwp_race = build::run(true)?;
    let program = fixture::compile("bench", "increments")?;
    let hash_s = seconds_of_a_hash(&program)?;
    let mut table = Table::new(&[
        "program",
        "work between accesses",
        "caught",
        "median s to the first report",
        "90th percentile s",
        "median throughput loss %",
        "loss quartiles %",
    ]);
    for (name, gap_s) in PROGRAMS {
        if !options.programs.iter().any(|wanted| wanted == name) {
            continue;
        }
        let hashes = hashes(gap_s, hash_s);
        let target = Target {
            gwp_race: &gwp_race,
            program: &program,
            hashes: &hashes,
        };
        let mut detections = Vec::new();
        for run in 1..=options.runs {
            let seconds = target.detection(options.limit)?;
            println!(
                "{name}: detection {run} of {}: {seconds:.3} s",
                options.runs
            );
            detections.push(seconds);
        }
        let mut losses = Vec::new();
        for pair in 1..=options.pairs {
            let loss = target.loss(options.seconds, pair)?;
            println!(
                "{name}: pair {pair} of {}: {loss:+.2} % lost",
                options.pairs
            );
            losses.push(loss);
        }
        let caught = detections
            .iter()
            .filter(|seconds| seconds.is_finite())
            .count();
        table.row(vec![
            name.to_owned(),
            format!("{:.0} us", gap_s * 1e6),
            format!("{caught} of {}", detections.len()),
            shown_seconds(median(&detections), options.limit),
            shown_seconds(quantile(&detections, 0.9), options.limit),
            format!("{:+.2}", median(&losses)),
            format!(
                "{:+.2} to {:+.2}",
                quantile(&losses, 0.25),
                quantile(&losses, 0.75)
            ),
        ]);
    }
    let mut description = machine::description();
    description.push(
        "Detection: --max-overhead 100% --sample-period 1ms. Loss: the defaults, pairs of runs, \
         plain and watched, taking turns in being the first."
            .to_owned(),
    );
    table.publish("detect", &description)
}

fn shown_seconds(seconds: f64, limit: f64) -> String {
    if seconds.is_finite() {
        format!("{seconds:.2}")
    } else {
        format!("none in {limit:.0}")
    }
}

struct Target<'a> {
    gwp_race: &'a Path,
    program: &'a Path,
    hashes: &'a str,
}

impl Target<'_> {
    /// Seconds from the start of gwp-race to its first report; infinite where there was none.
    fn detection(&self, limit: f64) -> Result<f64> {
        let options = ["--max-overhead", "100%", "--sample-period", "1ms"];
        let arguments = [limit.to_string(), self.hashes.to_owned()];
        let detection = detect(self.gwp_race, &options, self.program, &arguments, limit)?;
        Ok(detection.seconds)
    }

    /// Percent of throughput lost by being watched with the defaults.
    fn loss(&self, seconds: f64, pair: usize) -> Result<f64> {
        let seconds = seconds.to_string();
        let mut plain = Command::new(self.program);
        plain.args([seconds.as_str(), self.hashes]);
        let mut watched = Command::new(self.gwp_race);
        watched
            .args(["run", "--output", "/dev/null", "--"])
            .arg(self.program)
            .args([seconds.as_str(), self.hashes]);
        throughput::loss(&mut plain, &mut watched, pair)
    }
}
