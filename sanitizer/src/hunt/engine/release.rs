//! Nothing is in hand any more: whoever stands goes on.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::phase;

use crate::kernel::process::monotonic_ns;
use crate::verdict::Reason;

use super::{Engine, State, release};

impl Engine {
    /// No thread is held for a sample any more: the watchdog may sleep. Must come before the gate
    /// may stop the next one.
    pub(super) fn nobody_stands(&self) {
        let control = self.gates.control();
        control.watchdog.standing_since_ns.store(0, SeqCst);
    }

    /// Nothing is in hand any more, and the gate may claim the next thread.
    pub(super) fn go_idle(&mut self) {
        self.state = State::Idle;
        self.nobody_stands();
        self.gates
            .control()
            .phase
            .store(phase::word(self.generation, phase::IDLE), SeqCst);
    }

    /// Lets the owner go and is idle.
    pub(super) fn let_go(&mut self, tid: u32) {
        let word = self.gates.control().phase.load(SeqCst);
        if phase::of(word) == phase::STALL {
            self.gates
                .control()
                .phase
                .store(phase::word(self.generation, phase::CLOSED), SeqCst);
        }
        self.charge_and_release(tid);
        self.disarm_site();
        self.go_idle();
    }

    pub(super) fn charge_and_release(&mut self, tid: u32) {
        let control = self.gates.control();
        let claimed = control.claim.time_ns.load(SeqCst);
        self.budget
            .charge_stop(control, monotonic_ns().saturating_sub(claimed));
        release(tid, 0);
    }

    pub(super) fn abandon_if_owner(&mut self, tid: u32) {
        let owner = match &self.state {
            State::Idle | State::Scanning(_) => return,
            State::Seek { tid, .. } => *tid,
            State::Stalled(stalled) => stalled.tid,
            State::Confirm(confirm) => confirm.side.tid,
        };
        if owner == tid {
            self.abandon();
        }
    }

    /// Closes whatever is in hand; its thread is gone or will be released by our exit.
    pub(super) fn abandon(&mut self) {
        if matches!(self.state, State::Confirm(_)) {
            return self.end_confirm(false);
        }
        if matches!(self.state, State::Stalled(_)) {
            self.count_not_reported(Reason::NotCompleted.name(), self.caught());
        }
        if !matches!(self.state, State::Idle | State::Scanning(_)) {
            self.gates
                .control()
                .phase
                .store(phase::word(self.generation, phase::CLOSED), SeqCst);
            self.arming.watchpoints().unwatch();
            self.go_idle();
        }
    }
}
