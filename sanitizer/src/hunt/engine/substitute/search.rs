//! Looking for a thread at an access site, where no gate claims one.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::{Counter, phase};

use crate::addr::RuntimeAddr;
use crate::hunt::engine::{CLAIM_TIME, Engine, EngineError, State, as_pid};
use crate::hunt::strategy::{Patience, Proposal};
use crate::hunt::wire::Notice;
use crate::kernel::gates::user_registers;
use crate::kernel::process::monotonic_ns;
use crate::kernel::ring::Trap;
use crate::symbols::StackSnapshot;
use crate::tracee;

use super::{LEAST_REST, RESERVE, SCANS, SEARCH_TIME};

impl Engine {
    /// Asks the strategy where the sampled thread should be stalled, and sends it there. It runs on.
    pub(super) fn search(&mut self, trap: &Trap) {
        let regs = user_registers(&trap.regs, self.arming.thread_pointer(trap.tid));
        let snapshot = StackSnapshot {
            base: regs.rsp,
            bytes: trap.stack.clone(),
        };
        let call = self.routine_call(&regs, &|| &snapshot);
        match self.propose(&regs, call.as_ref(), None, &|| &snapshot) {
            Proposal::Pass(reason) => self.figures.no_stall(reason),
            Proposal::StallHere { site, patience } => {
                self.send_to(trap.tid, regs.rip, site, patience);
            }
            Proposal::Seek { at, site, patience } => self.send_to(trap.tid, at, site, patience),
        }
    }

    /// Claims a thread that runs and lets it stop at an instruction.
    fn send_to(&mut self, tid: u32, at: u64, site: u64, patience: Patience) {
        let control = self.gates.control();
        self.generation = self.gates.phase().read().generation() + 1;
        control.claim.owner.store(u64::from(tid), SeqCst);
        control.claim.breakpoint.store(at, SeqCst);
        self.enter(phase::SEEK);
        let now = monotonic_ns();
        control.claim.time_ns.store(now, SeqCst);
        if let Err(error) = self.arming.break_at(tid, RuntimeAddr(at), &self.gates) {
            self.outbox.send(&Notice::Debug(error.to_string()));
            self.figures.no_stall("breakpoint-failed");
            return self.go_idle();
        }
        self.add(Counter::SamplesPassed, 1);
        self.state = State::Seek {
            tid,
            site,
            patience,
            deadline: now + SEARCH_TIME.as_nanos() as u64,
            void: now + CLAIM_TIME.as_nanos() as u64,
        };
        // From here on it may stand still at any time.
        self.gates
            .control()
            .watchdog
            .standing_since_ns
            .store(now, SeqCst);
        self.gates.tell_watchdog();
    }

    /// What is due: new threads, and the budget, without which the clocks do not run.
    pub(in crate::hunt::engine) fn substitute_on_time(&mut self) -> Result<(), EngineError> {
        let now = monotonic_ns();
        let is_watching = self.schedule.has_begun();
        let Some(substitute) = self.substitute.as_mut().filter(|_| is_watching) else {
            return Ok(());
        };
        let scan = now >= substitute.next_scan;
        if scan && matches!(self.state, State::Idle | State::Scanning(_)) {
            self.look_for_threads(now)?;
        }
        self.regulate(now);
        Ok(())
    }

    /// Earns, and stops the clocks while nothing is left.
    fn regulate(&mut self, now: u64) {
        let Some(substitute) = self.substitute.as_mut() else {
            return;
        };
        let cpu = tracee::process::cpu_time(as_pid(self.program.pid)).unwrap_or_default();
        let before = substitute
            .paid
            .replace(cpu.max(substitute.paid.unwrap_or_default()));
        let used = before.map_or(0, |before| cpu.saturating_sub(before).as_nanos() as u64);
        let control = self.gates.control();
        control
            .budget
            .earned_ns
            .fetch_add((used as f64 * substitute.share) as u64, SeqCst);
        let spent = control.budget.spent_ns.load(SeqCst);
        let earned = control.budget.earned_ns.load(SeqCst);
        let was_spent = substitute.next_budget != 0;
        let reserve = if was_spent {
            RESERVE.as_nanos() as u64
        } else {
            0
        };
        let is_spent = spent.saturating_add(reserve) > earned;
        if !is_spent {
            substitute.next_budget = 0;
        } else if !was_spent || now >= substitute.next_budget {
            let missing = spent.saturating_add(RESERVE.as_nanos() as u64) - earned.min(spent);
            // With one busy thread. What is missed by looking late is little.
            let rest = Duration::from_secs_f64(missing as f64 * 1e-9 / substitute.share);
            substitute.next_budget = now + rest.max(LEAST_REST).as_nanos() as u64;
        }
        self.arming.run_clocks(!is_spent);
    }

    /// Seizes threads that are new, and opens their events; more rarely while there are none.
    fn look_for_threads(&mut self, now: u64) -> Result<(), EngineError> {
        let known = self.arming.len();
        self.take_in_new_threads()?;
        let is_new = self.arming.len() > known;
        if let Some(substitute) = self.substitute.as_mut() {
            let longer = (substitute.scan_every * 2).min(SCANS[1]);
            substitute.scan_every = if is_new { SCANS[0] } else { longer };
            substitute.next_scan = now + substitute.scan_every.as_nanos() as u64;
        }
        Ok(())
    }
}
