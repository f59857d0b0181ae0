//! The budget: what samples cost is paid from a share of the target's CPU time.
//!
//! The gate earns with each clock sample, the tracer with the time in the kernel, which is not sampled. While
//! the balance is negative nothing is claimed. The gate also charges the traps; the tracer charges stops,
//! arming, its own CPU time and what the daemon needs to explain a race, all of which a busy machine takes
//! from the target.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use gwp_race_abi::Control;

use crate::kernel::process::cpu_time_ns;

/// What may be spent before anything was earned, so that the first sample is not put off.
const ADVANCE: Duration = Duration::from_millis(2);

/// What is charged for a nanosecond that the tracer worked: more than one, for what cannot be timed from
/// inside (interrupts, cold caches, the watchdog's turn, exits to a hypervisor).
const SEEN_AND_UNSEEN: f64 = 2.4;

/// What is charged for a stop beside the time that the thread stood, for the same reasons.
const UNSEEN_OF_STOP: Duration = Duration::from_micros(150);

/// Savings are capped at this much, so that a quiet hour does not pay for a slow minute.
const SAVINGS: Duration = Duration::from_millis(20);

/// What a program of a few threads earns while a grace period of RCU passes.
const SOON: Duration = Duration::from_micros(500);

/// Charges the control block.
#[derive(Debug)]
pub struct Budget {
    charged_cpu_ns: u64,
    share: f64,
    /// CPU time of the target that no sample stood for, and that was earned with, ns.
    unsampled_ns: u64,
    /// Time that threads of the target stood still, ns.
    pub stopped_ns: u64,
}

impl Budget {
    /// Sets the rates in the control block.
    #[must_use]
    pub fn new(control: &Control, period_ns: u64, share: f64, trap_cost_ns: u64) -> Self {
        let earned = (period_ns as f64 * share) as u64;
        control.earn_per_sample_ns.store(earned, SeqCst);
        control.trap_cost_ns.store(trap_cost_ns, SeqCst);
        control
            .earned_ns
            .fetch_add(ADVANCE.as_nanos() as u64, SeqCst);
        // What it took to get here (loading, reading metadata) is not a cost of sampling.
        Self {
            charged_cpu_ns: cpu_time_ns(),
            share,
            unsampled_ns: 0,
            stopped_ns: 0,
        }
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

    /// Whether something is left, or will be soon.
    #[must_use]
    pub fn is_at_hand(control: &Control) -> bool {
        let soon = SOON.as_nanos() as u64;
        control.spent_ns.load(SeqCst) < control.earned_ns.load(SeqCst).saturating_add(soon)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_spent(control: &Control) -> bool {
        control.spent_ns.load(SeqCst) > control.earned_ns.load(SeqCst)
    }

    /// Charges a thread's standing still.
    pub fn charge_stop(&mut self, control: &Control, ns: u64) {
        self.stopped_ns += ns;
        let unseen = UNSEEN_OF_STOP.as_nanos() as u64;
        control.spent_ns.fetch_add(ns + unseen, SeqCst);
    }

    /// Charges CPU time that another process has used for the target, ns.
    pub fn charge_work(control: &Control, ns: u64) {
        control.spent_ns.fetch_add(ns, SeqCst);
    }

    /// Charges the CPU time that the tracer has used since the last time, and cuts savings.
    pub fn settle(&mut self, control: &Control) {
        let used = cpu_time_ns();
        control.spent_ns.fetch_add(
            with_unseen(used.saturating_sub(self.charged_cpu_ns)),
            SeqCst,
        );
        self.charged_cpu_ns = used;
        let spent = control.spent_ns.load(SeqCst);
        let earned = control.earned_ns.load(SeqCst);
        let most = spent + SAVINGS.as_nanos() as u64;
        if earned > most {
            control.earned_ns.fetch_sub(earned - most, SeqCst);
        }
    }
}

fn with_unseen(ns: u64) -> u64 {
    (ns as f64 * SEEN_AND_UNSEEN) as u64
}
