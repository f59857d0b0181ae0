//! The budget: what samples cost is paid from a share of the target's CPU time.
//!
//! The gate earns with each clock sample, the tracer with the time in the kernel, which is not sampled. While
//! the balance is negative nothing is claimed. The gate also charges the traps; the tracer charges stops,
//! arming, its own CPU time and what the daemon needs to explain a race, all of which a busy machine takes
//! from the target.

use std::{collections::BTreeMap, sync::atomic::Ordering::SeqCst, time::Duration};

use gwp_race_abi::Control;

use crate::kernel::process::{cpu_time_ns, nanos};

/// What is charged for a nanosecond that the tracer worked: more than one, for what cannot be timed from
/// inside (interrupts, cold caches, the watchdog's turn, exits to a hypervisor).
const SEEN_AND_UNSEEN: f64 = 2.4;

/// What is charged for a stop beside the time that the thread stood, for the same reasons.
const UNSEEN_OF_STOP: Duration = Duration::from_micros(150);

/// What may be spent before anything was earned, so that the first samples are not put off. There is much that
/// is unknown of a program at first; of its children, of which there may be any number, it is known by then.
const ADVANCE: Duration = Duration::from_millis(40);
const ADVANCE_OF_CHILD: Duration = Duration::from_millis(2);

/// Savings are capped at this much, so that a quiet hour does not pay for a slow minute.
const SAVINGS: Duration = Duration::from_millis(20);

/// The share of the budget that may go into samples, whatever comes of them.
const SAMPLES_SHARE: f64 = 0.1;
/// Limits of the time between two samples.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);
const LONGEST_PERIOD: Duration = Duration::from_millis(100);

/// Charges the control block.
#[derive(Debug)]
pub struct Budget {
    charged_cpu_ns: u64,
    share: f64,
    /// How much may be saved now, ns: what is left of the advance, at first.
    most_savings: u64,
    /// CPU time of the target that no sample stood for, and that was earned with, ns.
    unsampled_ns: u64,
    /// Time that threads of the target stood still, ns.
    pub stopped_ns: u64,
    /// What was charged beside that for stops, for those who waited for a stopped thread, for the tracer's work, and for the daemon's, ns.
    unseen_of_stops_ns: u64,
    others_ns: u64,
    worked_ns: u64,
    explained_ns: u64,
}

impl Budget {
    /// CPU time of a thread between two samples, ns, where nobody has said: samples alone must not take
    /// much of the budget, and they cost more in a virtual machine.
    #[must_use]
    pub fn usual_period_ns(share: f64, trap_cost_ns: u64) -> u64 {
        let affordable = trap_cost_ns as f64 / (share * SAMPLES_SHARE);
        (affordable as u64).clamp(nanos(SHORTEST_PERIOD), nanos(LONGEST_PERIOD))
    }

    /// The time between two samples of each of so many processors, ns, where those of a thread would be so far
    /// apart, for a program that uses so many processors on average: the others' ticks are for nothing, and all of
    /// them must not take much of the budget either. A program that does nothing has its processors hardly disturbed.
    #[must_use]
    pub fn period_of_cpus_ns(
        period_ns: u64,
        cpus: usize,
        used: f64,
        share: f64,
        trap_cost_ns: u64,
    ) -> u64 {
        /// How many times as long it may be.
        const MOST: u32 = 128;
        let ticks = cpus as f64 * 1e9 / period_ns as f64;
        let affordable = used * share * SAMPLES_SHARE * 1e9 / trap_cost_ns.max(1) as f64;
        // By powers of two: to change it interrupts every processor.
        let times = (ticks / affordable).ceil().clamp(1.0, f64::from(MOST)) as u32;
        period_ns * u64::from(times.next_power_of_two())
    }

    /// Says how much CPU time of the program each sample stands for, ns; 0 where the tracer looks at that time by
    /// itself, because samples are few.
    pub fn set_period(&self, control: &Control, period_ns: u64) {
        let earned = (period_ns as f64 * self.share) as u64;
        control.sample_ns.store(period_ns, SeqCst);
        control.earn_per_sample_ns.store(earned, SeqCst);
    }

    /// Sets the rates in the control block.
    #[must_use]
    pub fn new(
        control: &Control,
        period_ns: u64,
        share: f64,
        trap_cost_ns: u64,
        is_child: bool,
    ) -> Self {
        let advance = nanos(if is_child { ADVANCE_OF_CHILD } else { ADVANCE });
        control.trap_cost_ns.store(trap_cost_ns, SeqCst);
        control.earned_ns.fetch_add(advance, SeqCst);
        // What it took to get here (loading, reading metadata) is not a cost of sampling.
        let budget = Self {
            charged_cpu_ns: cpu_time_ns(),
            share,
            most_savings: advance,
            unsampled_ns: 0,
            stopped_ns: 0,
            unseen_of_stops_ns: 0,
            others_ns: 0,
            worked_ns: 0,
            explained_ns: 0,
        };
        budget.set_period(control, period_ns);
        budget
    }

