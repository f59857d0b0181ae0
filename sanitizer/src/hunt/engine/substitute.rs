//! What is looked after where there are no gates, which would do it in the kernel: the budget, without which the clocks do not run, and new threads.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::Control;

use crate::hunt::budget::Budget;
use crate::kernel::process::{monotonic_ns, nanos};

use super::EngineError;
use super::crew::Crew;
use super::rig::Rig;

/// The first and the longest pause between two looks for new threads.
const SCANS: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Once the budget is spent, the clocks run again when it has grown by this much: about the cost of a
/// stall. To look more often would cost more than what there is to spend.
const RESERVE: Duration = Duration::from_millis(1);

/// How long the engine sleeps at least until then.
const LEAST_REST: Duration = Duration::from_millis(20);

/// See the module.
pub(super) struct Substitute {
    /// The share of the target's CPU time that is earned.
    share: f64,
    /// When to look at the budget again; 0 while it is not spent.
    next_budget: u64,
    next_scan: u64,
    scan_every: Duration,
}

impl Substitute {
    pub(super) fn new(share: f64) -> Self {
        Self {
            share,
            next_budget: 0,
            next_scan: 0,
            scan_every: SCANS[0],
        }
    }

    /// When the engine has to be awake for it.
    pub(super) fn due(&self) -> u64 {
        match self.next_budget {
            0 => self.next_scan,
            budget => budget.min(self.next_scan),
        }
    }

    /// Does what is due. `takes_in`: nobody stands still, so that threads may be taken in.
    pub(super) fn on_time(
        &mut self,
        rig: &mut Rig,
        crew: &mut Crew,
        takes_in: bool,
    ) -> Result<(), EngineError> {
        let now = monotonic_ns();
        if now >= self.next_scan && takes_in {
            self.look_for_threads(rig, crew, now)?;
        }
        let used = rig.program.cpu_used();
        let is_spent = self.regulate(&mut rig.budget, rig.gates.control(), used, now);
        rig.arming.run_clocks(!is_spent);
        Ok(())
    }

    /// Earns with what the program has used until now, ns; whether nothing is left, so that the clocks are to stand still.
    fn regulate(&mut self, budget: &mut Budget, control: &Control, used: u64, now: u64) -> bool {
        budget.earn(control, used);
        let spent = control.budget.spent_ns.load(SeqCst);
        let earned = control.budget.earned_ns.load(SeqCst);
        let was_spent = self.next_budget != 0;
        let reserve = if was_spent { nanos(RESERVE) } else { 0 };
        let is_spent = spent.saturating_add(reserve) > earned;
        if !is_spent {
            self.next_budget = 0;
        } else if !was_spent || now >= self.next_budget {
            let missing = spent.saturating_add(nanos(RESERVE)) - earned.min(spent);
            // With one busy thread. What is missed by looking late is little.
            let rest = Duration::from_secs_f64(missing as f64 * 1e-9 / self.share);
            self.next_budget = now + nanos(rest.max(LEAST_REST));
        }
        is_spent
    }

    /// Seizes threads that are new, and opens their events; more rarely while there are none.
    fn look_for_threads(
        &mut self,
        rig: &mut Rig,
        crew: &mut Crew,
        now: u64,
    ) -> Result<(), EngineError> {
        let known = rig.arming.len();
        crew.take_in_new_threads(rig)?;
        let is_new = rig.arming.len() > known;
        let longer = (self.scan_every * 2).min(SCANS[1]);
        self.scan_every = if is_new { SCANS[0] } else { longer };
        self.next_scan = now + nanos(self.scan_every);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::budget::{Advance, Allowance};
    use crate::kernel::gates::Gates;
    use crate::kernel::process::WorkClock;

    /// Check that as much is earned without gates as with them: the share of what was used beside what it began with, or what was saved before as long as that is more; whoever looks, and how often.
    #[test]
    fn the_same_is_earned_without_gates() {
        const SHARE: f64 = 0.05;
        const PERIOD: u64 = 10_000_000;
        const SAVED_MS: u64 = 20;
        let saved = Advance::Saved(Allowance::usual(Duration::from_millis(SAVED_MS)));
        for (to, advance, is_saved) in [
            (Advance::First, 40_000_000, false),
            (saved, 20_000_000, true),
        ] {
            for has_gates in [true, false] {
                let gates = Gates::in_user_space().unwrap();
                let control = gates.control();
                let clock = WorkClock::of_share(1);
                let mut budget = Budget::new(control, PERIOD, SHARE, 5_000, to, clock);
                if !has_gates {
                    budget = budget.without_gates(control);
                }
                let mut substitute = Substitute::new(SHARE);
                let mut used = 0;
                for step in 0..200 {
                    // A sample, and as much in the kernel.
                    used += 2 * PERIOD;
                    control.budget.sampled_ns.fetch_add(PERIOD, SeqCst);
                    if has_gates {
                        let by_sample = control.budget.earn_per_sample_ns.load(SeqCst);
                        control.budget.earned_ns.fetch_add(by_sample, SeqCst);
                    } else {
                        substitute.regulate(&mut budget, control, used, step);
                    }
                    // The crew settles now and then.
                    if step % 3 == 0 || has_gates {
                        budget.earn(control, used);
                    }
                    let earned = control.budget.earned_ns.load(SeqCst);
                    let share = (used as f64 * SHARE) as u64;
                    let wanted = if is_saved {
                        share.max(advance)
                    } else {
                        share + advance
                    };
                    assert!(
                        earned.abs_diff(wanted) < 1_000,
                        "{to:?}, {has_gates}, {step}: {earned}, not {wanted}"
                    );
                }
            }
        }
    }
}
