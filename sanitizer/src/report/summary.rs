//! The closing summary: what was done, what it cost, and how much silence is worth.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

/// Figures of one session. The JSON form is a contract with users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Seconds since the session began.
    pub elapsed_s: f64,
    /// Samples taken: times a strategy could have stopped a thread.
    pub samples: u64,
    /// Stalls made.
    pub stalls: u64,
    /// Stalls that were ended early, because the watched bytes were accessed all the time.
    #[serde(default)]
    pub stalls_cut_short: u64,
    /// Samples that led to no stall, by reason.
    #[serde(default)]
    pub no_stall: BTreeMap<String, u64>,
    /// Watchpoint hits by other threads, reported or not.
    pub hits: u64,
    /// Hits that were no race, by reason.
    pub hits_swallowed: BTreeMap<String, u64>,
    /// Different races reported.
    pub races_unique: u64,
    /// Races found, repeats included.
    pub races_total: u64,
    /// Times that an access site was waited at.
    #[serde(default)]
    pub site_waits: u64,
    /// Those that ended with a thread that was about to access what another one had accessed there.
    #[serde(default)]
    pub site_waits_met: u64,
    /// Places that the strategy has chosen, by why and by what came of it.
    #[serde(default)]
    pub decisions: BTreeMap<String, u64>,
    /// Access sites of the functions that were looked at; `None` where the strategy does not know
    /// sites.
    pub sites_total: Option<u64>,
    /// Access sites that were stalled at least once.
    pub sites_sampled: Option<u64>,
    /// Seconds during which some memory was watched.
    pub watched_s: f64,
    /// The share of the code that is analyzed; `None` where no code is known.
    pub analyzed_percent: Option<f64>,
    /// Threads that could not be watched.
    pub unwatchable_threads: u64,
    /// Times that the watchdog released the target because gwp-race was late.
    #[serde(default)]
    pub watchdog_releases: u64,
    /// Findings that were dropped because too many waited; those that were races are told when they are
    /// caught again.
    #[serde(default)]
    pub dropped: u64,
    /// Stalls in which the value changed and no watchpoint fired.
    pub value_changed_unknown_origin: u64,
    /// Seconds that threads of the target were stopped, summed over the threads.
    pub target_stopped_s: f64,
    /// Seconds of CPU time that the target has used, of all threads, in the kernel too.
    #[serde(default)]
    pub target_cpu_s: f64,
    /// Seconds of CPU time that watching has cost the target, or cost it at most, by what for: `traps` into the
    /// gates, `stops` of threads, the work of the `tracer`, and of the daemon for `reports`.
    #[serde(default)]
    pub spent_s: BTreeMap<String, f64>,
    /// The slowdown of the target that these account for.
    pub slowdown_percent: f64,
}

/// One line that says what was found, and what finding nothing is worth.
#[must_use]
pub fn closing_line(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_closing(&mut out, summary);
    out
}

fn write_closing(out: &mut String, summary: &Summary) -> fmt::Result {
    match (summary.races_unique, summary.races_total) {
        (0, _) => write!(
            out,
            "gwp-race: no data race was caught, which does not prove that "
        )?,
        (1, 1) => write!(
            out,
            "gwp-race: 1 data race was caught; more may exist where "
        )?,
        (unique, total) => write!(
            out,
            "gwp-race: {unique} {} caught ({total} times in all); more may exist where ",
            if unique == 1 {
                "data race was"
            } else {
                "data races were"
            }
        )?,
    }
    let none = summary.races_unique == 0;
    write!(
        out,
        "{}: ",
        if none {
            "there is none"
        } else {
            "nothing was watched"
        }
    )?;
    write!(
        out,
        "memory was watched for {} of {} ({})",
        seconds(summary.watched_s),
        seconds(summary.elapsed_s),
        count(summary.stalls, "stall"),
    )?;
    match summary.analyzed_percent {
        Some(percent) => write!(
            out,
            "; {percent:.1} % of the sampled time was in analyzed code"
        )?,
        None => write!(out, "; no analyzed code was sampled")?,
    }
    if let (Some(sampled), Some(total)) = (summary.sites_sampled, summary.sites_total) {
        write!(
            out,
            "; {sampled} of {} sampled",
            count(total, "access site")
        )?;
    }
    if summary.unwatchable_threads > 0 {
        write!(
            out,
            "; {} could not be watched",
            count(summary.unwatchable_threads, "thread")
        )?;
    }
    if summary.watchdog_releases > 0 {
        write!(
            out,
            "; the watchdog released the target {}",
            count(summary.watchdog_releases, "time")
        )?;
    }
    if summary.dropped > 0 {
        write!(out, "; {} dropped", count(summary.dropped, "finding"))?;
    }
    let swallowed: u64 = summary.hits_swallowed.values().sum();
    if swallowed > 0 {
        write!(out, "; {} not reported", count(swallowed, "hit"))?;
    }
    if summary.value_changed_unknown_origin > 0 {
        write!(
            out,
            "; the value changed without a hit {}",
            count(summary.value_changed_unknown_origin, "time")
        )?;
    }
    writeln!(
        out,
        ". Threads of the target were stopped for {} (slowdown {:.2} % of {} of CPU time).",
        seconds(summary.target_stopped_s),
        summary.slowdown_percent,
        seconds(summary.target_cpu_s),
    )
}

