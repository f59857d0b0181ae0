//! What a tracer counts, and tells each second.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a tracer has counted since it began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Counters of the gates by name.
    pub gates: BTreeMap<String, u64>,
    /// Hits that were not reported, by reason.
    pub not_reported: BTreeMap<String, u64>,
    /// Samples that did not lead to a stall, by reason.
    pub no_stall: BTreeMap<String, u64>,
    /// Threads stopped by a sample.
    pub stops: u64,
    /// Times that threads stopped on the program's own account, because they are traced: for their signals, as a rule.
    pub own_stops: u64,
    /// Times that a thread was let alone for that.
    pub times_let_alone: u64,
    /// For how many seconds threads were, of all together.
    pub let_alone_s: f64,
    /// Stalls.
    pub stalls: u64,
    /// Times that an access site was waited at.
    pub waits: u64,
    /// Bursts of probes.
    pub probe_bursts: u64,
    /// Threads that came to them.
    pub probe_hits: u64,
    /// Probes that were armed to stand.
    pub probes_armed: u64,
    /// Those of them that proved hot.
    pub probes_hot: u64,
    /// Access sites known, and how many of them were stalled at.
    pub coverage: Option<(u64, u64)>,
    /// New races that were to be expected of what was done.
    pub expected_races: f64,
    /// What the strategy decided, and what came of it.
    pub decisions: BTreeMap<String, u64>,
    /// Those of threads that were off their processors.
    pub stalls_of_preempted: u64,
    /// Stalls that ended early, because the watched bytes were accessed all the time.
    pub stalls_cut_short: u64,
    /// Seconds during which some address was watched.
    pub watched_s: f64,
    /// Seconds that threads of the target stood still.
    pub stopped_s: f64,
    /// Seconds that the budget counts, by what for: see [`crate::hunt::budget::Budget::spent_s`].
    pub spent_s: BTreeMap<String, f64>,
    /// Seconds of CPU time that the target has used while watched.
    pub target_cpu_s: f64,
    /// The bytes changed during a stall, but no hit told who did it.
    pub value_changed_unknown_origin: u64,
    /// Threads that could not be watched.
    pub unwatchable_threads: u64,
    /// Messages to the daemon that were dropped because it did not read them.
    pub dropped_messages: u64,
}

impl Statistics {
    /// Adds what another tracer has counted, or the same one for another process.
    pub fn add(&mut self, other: &Self) {
        let maps = [
            (&mut self.gates, &other.gates),
            (&mut self.not_reported, &other.not_reported),
            (&mut self.no_stall, &other.no_stall),
            (&mut self.decisions, &other.decisions),
        ];
        for (sums, counts) in maps {
            for (name, count) in counts {
                *sums.entry(name.clone()).or_default() += count;
            }
        }
        for (what, seconds) in &other.spent_s {
            *self.spent_s.entry(what.clone()).or_default() += seconds;
        }
        if let Some((known, sampled)) = other.coverage {
            let sum = self.coverage.get_or_insert((0, 0));
            *sum = (sum.0 + known, sum.1 + sampled);
        }
        self.expected_races += other.expected_races;
        self.stops += other.stops;
        self.own_stops += other.own_stops;
        self.times_let_alone += other.times_let_alone;
        self.let_alone_s += other.let_alone_s;
        self.stalls += other.stalls;
        self.waits += other.waits;
        self.probe_bursts += other.probe_bursts;
        self.probe_hits += other.probe_hits;
        self.probes_armed += other.probes_armed;
        self.probes_hot += other.probes_hot;
        self.stalls_of_preempted += other.stalls_of_preempted;
        self.stalls_cut_short += other.stalls_cut_short;
        self.watched_s += other.watched_s;
        self.stopped_s += other.stopped_s;
        self.target_cpu_s += other.target_cpu_s;
        self.value_changed_unknown_origin += other.value_changed_unknown_origin;
        self.unwatchable_threads += other.unwatchable_threads;
        self.dropped_messages += other.dropped_messages;
    }
}
