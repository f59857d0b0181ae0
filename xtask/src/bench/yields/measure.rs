//! One measurement: of the time to the first report, or of what watching costs.

use std::{fmt, fs, path::Path, process::Command};

use anyhow::Result;

use super::{strategy::Strategy, workload::Workload};
use crate::{
    bench::{
        detection::detect,
        figure::{figure, printed},
        pair::in_turns,
        reported::reported,
        throughput::lost,
    },
    paths,
};

/// What both strategies are given.
pub struct Budget<'a> {
    pub max_overhead: &'a str,
    pub sample_period: Option<&'a str>,
}

/// Who is measured.
pub struct Subject<'a> {
    pub gwp_race: &'a Path,
    pub workload: &'a Workload,
    pub program: &'a Path,
    /// What the program is told beside the seconds.
    pub arguments: &'a [String],
    pub budget: Budget<'a>,
}

/// How long it took to a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    pub number: usize,
    /// The cap where there was none.
    pub seconds: f64,
    pub capped: bool,
    pub false_reports: usize,
}

/// A run by itself and one that was watched.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub number: usize,
    pub loss_percent: f64,
    /// The longest turns.
    pub plain_ms: f64,
    pub watched_ms: f64,
    pub false_reports: usize,
}

impl Subject<'_> {
    /// Measures the time to the first report.
    pub fn detection(&self, strategy: Strategy, number: usize, cap: f64) -> Result<Detection> {
        let options = self.options(strategy);
        // It is to run until it is ended.
        let arguments = self.program_arguments(cap);
        let detection = detect(self.gwp_race, &options, self.program, &arguments, cap)?;
        let capped = detection.seconds >= cap;
        Ok(Detection {
            number,
            seconds: detection.seconds.min(cap),
            capped,
            false_reports: self.workload.false_among(&detection.pairs),
        })
    }

    /// Measures throughput and the longest turn, with and without gwp-race.
    pub fn pair(&self, strategy: Strategy, number: usize, seconds: f64) -> Result<Pair> {
        let arguments = self.program_arguments(seconds);
        let mut plain = Command::new(self.program);
        plain.args(&arguments);
        let report = paths::target().join("bench/report.json");
        let _ = fs::remove_file(&report);
        let mut watched = Command::new(self.gwp_race);
        watched
            .arg("run")
            .args(self.options(strategy))
            .args(["--format", "json", "--output"])
            .arg(&report)
            .arg("--")
            .arg(self.program)
            .args(&arguments);
        let measure = |command: &mut Command| -> Result<(f64, f64)> {
            let text = printed(command)?;
            Ok((figure(&text, "turns")?, figure(&text, "longest_us")? / 1e3))
        };
        let (plain, watched) = in_turns(number, || measure(&mut plain), || measure(&mut watched))?;
        let pairs = reported(&fs::read_to_string(&report)?);
        Ok(Pair {
            number,
            loss_percent: lost(plain.0, watched.0),
            plain_ms: plain.1,
            watched_ms: watched.1,
            false_reports: self.workload.false_among(&pairs),
        })
    }

    fn options(&self, strategy: Strategy) -> Vec<&str> {
        let mut options = vec!["--max-overhead", self.budget.max_overhead];
        if let Some(period) = self.budget.sample_period {
            options.extend(["--sample-period", period]);
        }
        options.extend(strategy.options());
        options
    }

    fn program_arguments(&self, seconds: f64) -> Vec<String> {
        let mut arguments = vec![seconds.to_string()];
        arguments.extend_from_slice(self.arguments);
        arguments
    }
}

impl fmt::Display for Detection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.capped {
            write!(f, "none in {:.0} s", self.seconds)?;
        } else {
            write!(f, "{:.3} s", self.seconds)?;
        }
        write_false(f, self.false_reports)
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:+.2} % lost, longest turn {:.2} ms instead of {:.2} ms",
            self.loss_percent, self.watched_ms, self.plain_ms
        )?;
        write_false(f, self.false_reports)
    }
}

fn write_false(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    if count > 0 {
        write!(f, ", {count} FALSE REPORTS")?;
    }
    Ok(())
}
