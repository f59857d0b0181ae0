//! How watching goes, in a line for a terminal.

use std::fmt::Write as _;

use super::cost::Cost;
use super::{Summary, count};

/// One line without an end: the time, stalls, access sites, the slowdown (or a share of one CPU, as long as it means nothing), and races.
#[must_use]
pub fn status_text(summary: &Summary) -> String {
    let mut text = format!(
        "gwp-race: {}, {}",
        elapsed(summary.elapsed_s),
        count(summary.stalls, "stall")
    );
    // Writing to a String cannot fail.
    if let (Some(sampled), Some(total)) = (summary.sites_sampled, summary.sites_total) {
        let _ = write!(text, ", {sampled} of {}", count(total, "access site"));
    }
    if let Some(cost) = Cost(summary).in_short() {
        let _ = write!(text, ", {cost}");
    }
    let _ = write!(text, ", {}", count(summary.races_unique, "race"));
    text
}

/// `7 s`, `3:07`, `26:03:07`.
fn elapsed(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, _) => format!("{minutes}:{rest:02}"),
        _ => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the line tells what is known, and no slowdown of a program that has hardly run, or less than what watches it.
    #[test]
    fn tells_what_is_known() {
        let mut summary = Summary::default();
        assert_eq!(status_text(&summary), "gwp-race: 0 s, 0 stalls, 0 races");
        summary.elapsed_s = 187.9;
        summary.stalls = 1;
        summary.sites_sampled = Some(3);
        summary.sites_total = Some(780);
        summary.target_cpu_s = 12.0;
        summary.slowdown_percent = 0.851;
        summary.races_unique = 1;
        assert_eq!(
            status_text(&summary),
            "gwp-race: 3:07, 1 stall, 3 of 780 access sites, slowdown 0.85 %, 1 race"
        );
        summary.slowdown_percent = 1117.3;
        summary.one_cpu_percent = 0.46;
        assert_eq!(
            status_text(&summary),
            "gwp-race: 3:07, 1 stall, 3 of 780 access sites, 0.46 % of one CPU, 1 race"
        );
        assert_eq!(elapsed(93_787.0), "26:03:07");
    }
}