/// All figures, one a line: what `--stats` prints.
#[must_use]
pub fn stats_text(summary: &Summary) -> String {
    let unknown = || "unknown".to_owned();
    let mut rows = vec![
        ("elapsed", seconds(summary.elapsed_s)),
        ("samples", summary.samples.to_string()),
        ("stalls", summary.stalls.to_string()),
        ("stalls cut short", summary.stalls_cut_short.to_string()),
        ("memory watched", seconds(summary.watched_s)),
        ("hits", summary.hits.to_string()),
    ];
    for (reason, samples) in &summary.no_stall {
        rows.push(("samples without a stall", format!("{samples} ({reason})")));
    }
    for (reason, hits) in &summary.hits_swallowed {
        rows.push(("hits swallowed", format!("{hits} ({reason})")));
    }
    for (decision, times) in &summary.decisions {
        rows.push(("decisions", format!("{times} ({decision})")));
    }
    rows.extend([
        ("races, different", summary.races_unique.to_string()),
        ("races, repeats included", summary.races_total.to_string()),
        ("access sites waited at", summary.site_waits.to_string()),
        (
            "with an object in common",
            summary.site_waits_met.to_string(),
        ),
        (
            "access sites",
            summary.sites_total.map_or_else(unknown, |n| n.to_string()),
        ),
        (
            "access sites sampled",
            summary
                .sites_sampled
                .map_or_else(unknown, |n| n.to_string()),
        ),
        (
            "code analyzed",
            summary
                .analyzed_percent
                .map_or_else(unknown, |p| format!("{p:.1} %")),
        ),
        (
            "threads not watchable",
            summary.unwatchable_threads.to_string(),
        ),
        (
            "releases by the watchdog",
            summary.watchdog_releases.to_string(),
        ),
        ("findings dropped", summary.dropped.to_string()),
        (
            "value changed without a hit",
            summary.value_changed_unknown_origin.to_string(),
        ),
        ("threads stopped for", seconds(summary.target_stopped_s)),
        ("CPU time of the target", seconds(summary.target_cpu_s)),
    ]);
    for (what, spent) in &summary.spent_s {
        rows.push(("spent", format!("{} ({what})", seconds(*spent))));
    }
    rows.push(("slowdown", format!("{:.2} %", summary.slowdown_percent)));
    let mut out = "gwp-race: summary\n".to_owned();
    for (label, value) in rows {
        let _ = writeln!(out, "  {label:<28}{value}");
    }
    out
}

fn seconds(seconds: f64) -> String {
    if seconds > 0.0 && seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.1} s")
    }
}

fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that silence is qualified by everything that limits it.
    #[test]
    fn qualifies_silence() {
        let summary = Summary {
            elapsed_s: 30.0,
            stalls: 1,
            watched_s: 0.25,
            analyzed_percent: Some(87.54),
            unwatchable_threads: 2,
            hits_swallowed: [("both-atomic".to_owned(), 3)].into(),
            no_stall: [("no-access-ahead".to_owned(), 7)].into(),
            value_changed_unknown_origin: 1,
            target_stopped_s: 0.5,
            target_cpu_s: 125.0,
            slowdown_percent: 0.4,
            ..Summary::default()
        };
        assert_eq!(
            closing_line(&summary),
            "gwp-race: no data race was caught, which does not prove that there is none: memory \
             was watched for 250.0 ms of 30.0 s (1 stall); 87.5 % of the sampled time was in analyzed code; \
             2 threads could not be watched; 3 hits not reported; the value changed without a \
             hit 1 time. Threads of the target were stopped for 500.0 ms (slowdown 0.40 % of 125.0 s of CPU time).\n"
        );
        let found = Summary {
            races_unique: 2,
            races_total: 5,
            ..summary
        };
        assert!(closing_line(&found).starts_with(
            "gwp-race: 2 data races were caught (5 times in all); more may exist where nothing \
             was watched: memory was watched"
        ));
        let figures = stats_text(&found);
        assert!(figures.contains("  hits swallowed              3 (both-atomic)\n"));
        assert!(figures.contains("  samples without a stall     7 (no-access-ahead)\n"));
    }
}
