//! What the measurements come to.

use super::{
    record::Record,
    strategy::Strategy,
    workload::{Wish, Workload},
};
use crate::bench::{
    statistics::{median, quantile},
    table::Table,
};

/// The figures of each strategy in each program, of so many runs, but for those that could not change them any more.
pub fn figures(workloads: &[&Workload], runs: usize, record: &Record) -> Table {
    let mut table = Table::new(&[
        "workload",
        "strategy",
        "caught",
        "median s to the first report",
        "90th percentile s",
        "median throughput loss %",
        "loss quartiles %",
        "median added latency ms",
        "worst added latency ms",
        "false reports",
    ]);
    for workload in workloads {
        for strategy in Strategy::ALL.into_iter().filter(|one| record.has(*one)) {
            table.row(row(workload.name, strategy, runs, record));
        }
    }
    table
}

fn row(name: &str, strategy: Strategy, runs: usize, record: &Record) -> Vec<String> {
    let detections = record.detections(name, strategy);
    let times = times(record, name, strategy);
    let caught = detections.iter().filter(|one| !one.capped).count();
    let given_up = if detections.len() < runs {
        ", then given up"
    } else {
        ""
    };
    let pairs = record.pairs(name, strategy);
    let losses: Vec<f64> = pairs.iter().map(|pair| pair.loss_percent).collect();
    let added: Vec<f64> = pairs
        .iter()
        .map(|pair| pair.watched_ms - pair.plain_ms)
        .collect();
    let of_detections = detections.iter().map(|one| one.false_reports);
    let of_pairs = pairs.iter().map(|pair| pair.false_reports);
    let false_reports: usize = of_detections.chain(of_pairs).sum();
    vec![
        name.to_owned(),
        strategy.name().to_owned(),
        format!("{caught} of {}{}", detections.len(), given_up),
        seconds(&times, 0.5),
        seconds(&times, 0.9),
        format!("{:+.2}", median(&losses)),
        format!(
            "{:+.2} to {:+.2}",
            quantile(&losses, 0.25),
            quantile(&losses, 0.75)
        ),
        format!("{:+.2}", median(&added)),
        format!("{:+.2}", quantile(&added, 1.0)),
        false_reports.to_string(),
    ]
}

/// The times to the first report; infinite ones were capped.
fn times(record: &Record, name: &str, strategy: Strategy) -> Vec<Time> {
    let detections = record.detections(name, strategy);
    let times = detections.iter().map(|one| Time {
        seconds: one.seconds,
        capped: one.capped,
    });
    times.collect()
}

#[derive(Clone, Copy)]
struct Time {
    seconds: f64,
    capped: bool,
}

/// This quantile, and whether a run that was given up has a part in it.
fn at(times: &[Time], share: f64) -> Time {
    let all: Vec<f64> = times.iter().map(|time| time.seconds).collect();
    let seconds = quantile(&all, share);
    let least_capped = times
        .iter()
        .filter(|time| time.capped)
        .map(|time| time.seconds)
        .fold(f64::INFINITY, f64::min);
    // What was found took less than the cap, so a quantile above all of that is (partly) the cap.
    let most_found = times
        .iter()
        .filter(|time| !time.capped)
        .map(|time| time.seconds)
        .fold(0.0, f64::max);
    Time {
        seconds,
        capped: seconds >= least_capped || (least_capped.is_finite() && seconds > most_found),
    }
}

fn seconds(times: &[Time], share: f64) -> String {
    let time = at(times, share);
    let sign = if time.capped { "> " } else { "" };
    format!("{sign}{:.3}", time.seconds)
}

/// What is wanted of the planner, and what was measured.
pub fn wishes(workloads: &[&Workload], record: &Record) -> Table {
    let mut table = Table::new(&["workload", "wanted of the planner", "measured", "met"]);
    for workload in workloads {
        let median = |strategy| at(&times(record, workload.name, strategy), 0.5);
        let (clock, planner) = (median(Strategy::Clock), median(Strategy::Planner));
        for wish in workload.wishes {
            let (wanted, measured, met) = judge(*wish, clock, planner);
            table.row(vec![
                workload.name.to_owned(),
                wanted,
                measured,
                if met { "yes" } else { "no" }.to_owned(),
            ]);
        }
    }
    table
}

/// The wish, what was measured of it, and whether that suffices.
fn judge(wish: Wish, clock: Time, planner: Time) -> (String, String, bool) {
    let within = format!(
        "{}{:.3} s",
        if planner.capped { "more than " } else { "" },
        planner.seconds
    );
    match wish {
        Wish::Faster(factor) => {
            let ratio = clock.seconds / planner.seconds;
            let measured = match (clock.capped, planner.capped) {
                (_, true) => "the planner found none".to_owned(),
                (true, false) => format!("at least {ratio:.0} times"),
                (false, false) => format!("{ratio:.1} times"),
            };
            (
                format!("a median at least {factor} times shorter than clock's"),
                measured,
                !planner.capped && ratio >= factor,
            )
        }
        Wish::Within(limit) => (
            format!("a median of at most {limit} s"),
            within,
            !planner.capped && planner.seconds <= limit,
        ),
        Wish::NotSlower { times, or_s } => (
            format!("a median of at most {times} times clock's or {or_s} s"),
            format!("{within}; clock's: {:.3} s", clock.seconds),
            !planner.capped && planner.seconds <= or_s.max(times * clock.seconds),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn found(seconds: f64) -> Time {
        Time {
            seconds,
            capped: false,
        }
    }

    const fn capped(seconds: f64) -> Time {
        Time {
            seconds,
            capped: true,
        }
    }

    /// Check that a median counts as a bound only where a capped run has a part in it.
    #[test]
    fn medians_of_capped_runs() {
        let times = [found(1.0), found(2.0), capped(60.0)];
        assert!(!at(&times, 0.5).capped);
        assert!(at(&times, 0.9).capped);
        assert_eq!(seconds(&times, 1.0), "> 60.000");
        assert!(at(&[found(1.0), capped(60.0)], 0.5).capped);
        assert!(!at(&[found(1.0), found(3.0)], 0.5).capped);
    }

    /// Check each wish on both sides of its limit.
    #[test]
    fn wishes_are_judged() {
        let met = |wish, clock, planner| judge(wish, clock, planner).2;
        assert!(met(Wish::Faster(30.0), capped(60.0), found(2.0)));
        assert!(!met(Wish::Faster(30.0), found(60.0), found(2.1)));
        assert!(!met(Wish::Faster(1.0), capped(60.0), capped(60.0)));
        assert!(met(Wish::Within(0.5), capped(60.0), found(0.5)));
        assert!(!met(Wish::Within(70.0), capped(60.0), capped(60.0)));
        let not_slower = Wish::NotSlower {
            times: 1.25,
            or_s: 0.2,
        };
        assert!(met(not_slower, found(0.1), found(0.2)));
        assert!(met(not_slower, found(0.4), found(0.5)));
        assert!(!met(not_slower, found(0.4), found(0.6)));
    }
}
