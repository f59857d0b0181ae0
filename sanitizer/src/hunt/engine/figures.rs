//! What is counted: CPU times, what the budget gets and is charged, and the statistics.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::Counter;

use crate::hunt::wire::Statistics;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;
use crate::tracee;

use super::{Engine, as_pid};

/// To add up the CPU times of so many threads takes some microseconds, while one stands still.
const MOST_THREADS: usize = 256;

impl Engine {
    pub(super) fn counter(&self, counter: Counter) -> u64 {
        self.gates.control().counters[counter as usize].load(SeqCst)
    }

    /// CPU time that the target has used while it was watched, and that which samples stand for, ns.
    fn cpu_used(&self) -> (u64, u64) {
        let cpu = tracee::process::cpu_time(as_pid(self.pid)).unwrap_or_default();
        let sampled = self.gates.control().budget.sampled_ns.load(SeqCst);
        let used = nanos(cpu.saturating_sub(self.cpu_before));
        // Of one that has ended this moment only that is known which was seen before.
        (used.max(self.cpu_seen_ns), sampled)
    }

    /// CPU time that the program has used until a stall begins, or ends, ns.
    pub(super) fn used_by_now(&self) -> Option<u64> {
        (self.arming.len() <= MOST_THREADS).then(|| self.cpu_used().0)
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
        let (used, sampled) = self.cpu_used();
        self.adoption.earn(used.saturating_sub(self.cpu_seen_ns));
        self.respite.earn(used.saturating_sub(self.cpu_seen_ns));
        self.cpu_seen_ns = used;
        let control = self.gates.control();
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
        let (used, sampled) = self.cpu_used();
        let cpu_s = used.max(sampled) as f64 * NANO;
        let [own_stops, times_let_alone] = self.respite.counts();
        Statistics {
            gates: Counter::ALL
                .iter()
                .map(|&counter| (counter.name().to_owned(), self.counter(counter)))
                .collect(),
            not_reported: self.not_reported.clone(),
            no_stall: self.no_stall.clone(),
            stops: self.stops,
            own_stops,
            times_let_alone,
            let_alone_s: self.respite.alone_ns(monotonic_ns()) as f64 * NANO,
            stalls: self.stalls,
            waits: self.waiting.count,
            coverage: self.strategy.coverage(),
            decisions: self.decisions.named(),
            stalls_cut_short: self.stalls_cut_short,
            watched_s: self.watched_ns as f64 * NANO,
            stopped_s: self.budget.stopped_ns as f64 * NANO,
            spent_s: self.budget.spent_s(self.gates.control()),
            target_cpu_s: cpu_s,
            value_changed_unknown_origin: self.value_changed,
            unwatchable_threads: self.arming.unwatchable() as u64,
            dropped_messages: self.outbox.dropped(),
        }
    }
}