    /// What the tracer has done until now (start-up, reading metadata) is not charged.
    pub fn restart(&mut self) {
        self.charged_cpu_ns = cpu_time_ns();
    }

    /// Earns with the CPU time that no clock sample stands for, since those come in user mode only: of `used`,
    /// ns of all kinds, `sampled` were earned with by the gate.
    pub fn earn(&mut self, control: &Control, used: u64, sampled: u64) {
        let unsampled = used.saturating_sub(sampled);
        let new = unsampled.saturating_sub(self.unsampled_ns);
        self.unsampled_ns += new;
        let earned = (new as f64 * self.share) as u64;
        control.earned_ns.fetch_add(earned, SeqCst);
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_spent(control: &Control) -> bool {
        control.spent_ns.load(SeqCst) > control.earned_ns.load(SeqCst)
    }

    /// Charges a thread's standing still.
    pub fn charge_stop(&mut self, control: &Control, ns: u64) {
        self.stopped_ns += ns;
        let unseen = nanos(UNSEEN_OF_STOP);
        self.unseen_of_stops_ns += unseen;
        control.spent_ns.fetch_add(ns + unseen, SeqCst);
    }

    /// Charges the time that other threads waited for one that stood still, ns.
    pub fn charge_others(&mut self, control: &Control, ns: u64) {
        self.others_ns += ns;
        control.spent_ns.fetch_add(ns, SeqCst);
    }

    /// Charges CPU time that the daemon has used to explain what was found, ns.
    pub fn charge_explaining(&mut self, control: &Control, ns: u64) {
        self.explained_ns += ns;
        control.spent_ns.fetch_add(ns, SeqCst);
    }

    /// What was charged for those who waited for a stopped thread, and for what was found, ns.
    #[must_use]
    pub const fn consequences_ns(&self) -> u64 {
        self.others_ns + self.explained_ns
    }

    /// Charges the CPU time that the tracer has used since the last time, and cuts savings.
    pub fn settle(&mut self, control: &Control) {
        let used = cpu_time_ns();
        let worked = with_unseen(used.saturating_sub(self.charged_cpu_ns));
        self.charged_cpu_ns = used;
        self.worked_ns += worked;
        control.spent_ns.fetch_add(worked, SeqCst);
        let spent = control.spent_ns.load(SeqCst);
        let earned = control.earned_ns.load(SeqCst);
        let saved = earned.saturating_sub(spent);
        self.most_savings = self.most_savings.min(saved).max(nanos(SAVINGS));
        let excess = saved.saturating_sub(self.most_savings);
        control.earned_ns.fetch_sub(excess, SeqCst);
    }

    /// Seconds that were spent, by what for.
    #[must_use]
    pub fn spent_s(&self, control: &Control) -> BTreeMap<String, f64> {
        let charged = [
            ("stops", self.stopped_ns + self.unseen_of_stops_ns),
            ("locks", self.others_ns),
            ("tracer", self.worked_ns),
            ("reports", self.explained_ns),
        ];
        let by_gates = control
            .spent_ns
            .load(SeqCst)
            .saturating_sub(charged.iter().map(|(_, ns)| ns).sum());
        let all = charged.into_iter().chain([("traps", by_gates)]);
        all.map(|(what, ns)| (what.to_owned(), ns as f64 * 1e-9))
            .collect()
    }
}

fn with_unseen(ns: u64) -> u64 {
    (ns as f64 * SEEN_AND_UNSEEN) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the processors' clocks cost a tenth of the budget at most, as far as they may be slowed down for it.
    #[test]
    fn ticks_are_paid_for() {
        const PERIOD: u64 = 10_000_000;
        const COST: u64 = 5_000;
        let times =
            |cpus, used, share| Budget::period_of_cpus_ns(PERIOD, cpus, used, share, COST) / PERIOD;
        assert_eq!(times(2, 2.0, 0.01), 1);
        assert_eq!(times(2, 0.5, 0.01), 2);
        assert_eq!(times(2, 0.3, 0.01), 4);
        assert_eq!(times(64, 1.0, 0.01), 32);
        assert_eq!(times(64, 0.0, 0.01), 128);
        for used in [0.3, 0.5, 1.0, 2.0] {
            let ticks_s = 2.0 * 1e9 / (times(2, used, 0.01) * PERIOD) as f64;
            assert!(ticks_s * COST as f64 <= used * 0.01 * SAMPLES_SHARE * 1e9 * 1.001);
        }
    }
}
