//! Nothing is in hand any more: whoever stands goes on.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::phase;

use crate::kernel::process::monotonic_ns;
use crate::kernel::ptrace;
use crate::tracee::threads::Stat;
use crate::verdict::Reason;

use super::{Engine, State, as_pid};

/// How often it is tried to let a thread go that stands still all the same.
const RELEASES: usize = 3;

impl Engine {
    /// The sample in hand is in another phase from now on.
    pub(super) fn enter(&self, phase: u64) {
        self.gates.phase().enter(self.generation, phase);
    }

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
        self.enter(phase::IDLE);
    }

    /// Lets the owner go and is idle.
    pub(super) fn let_go(&mut self, tid: u32) {
        if self.gates.phase().is(phase::STALL) {
            self.enter(phase::CLOSED);
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
            self.figures
                .not_reported(Reason::NotCompleted.name(), self.caught());
        }
        if !matches!(self.state, State::Idle | State::Scanning(_)) {
            self.enter(phase::CLOSED);
            self.arming.watchpoints().unwatch();
            self.go_idle();
        }
    }
}

/// Lets a stopped thread go on. One that is gone needs nothing, and one that SIGKILL has woken
/// neither.
pub(super) fn release(tid: u32, signal: i32) {
    for _ in 0..RELEASES {
        // What is told of again is tried again then.
        if ptrace::resume(tid, signal).is_ok()
            || !stands(tid)
            || ptrace::has_news(tid).unwrap_or(false)
        {
            return;
        }
    }
    // Nobody would ever let it go. Our exit does.
    std::process::exit(i32::from(crate::hunt::ending::FAILED));
}

/// Whether a thread stands still for its tracer.
fn stands(tid: u32) -> bool {
    Stat::read(as_pid(tid), as_pid(tid)).is_ok_and(|stat| stat.state == 't')
}
