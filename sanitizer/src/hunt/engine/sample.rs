//! The life of one sample begins: a thread is claimed, and it is decided what becomes of it.

use std::cell::OnceCell;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::own;
use gwp_race_abi::phase;
use nix::unistd::Pid;

use crate::addr::RuntimeAddr;
use crate::hunt::routine_call;
use crate::hunt::routine_call::RoutineCall;
use crate::hunt::strategy::CodeView as _;
use crate::hunt::strategy::Outcome;
use crate::hunt::strategy::Patience;
use crate::hunt::strategy::Proposal;
use crate::hunt::strategy::Sample;
use crate::hunt::wire::Notice;
use crate::insn::Regs;
use crate::kernel::calibrate::SAMPLED_STACK;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;
use crate::kernel::ptrace;
use crate::symbols::StackSnapshot;
use crate::tracee::memory;
use crate::tracee::threads::Scheduling;

use super::decisions::Way;
use super::{CLAIM_TIME, Engine, LATE_STOP, SEEK_TIME, State, as_pid, release};

impl Engine {
    /// Whether the gate has stopped this thread for the sample in hand.
    pub(super) fn is_sample_of(&mut self, tid: u32) -> bool {
        let control = self.gates.control();
        let phase = self.gates.phase().read();
        let ours = control.claim.owner.load(SeqCst) == u64::from(tid);
        match (phase.phase(), &self.state) {
            (phase::CLAIMED, State::Idle) if ours => {
                // The gate may declare the claim void at this very moment.
                if !self.gates.phase().advance(phase, phase::REACHED) {
                    return false;
                }
                self.generation = phase.generation();
                true
            }
            (phase::REACHED, State::Seek { tid: owner, .. }) => *owner == tid,
            _ => false,
        }
    }

    /// A thread that a gate has claimed has ended, or stands for another reason: its stop for the
    /// sample will not come, or comes too late.
    pub(super) fn void_claim(&mut self, tid: u32) {
        let control = self.gates.control();
        let phase = self.gates.phase().read();
        // Another gate may declare it void at this very moment.
        if phase.phase() == phase::CLAIMED
            && control.claim.owner.load(SeqCst) == u64::from(tid)
            && self.gates.phase().advance(phase, phase::CLOSED)
        {
            self.generation = phase.generation();
            self.go_idle();
        }
    }

    /// A thread that a gate has claimed may have had to wait for a processor before it came to its
    /// stop. Then it has not stood still since, and others have had the time.
    fn discount_waiting(&self, tid: u32) {
        let control = self.gates.control();
        let claimed = control.claim.time_ns.load(SeqCst);
        let now = monotonic_ns();
        // Without gates, and where the kernel does not count, it is 0.
        let before = control.claim.run_delay_ns.load(SeqCst);
        if now.saturating_sub(claimed) < nanos(LATE_STOP) || before == 0 {
            return;
        }
        if let Some(scheduling) = Scheduling::read(as_pid(self.program.pid), as_pid(tid)) {
            let waited = nanos(scheduling.waited).saturating_sub(before);
            let since = claimed.saturating_add(waited).min(now);
            control.claim.time_ns.store(since, SeqCst);
            control.watchdog.standing_since_ns.store(since, SeqCst);
        }
    }

    /// A thread of ours stands at a sampled or sought instruction.
    pub(super) fn on_sample(&mut self, tid: u32) {
        self.figures.stops += 1;
        self.waiting.claimed = self.gates.control().claim.time_ns.load(SeqCst);
        self.discount_waiting(tid);
        let Ok(regs) = ptrace::registers(tid) else {
            self.arming.unbreak(tid);
            return self.let_go(tid);
        };
        let pid = as_pid(self.program.pid);
        let read = OnceCell::new();
        let stack = || read.get_or_init(|| sampled_stack(pid, &regs));
        let call = self.routine_call(&regs, &stack);
        if let State::Seek { site, patience, .. } = self.state {
            self.arming.unbreak(tid);
            self.state = State::Idle;
            return self.begin_stall(tid, regs, call, site, patience);
        }
        self.waiting.at = None;
        self.waiting.shared = None;
        self.tell_writers();
        let came = self.waiting.last.take();
        let came = came.filter(|(wait, _)| wait.at == regs.rip);
        self.tell_ahead(came.map(|_| (tid, self.waiting.claimed)));
        self.decisions.way = came.map_or(Way::Sample, |(wait, _)| Way::Wait(wait.known));
        if came.is_none() {
            self.decide_on_holders();
        }
        let waited = came.map(|(_, since)| {
            let control = self.gates.control();
            let came = if control.site.company.until_ns.load(SeqCst) == 0 {
                control.claim.time_ns.load(SeqCst)
            } else {
                // From then on it was another thread's company that was waited for.
                control.site.first_ns.load(SeqCst)
            };
            Duration::from_nanos(came.saturating_sub(since))
        });
        self.end_turn();
        match self.propose(&regs, call.as_ref(), waited, &stack) {
            Proposal::Pass(reason) => {
                self.figures.no_stall(reason);
                self.let_go(tid);
            }
            Proposal::StallHere { site, patience } => {
                self.begin_stall(tid, regs, call, site, patience);
            }
            Proposal::Seek { at, site, patience } => self.begin_seek(tid, at, site, patience),
        }
    }

