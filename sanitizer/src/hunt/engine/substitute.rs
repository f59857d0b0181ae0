//! What is looked after where there are no gates, which would do it in the kernel: the budget, without which the clocks do not run, and new threads.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::kernel::process::{monotonic_ns, nanos};
use crate::tracee;

use super::crew::Crew;
use super::rig::Rig;
use super::{EngineError, as_pid};

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
    /// The target's CPU time for which it was; `None` before watching began.
    paid: Option<Duration>,
    /// When to look at the budget again; 0 while it is not spent.
    next_budget: u64,
    next_scan: u64,
    scan_every: Duration,
}

impl Substitute {
    pub(super) fn new(share: f64) -> Self {
        Self {
            share,
            paid: None,
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
        self.regulate(rig, now);
        Ok(())
    }

    /// Earns, and stops the clocks while nothing is left.
    fn regulate(&mut self, rig: &mut Rig, now: u64) {
        let cpu = tracee::process::cpu_time(as_pid(rig.program.pid)).unwrap_or_default();
        let before = self.paid.replace(cpu.max(self.paid.unwrap_or_default()));
        let used = before.map_or(0, |before| nanos(cpu.saturating_sub(before)));
        let budget = &rig.gates.control().budget;
        let new = (used as f64 * self.share) as u64;
        budget.earned_ns.fetch_add(new, SeqCst);
        let spent = budget.spent_ns.load(SeqCst);
        let earned = budget.earned_ns.load(SeqCst);
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
        rig.arming.run_clocks(!is_spent);
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
