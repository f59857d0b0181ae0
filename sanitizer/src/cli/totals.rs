//! What all tracers of a session have counted, as the summary tells it.

use std::collections::BTreeMap;

use crate::{hunt::wire::Statistics, report::Summary};

/// What the sum of all statistics tells. `starts_s`: seconds of CPU time that the starts of tracers have used.
pub fn summarized(sum: &Statistics, starts_s: f64) -> Summary {
    let mut summary = Summary::default();
    let gate = |name: &str| sum.gates.get(name).copied().unwrap_or(0);
    summary.samples = gate("samples");
    summary.stalls = sum.stalls;
    summary.stalls_of_preempted = sum.stalls_of_preempted;
    summary.stalls_cut_short = sum.stalls_cut_short;
    // Those of the stalled thread, of other processes, and after the end of a stall are no hits.
    summary.hits = gate("traps")
        .saturating_sub(gate("stale"))
        .saturating_sub(gate("same-thread"))
        .saturating_sub(gate("other-process"));
    for name in ["unanalyzed", "atomic-ignored", "overflow"] {
        add(&mut summary.hits_swallowed, name, gate(name));
    }
    let gates = sum.gates.iter();
    for (name, count) in gates.filter(|(name, _)| name.starts_with("sample-")) {
        add(&mut summary.no_stall, name, *count);
    }
    for (reason, count) in &sum.no_stall {
        add(&mut summary.no_stall, reason, *count);
    }
    for (reason, count) in &sum.not_reported {
        add(&mut summary.hits_swallowed, reason, *count);
    }
    for (decision, count) in &sum.decisions {
        add(&mut summary.decisions, decision, *count);
    }
    summary.site_waits = sum.waits;
    summary.site_waits_met = gate("site-met");
    if let Some((known, sampled)) = sum.coverage {
        summary.sites_total = Some(known);
        summary.sites_sampled = Some(sampled);
    }
    summary.watched_s = sum.watched_s;
    summary.target_stopped_s = sum.stopped_s;
    summary.dropped = sum.dropped_messages;
    summary.unwatchable_threads = sum.unwatchable_threads;
    summary.probe_bursts = sum.probe_bursts;
    summary.probe_hits = sum.probe_hits;
    summary.probes_armed = sum.probes_armed;
    summary.probes_hot = sum.probes_hot;
    summary.arrivals = gate("arrivals");
    summary.arrivals_stopped = gate("arrivals-passed");
    summary.own_stops = sum.own_stops;
    summary.times_let_alone = sum.times_let_alone;
    summary.let_alone_s = sum.let_alone_s;
    summary.threads_created = gate("threads-created");
    summary.threads_left_alone = gate("threads-left-alone");
    summary.value_changed_unknown_origin = sum.value_changed_unknown_origin;
    summary.analyzed_percent = (summary.samples > 0)
        .then(|| 100.0 * gate("samples-analyzed") as f64 / summary.samples as f64);
    summary.target_cpu_s = sum.target_cpu_s;
    summary.spent_s.clone_from(&sum.spent_s);
    if starts_s > 0.0 {
        summary.spent_s.insert("starts".to_owned(), starts_s);
    }
    summary.slowdown_percent = if sum.target_cpu_s > 0.0 {
        100.0 * summary.spent() / sum.target_cpu_s
    } else {
        0.0
    };
    summary
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    if count > 0 {
        *counts.entry(name.to_owned()).or_default() += count;
    }
}
