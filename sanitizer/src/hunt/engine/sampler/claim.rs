//! The life of one sample begins: a thread is claimed, and it is decided what becomes of it.

use std::cell::OnceCell;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::phase;
use nix::unistd::Pid;

use crate::addr::RuntimeAddr;
use crate::hunt::engine::adviser::{Adviser, Way};
use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::{BREAKPOINT_FAILED, Rig, Standing, release};
use crate::hunt::strategy::{Outcome, Patience, Proposal};
use crate::insn::Regs;
use crate::kernel::calibrate::SAMPLED_STACK;
use crate::kernel::process::monotonic_ns;
use crate::kernel::ptrace;
use crate::symbols::StackSnapshot;
use crate::tracee::memory;

use super::{Sampler, State};

/// A thread that does not come to the site it was sent to within this time is let alone.
const SEEK_TIME: Duration = Duration::from_millis(2);

impl Sampler {
    /// Whether the gate has stopped this thread for the sample in hand.
    pub fn is_sample_of(&mut self, rig: &Rig, tid: u32) -> bool {
        let control = rig.gates.control();
        let phase = rig.gates.phase().read();
        let ours = control.claim.owner.load(SeqCst) == u64::from(tid);
        match (phase.phase(), &self.state) {
            (phase::CLAIMED, State::Idle) if ours => {
                // The gate may declare the claim void at this very moment.
                if !rig.gates.phase().advance(phase, phase::REACHED) {
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
    pub fn void_claim(&mut self, rig: &Rig, tid: u32) {
        let control = rig.gates.control();
        let phase = rig.gates.phase().read();
        // Another gate may declare it void at this very moment.
        if phase.phase() == phase::CLAIMED
            && control.claim.owner.load(SeqCst) == u64::from(tid)
            && rig.gates.phase().advance(phase, phase::CLOSED)
        {
            self.generation = phase.generation();
            self.go_idle(rig);
        }
    }

    /// A thread of ours stands at a sampled or sought instruction.
    pub fn on_sample(&mut self, rig: &mut Rig, adviser: &mut Adviser, tid: u32) {
        rig.figures.stops += 1;
        self.waiting.claimed = rig.gates.control().claim.time_ns.load(SeqCst);
        rig.discount_waiting(tid);
        let Ok(regs) = ptrace::registers(tid) else {
            rig.arming.unbreak(tid);
            return self.let_go(rig, tid);
        };
        let pid = as_pid(rig.program.pid);
        let read = OnceCell::new();
        let stack = || read.get_or_init(|| sampled_stack(pid, &regs));
        let call = rig.routine_call(&regs, &stack);
        if let State::Seek { site, patience, .. } = self.state {
            rig.arming.unbreak(tid);
            self.state = State::Idle;
            let thread = Standing { tid, regs, call };
            return self.begin_stall(rig, adviser, thread, site, patience);
        }
        self.waiting.break_off(rig, adviser);
        let came = self.waiting.last.take();
        let came = came.filter(|(wait, _)| wait.at == regs.rip);
        self.waiting
            .tell_ahead(rig, adviser, came.map(|_| (tid, self.waiting.claimed)));
        adviser.decisions.way = came.map_or(self.waiting.way(), |(wait, _)| Way::Wait(wait.known));
        if came.is_none() {
            adviser.decide_on_holders(rig);
        }
        let waited = came.map(|(_, since)| {
            let control = rig.gates.control();
            let came = if control.site.company.until_ns.load(SeqCst) == 0 {
                control.claim.time_ns.load(SeqCst)
            } else {
                // From then on it was another thread's company that was waited for.
                control.site.first_ns.load(SeqCst)
            };
            Duration::from_nanos(came.saturating_sub(since))
        });
        self.waiting.end_turn(rig);
        match adviser.propose(rig, &regs, call.as_ref(), waited, &stack) {
            Proposal::Pass(reason) => {
                rig.figures.no_stall(reason);
                self.let_go(rig, tid);
            }
            Proposal::StallHere { site, patience } => {
                let thread = Standing { tid, regs, call };
                self.begin_stall(rig, adviser, thread, site, patience);
            }
            Proposal::Seek { at, site, patience } => self.begin_seek(rig, tid, at, site, patience),
        }
    }

    pub fn begin_seek(&mut self, rig: &mut Rig, tid: u32, at: u64, site: u64, patience: Patience) {
        self.waiting.disarm_site(rig);
        let control = rig.gates.control();
        control.claim.breakpoint.store(at, SeqCst);
        control.stall.traps.store(0, SeqCst);
        self.enter(rig, phase::SEEK);
        if let Err(error) = rig.arming.break_at(tid, RuntimeAddr(at), &rig.gates) {
            rig.cannot_arm(&error, BREAKPOINT_FAILED);
            // Some may be armed where others are not.
            rig.arming.unbreak(tid);
            return self.let_go(rig, tid);
        }
        let now = monotonic_ns();
        let claimed = rig.gates.control().claim.time_ns.load(SeqCst);
        rig.budget
            .charge_stop(rig.gates.control(), now.saturating_sub(claimed));
        self.state = State::seek(tid, site, patience, now, SEEK_TIME);
        rig.nobody_stands();
        release(tid, 0);
    }

    pub fn give_up_seek(&mut self, rig: &mut Rig, adviser: &mut Adviser, tid: u32, site: u64) {
        let phase = rig.gates.phase().read();
        let seeks = phase.phase() == phase::SEEK && phase.generation() == self.generation;
        let now = monotonic_ns();
        if !(seeks && rig.gates.phase().advance(phase, phase::IDLE)) {
            if let State::Seek { deadline, void, .. } = &mut self.state
                && now < *void
            {
                // It has arrived this moment: its stop is on the way.
                rig.arming.unbreak(tid);
                *deadline = now + SEEK_TIME.as_nanos() as u64;
                return;
            }
            rig.nobody_stands();
            self.enter(rig, phase::IDLE);
        }
        rig.arming.unbreak(tid);
        adviser.came_to(rig, adviser.decisions.way, site, Outcome::NotReached);
        rig.figures.no_stall("site-not-reached");
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
