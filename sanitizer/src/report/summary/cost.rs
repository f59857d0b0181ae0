//! What watching has cost, as it is told: as a share of the program's CPU time only where there is enough of that for a share to mean anything.

use super::{Summary, seconds};

/// A target that has used less CPU time, seconds, has no slowdown in percent that would mean anything: a single stall and what watching
/// may cost in advance are a large share of it, and would be of no other run.
const LEAST_CPU_S: f64 = 1.0;

/// A target that has used less CPU time than watching has, as one that is idle does, has none either: it was not slowed down so much.
const MOST_PERCENT: f64 = 100.0;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost<'a>(pub(super) &'a Summary);

impl Cost<'_> {
    /// The slowdown, percent, where there is one.
    pub(super) fn slowdown(self) -> Option<f64> {
        let Summary {
            target_cpu_s,
            slowdown_percent,
            ..
        } = *self.0;
        let means_something = target_cpu_s >= LEAST_CPU_S && slowdown_percent <= MOST_PERCENT;
        means_something.then_some(slowdown_percent)
    }

    /// All of it.
    pub(super) fn in_full(self) -> String {
        let cpu = seconds(self.0.target_cpu_s);
        let of_one_cpu = self.0.one_cpu_percent;
        match self.slowdown() {
            Some(percent) => {
                format!(
                    "slowdown {percent:.2} % of {cpu} of CPU time, {of_one_cpu:.2} % of one CPU"
                )
            }
            None => {
                let spent = seconds(self.0.spent());
                format!(
                    "watching took {spent} beside {cpu} of CPU time, {of_one_cpu:.2} % of one CPU"
                )
            }
        }
    }

    /// In some words; nothing where nothing was watched yet.
    pub(super) fn in_short(self) -> Option<String> {
        match self.slowdown() {
            Some(percent) => Some(format!("slowdown {percent:.2} %")),
            None if self.0.elapsed_s > 0.0 => {
                Some(format!("{:.2} % of one CPU", self.0.one_cpu_percent))
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check which of the two is told of programs that have used much CPU time, little, and less than watching has, in full and in short.
    #[test]
    fn what_is_told() {
        for (cpu_s, spent_s, elapsed_s, told, short) in [
            (
                125.0,
                0.5,
                30.0,
                "slowdown 0.40 % of 125.0 s of CPU time, 1.67 % of one CPU",
                Some("slowdown 0.40 %"),
            ),
            (
                0.0177,
                0.0555,
                30.0,
                "watching took 55.5 ms beside 17.7 ms of CPU time, 0.18 % of one CPU",
                Some("0.18 % of one CPU"),
            ),
            // 1117 % of so little.
            (
                1.5,
                16.755,
                3600.0,
                "watching took 16.8 s beside 1.5 s of CPU time, 0.47 % of one CPU",
                Some("0.47 % of one CPU"),
            ),
            (
                0.0,
                0.0,
                0.0,
                "watching took 0.0 s beside 0.0 s of CPU time, 0.00 % of one CPU",
                None,
            ),
        ] {
            let summary = Summary {
                elapsed_s,
                target_cpu_s: cpu_s,
                spent_s: (spent_s > 0.0)
                    .then(|| ("tracer".to_owned(), spent_s))
                    .into_iter()
                    .collect(),
                slowdown_percent: 100.0 * spent_s / f64::max(cpu_s, 1e-9),
                one_cpu_percent: 100.0 * spent_s / f64::max(elapsed_s, 1e-9),
                ..Summary::default()
            };
            let cost = Cost(&summary);
            assert_eq!(cost.in_full(), told);
            assert_eq!(cost.in_short().as_deref(), short);
        }
    }
}
