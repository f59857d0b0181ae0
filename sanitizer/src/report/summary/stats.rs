//! Statistics as text.

use std::fmt::Write as _;

use crate::report::clean::clean;

use super::cost::Cost;
use super::{Summary, advice, seconds};

/// All figures, one a line: what `--stats` prints.
#[must_use]
pub fn stats_text(summary: &Summary) -> String {
    text("summary", summary)
}

/// All figures in the midst of a session, and what to change.
#[must_use]
pub fn figures_text(summary: &Summary) -> String {
    text("figures so far", summary) + &advice(summary)
}

fn text(title: &str, summary: &Summary) -> String {
    let mut out = format!("gwp-race: {title}\n");
    for (label, value) in rows(summary) {
        let _ = writeln!(out, "  {label:<28}{}", clean(&value));
    }
    out
}

/// All figures: what each is called, and its value.
pub(in crate::report) fn rows(summary: &Summary) -> Vec<(&'static str, String)> {
    let unknown = || "unknown".to_owned();
    let mut rows = vec![
        ("elapsed", seconds(summary.elapsed_s)),
        ("samples", summary.samples.to_string()),
        ("stalls", summary.stalls.to_string()),
        (
            "of preempted threads",
            summary.stalls_of_preempted.to_string(),
        ),
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
        ("races, known", summary.races_known.to_string()),
        ("races, repeats included", summary.races_total.to_string()),
        ("access sites waited at", summary.site_waits.to_string()),
        (
            "with an object in common",
            summary.site_waits_met.to_string(),
        ),
        ("bursts of probes", summary.probe_bursts.to_string()),
        ("hits of probes", summary.probe_hits.to_string()),
        ("probes that stood", summary.probes_armed.to_string()),
        ("probes too hot", summary.probes_hot.to_string()),
        ("arrivals at probes", summary.arrivals.to_string()),
        ("arrivals stopped", summary.arrivals_stopped.to_string()),
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
            "hottest not analyzed",
            (summary.hottest_unanalyzed.as_ref()).map_or_else(
                || "none".to_owned(),
                |h| format!("{:.1} % ({})", h.percent, h.name()),
            ),
        ),
        (
            "threads not watchable",
            summary.unwatchable_threads.to_string(),
        ),
        ("threads created", summary.threads_created.to_string()),
        ("threads left alone", summary.threads_left_alone.to_string()),
        ("stops for own signals", summary.own_stops.to_string()),
        ("times let alone", summary.times_let_alone.to_string()),
        ("let alone for", seconds(summary.let_alone_s)),
    ]);
    for (name, reasons) in &summary.not_watched {
        for (reason, times) in reasons {
            rows.push((
                "processes not watched",
                format!("{times} ({name}: {reason})"),
            ));
        }
    }
    rows.extend([
        (
            "releases by the watchdog",
            summary.watchdog_releases.to_string(),
        ),
        ("findings dropped", summary.dropped.to_string()),
        ("readers ended", summary.readers_ended.to_string()),
        (
            "value changed without a hit",
            summary.value_changed_unknown_origin.to_string(),
        ),
        ("threads stopped for", seconds(summary.target_stopped_s)),
        ("CPU time of the target", seconds(summary.target_cpu_s)),
    ]);
    for (name, why) in &summary.files_not_read {
        rows.push(("file not read", format!("{name}: {why}")));
    }
    for (what, spent) in &summary.spent_s {
        rows.push(("spent", format!("{} ({what})", seconds(*spent))));
    }
    rows.push(("cost", Cost(summary).in_full()));
    for race in &summary.sightings {
        rows.push(("caught", format!("{} {}", race.fingerprint, race.told())));
    }
    rows
}