    /// The call of the memory routine in which a stopped thread stands, if it does in one and
    /// analyzed code has called it.
    pub(super) fn routine_call<'a>(
        &self,
        regs: &Regs,
        stack: &dyn Fn() -> &'a StackSnapshot,
    ) -> Option<RoutineCall> {
        self.modules
            .is_routine(regs.rip)
            .then(|| routine_call::of_routine(&self.modules, regs, stack()))
            .flatten()
    }

    /// Asks the strategy what to do with a sampled thread.
    pub(super) fn propose<'a>(
        &mut self,
        regs: &Regs,
        call: Option<&RoutineCall>,
        waited: Option<Duration>,
        stack: &dyn Fn() -> &'a StackSnapshot,
    ) -> Proposal {
        let words = || {
            let words = stack().bytes.chunks_exact(8);
            words
                .map(|word| word.try_into().map_or(0, u64::from_le_bytes))
                .collect()
        };
        let sample = Sample {
            stack: &words,
            waited,
            regs,
            routine_returns_to: call.map(|call| call.return_address),
            own_frame: &|_| own::FRAME,
            rbp_is_frame: regs.rbp >= regs.rsp && regs.rbp < self.stack_end(regs),
        };
        self.strategy.propose(&sample, &*self.modules)
    }

    pub(super) fn stack_end(&self, regs: &Regs) -> u64 {
        self.modules
            .mapping_end(regs.rsp)
            .unwrap_or_else(|| regs.rsp.saturating_add(8 << 20))
    }

    pub(super) fn begin_seek(&mut self, tid: u32, at: u64, site: u64, patience: Patience) {
        self.disarm_site();
        let control = self.gates.control();
        control.claim.breakpoint.store(at, SeqCst);
        control.stall.traps.store(0, SeqCst);
        self.enter(phase::SEEK);
        if let Err(error) = self.arming.break_at(tid, RuntimeAddr(at), &self.gates) {
            self.outbox.send(&Notice::Debug(error.to_string()));
            self.figures.no_stall("breakpoint-failed");
            // Some may be armed where others are not.
            self.arming.unbreak(tid);
            return self.let_go(tid);
        }
        let now = monotonic_ns();
        let claimed = self.gates.control().claim.time_ns.load(SeqCst);
        self.budget
            .charge_stop(self.gates.control(), now.saturating_sub(claimed));
        self.state = State::Seek {
            tid,
            site,
            patience,
            deadline: now + SEEK_TIME.as_nanos() as u64,
            void: now + CLAIM_TIME.as_nanos() as u64,
        };
        self.nobody_stands();
        release(tid, 0);
    }

    pub(super) fn give_up_seek(&mut self, tid: u32, site: u64) {
        let phase = self.gates.phase().read();
        let seeks = phase.phase() == phase::SEEK && phase.generation() == self.generation;
        let now = monotonic_ns();
        if !(seeks && self.gates.phase().advance(phase, phase::IDLE)) {
            if let State::Seek { deadline, void, .. } = &mut self.state
                && now < *void
            {
                // It has arrived this moment: its stop is on the way.
                self.arming.unbreak(tid);
                *deadline = now + SEEK_TIME.as_nanos() as u64;
                return;
            }
            self.nobody_stands();
            self.enter(phase::IDLE);
        }
        self.arming.unbreak(tid);
        self.came_to(self.decisions.way, site, Outcome::NotReached);
        self.figures.no_stall("site-not-reached");
        self.state = State::Idle;
    }
}

/// What of a stopped thread's stack a strategy may look at.
fn sampled_stack(pid: Pid, regs: &Regs) -> StackSnapshot {
    let mut bytes = vec![0; usize::from(SAMPLED_STACK)];
    let read = memory::read(pid, RuntimeAddr(regs.rsp), &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    StackSnapshot {
        base: regs.rsp,
        bytes,
    }
}
