//! Each detection as a point, on a logarithmic scale, and their medians.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use super::{record::Record, strategy::Strategy, workload::Workload};
use crate::{bench::statistics::median, plot};

/// How far a strategy's points stand from the middle of their program's place.
const ASIDE: f64 = 0.17;
/// How far two runs' points stand from each other at most.
const SPREAD: f64 = 0.12;

/// Draws.
pub fn draw(workloads: &[&Workload], record: &Record, cap: f64, picture: &Path) -> Result<()> {
    plot::draw(&script(workloads, record, cap), picture)
}

fn script(workloads: &[&Workload], record: &Record, cap: f64) -> String {
    let mut script = String::new();
    for strategy in Strategy::ALL {
        let (mut found, mut capped, mut medians) = (String::new(), String::new(), String::new());
        for (place, workload) in workloads.iter().enumerate() {
            let aside = match strategy {
                Strategy::Clock => -ASIDE,
                Strategy::Planner => ASIDE,
            };
            let middle = place as f64 + aside;
            let detections = record.detections(workload.name, strategy);
            let count = detections.len();
            for (index, one) in detections.iter().enumerate() {
                let x = middle + SPREAD * ((index as f64 + 0.5) / count as f64 - 0.5);
                let points = if one.capped { &mut capped } else { &mut found };
                // Writing to a String cannot fail.
                let _ = writeln!(points, "{x} {}", one.seconds);
            }
            let times: Vec<f64> = detections.iter().map(|one| one.seconds).collect();
            if !times.is_empty() {
                let _ = writeln!(medians, "{middle} {}", median(&times));
            }
        }
        for (name, points) in [("found", found), ("capped", capped), ("median", medians)] {
            // gnuplot takes an empty block for an error, and leaves out what is not a number.
            let _ = write!(script, "${strategy}_{name} << END\n{points}NaN NaN\nEND\n");
        }
    }
    let names: Vec<String> = workloads
        .iter()
        .enumerate()
        .map(|(place, workload)| format!("'{}' {place}", workload.name))
        .collect();
    let _ = write!(
        script,
        "set logscale y
set ylabel 'seconds to the first report'
set xrange [-0.6:{}]
set yrange [0.01:{}]
set xtics ({})
set grid ytics
set key outside top center horizontal
plot {cap} with lines lc rgb '#999999' dt 2 title 'given up'{}
",
        workloads.len() as f64 - 0.4,
        cap * 1.5,
        names.join(", "),
        points(record),
    );
    script
}

/// What is drawn of each strategy that was measured.
fn points(record: &Record) -> String {
    let mut all = String::new();
    for strategy in Strategy::ALL {
        if !record.has(strategy) {
            continue;
        }
        let colour = match strategy {
            Strategy::Clock => "#d06020",
            Strategy::Planner => "#2060c0",
        };
        // Writing to a String cannot fail.
        let _ = write!(
            all,
            ", \\
  ${strategy}_found with points pt 7 ps 0.7 lc rgb '{colour}' title '{strategy}', \\
  ${strategy}_capped with points pt 8 ps 1.0 lc rgb '{colour}' title '{strategy}, none', \\
  ${strategy}_median using 1:2:({ASIDE}*0.8) with xerrorbars pt 0 lw 2 lc rgb '{colour}' title 'median'"
        );
    }
    all
}
