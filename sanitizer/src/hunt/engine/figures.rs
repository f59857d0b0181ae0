//! What is counted: CPU times, what the budget gets and is charged, and the statistics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::Counter;

use crate::hunt::wire::Statistics;
use crate::kernel::process::monotonic_ns;

use super::Engine;

/// To add up the CPU times of so many threads takes some microseconds, while one stands still.
const MOST_THREADS: usize = 256;

/// What becomes of samples.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// How long bytes were watched, ns.
    pub(super) watched_ns: u64,
    /// Threads that were stopped for a sample.
    pub(super) stops: u64,
    /// Of those, threads that were stalled.
    pub(super) stalls: u64,
    /// Those that were ended early, because too many accesses trapped.
    pub(super) stalls_cut_short: u64,
    /// Stalls in which the bytes changed, nobody knows by whom.
    pub(super) value_changed: u64,
    no_stall: BTreeMap<String, u64>,
    not_reported: BTreeMap<String, u64>,
}

impl Figures {
    /// A sample led to no stall.
    pub(super) fn no_stall(&mut self, reason: &str) {
        match self.no_stall.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(self.no_stall.insert(reason.to_owned(), 1)),
        }
    }

    /// So many hits were not reported.
    pub(super) fn not_reported(&mut self, reason: &str, hits: usize) {
        if hits > 0 {
            *self.not_reported.entry(reason.to_owned()).or_default() += hits as u64;
        }
    }
}

impl Engine {
    pub(super) fn counter(&self, counter: Counter) -> u64 {
        self.gates.control().counters[counter as usize].load(SeqCst)
    }

    /// CPU time that the program has used until a stall begins, or ends, ns.
    pub(super) fn used_by_now(&self) -> Option<u64> {
        (self.arming.len() <= MOST_THREADS).then(|| self.program.cpu_used())
    }

    /// A thread stood still from a time until now: learns what that cost the program.
    pub(super) fn stood_since(&mut self, opened: u64, used: Option<u64>) {
        if let (Some(before), Some(now)) = (used, self.used_by_now()) {
            let passed =
                |from, to: u64| Duration::from_nanos(to.saturating_sub(from)).as_secs_f64();
            let (stood, used) = (passed(opened, monotonic_ns()), passed(before, now));
            self.budget.learn_loss(stood, used);
        } else {
            self.budget.forget_losses();
        }
    }

    /// Brings the budget up to date.
    pub(super) fn settle(&mut self) {
        let used = self.program.cpu_used();
        let new = self.program.saw(used);
        self.adoption.earn(new);
        self.respite.earn(new);
        let control = self.gates.control();
        let sampled = control.budget.sampled_ns.load(SeqCst);
        self.budget.earn(control, used, sampled);
        let worked = self.budget.settle(control);
        self.has_worked(worked);
    }

    /// Says for what the tracer has worked so long, ns: mostly for what it was woken for.
    pub(super) fn has_worked(&mut self, ns: u64) {
        let [threads, stops] = [self.adoption.heard(), self.respite.heard()];
        if threads + stops > 0 {
            let for_stops =
                (u128::from(ns) * u128::from(stops) / u128::from(threads + stops)) as u64;
            self.respite.worked(for_stops);
            self.adoption.worked(ns - for_stops);
        }
    }

    pub(super) fn statistics(&self) -> Statistics {
        const NANO: f64 = 1e-9;
        let sampled = self.gates.control().budget.sampled_ns.load(SeqCst);
        let cpu_s = self.program.cpu_used().max(sampled) as f64 * NANO;
        let [own_stops, times_let_alone] = self.respite.counts();
        Statistics {
            gates: Counter::ALL
                .iter()
                .map(|&counter| (counter.name().to_owned(), self.counter(counter)))
                .collect(),
            not_reported: self.figures.not_reported.clone(),
            no_stall: self.figures.no_stall.clone(),
            stops: self.figures.stops,
            own_stops,
            times_let_alone,
            let_alone_s: self.respite.alone_ns(monotonic_ns()) as f64 * NANO,
            stalls: self.figures.stalls,
            waits: self.waiting.count,
            coverage: self.strategy.coverage(),
            decisions: self.decisions.named(),
            stalls_cut_short: self.figures.stalls_cut_short,
            watched_s: self.figures.watched_ns as f64 * NANO,
            stopped_s: self.budget.stopped_ns as f64 * NANO,
            spent_s: self.budget.spent_s(self.gates.control()),
            target_cpu_s: cpu_s,
            value_changed_unknown_origin: self.figures.value_changed,
            unwatchable_threads: self.arming.unwatchable() as u64,
            dropped_messages: self.outbox.dropped(),
        }
    }
}
