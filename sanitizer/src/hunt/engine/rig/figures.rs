//! What is counted: CPU times, what the budget gets and is charged, and the statistics.

use std::collections::BTreeMap;

/// What becomes of samples.
#[derive(Debug, Default)]
pub struct Figures {
    /// How long bytes were watched, ns.
    pub watched_ns: u64,
    /// Threads that were stopped for a sample.
    pub stops: u64,
    /// Of those, threads that were stalled.
    pub stalls: u64,
    /// Those of threads that were off their processors: nobody was stopped.
    pub stalls_of_preempted: u64,
    /// Those that were ended early, because too many accesses trapped.
    pub stalls_cut_short: u64,
    /// Stalls in which the bytes changed, nobody knows by whom.
    pub value_changed: u64,
    pub no_stall: BTreeMap<String, u64>,
    pub not_reported: BTreeMap<String, u64>,
}

impl Figures {
    /// A sample led to no stall.
    pub fn no_stall(&mut self, reason: &str) {
        match self.no_stall.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(self.no_stall.insert(reason.to_owned(), 1)),
        }
    }

    /// So many hits were not reported.
    pub fn not_reported(&mut self, reason: &str, hits: usize) {
        if hits > 0 {
            *self.not_reported.entry(reason.to_owned()).or_default() += hits as u64;
        }
    }
}
