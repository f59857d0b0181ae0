//! The sample in hand: how far it is, and what is waited for while there is none.

mod claim;
mod close;
mod confirm;
mod hold;
mod pairs;
mod preempted;
mod search;
mod state;

use gwp_race_abi::phase;

use crate::hunt::engine::adviser::Adviser;
use crate::hunt::engine::rig::Rig;
use crate::hunt::engine::waiting::Waiting;
use crate::verdict::Reason;

use pairs::Pairs;

pub use pairs::Spot;
pub use preempted::Off;
pub use state::{Confirm, Deep, Purpose, State};

/// Why a hit was not reported whose modules could not be looked at in time.
pub const MODULES_UNKNOWN: &str = "modules-unknown";

/// See the module.
pub struct Sampler {
    pub state: State,
    /// Of the sample in hand.
    pub generation: u64,
    pub waiting: Waiting,
    /// What was told of the places that have met.
    pub pairs: Pairs,
    /// How long threads are off their processors.
    off: Off,
}

impl Sampler {
    /// Nothing is in hand. `generation`: the last one of which there may be evidence.
    pub fn new(generation: u64) -> Self {
        Self {
            state: State::Idle,
            generation,
            waiting: Waiting::default(),
            pairs: Pairs::default(),
            off: Off::default(),
        }
    }

    /// Does what is due with the sample in hand; false where none is.
    pub fn on_time(&mut self, rig: &mut Rig, adviser: &mut Adviser, now: u64) -> bool {
        match &self.state {
            State::Idle => return false,
            State::Seek {
                tid,
                site,
                deadline,
                ..
            } if now >= *deadline => {
                let (tid, site) = (*tid, *site);
                self.give_up_seek(rig, adviser, tid, site);
            }
            State::Stalled(stalled) if now >= stalled.deadline => {
                self.end_stall(rig, adviser, None)
            }
            State::Stalled(stalled) if now >= stalled.look_at_locks => {
                self.look_at_locks(rig, adviser)
            }
            State::Confirm(confirm) if now >= confirm.deadline => {
                self.end_confirm_in_vain(rig, now);
            }
            State::Settle { look, .. } if now >= *look => self.settle(rig, now),
            _ => {}
        }
        true
    }

    /// Whether no sample is in hand, nor was claimed this moment.
    pub fn is_at_rest(&self, rig: &Rig) -> bool {
        self.state.is_idle() && rig.gates.phase().is(phase::IDLE)
    }

    /// The sample in hand is in another phase from now on.
    pub fn enter(&self, rig: &Rig, phase: u64) {
        rig.gates.phase().enter(self.generation, phase);
    }

    /// Nothing is in hand any more, and the gate may claim the next thread.
    pub fn go_idle(&mut self, rig: &Rig) {
        self.state = State::Idle;
        rig.nobody_stands();
        rig.forget_preempted();
        self.enter(rig, phase::IDLE);
    }

    /// Lets the owner go and is idle.
    pub fn let_go(&mut self, rig: &mut Rig, tid: u32) {
        if rig.gates.phase().is(phase::STALL) {
            self.enter(rig, phase::CLOSED);
        }
        rig.charge_and_release(tid);
        self.waiting.disarm_site(rig);
        self.go_idle(rig);
    }

    pub fn abandon_if_owner(&mut self, rig: &mut Rig, tid: u32) {
        let owner = match &self.state {
            State::Idle | State::Settle { .. } | State::Scanning(_) => return,
            State::Seek { tid, .. } => *tid,
            State::Stalled(stalled) => stalled.thread.tid,
            State::Confirm(confirm) => confirm.side.tid,
        };
        if owner == tid {
            self.abandon(rig);
        }
    }

    /// Closes whatever is in hand; its thread is gone or will be released by our exit.
    pub fn abandon(&mut self, rig: &mut Rig) {
        if matches!(self.state, State::Confirm(_)) {
            return self.end_confirm(rig, false);
        }
        if matches!(self.state, State::Stalled(_)) {
            rig.figures
                .not_reported(Reason::NotCompleted.name(), rig.caught());
        }
        if !self.state.holds_nobody() {
            self.enter(rig, phase::CLOSED);
            rig.arming.watchpoints().unwatch();
            self.go_idle(rig);
        }
    }

    /// Asks the loader; what is in hand must be no sample, and no thread stand still for one.
    pub fn begin_scan(&mut self, rig: &mut Rig, purpose: Purpose, anew: bool) {
        self.enter(rig, phase::CLOSED);
        rig.nobody_stands();
        match &purpose {
            Purpose::Judge { confirm, .. } => rig
                .loader
                .scan_to_judge(rig.program.pid, confirm.judged_places()),
            _ => rig.loader.scan(rig.program.pid, anew),
        }
        self.state = State::Scanning(purpose);
    }

    /// What was caught in a program that the process does not execute any more: what its program
    /// counters meant can no longer be known.
    pub fn forget_caught(&mut self, rig: &mut Rig) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Confirm(confirm)
            | State::Settle { confirm, .. }
            | State::Scanning(Purpose::Judge { confirm, .. }) => {
                rig.figures
                    .not_reported(MODULES_UNKNOWN, confirm.hits.len());
            }
            State::Stalled(_) => rig.figures.not_reported(MODULES_UNKNOWN, rig.caught()),
            _ => {}
        }
    }
}
