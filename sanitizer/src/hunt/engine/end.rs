//! The end of a hunt: nothing stays armed, and the last is told.

use std::time::Duration;

use gwp_race_abi::phase;

use crate::hunt::wire::{Ending, Notice};

use super::{Engine, State};

impl Engine {
    /// How long a thread that is about to receive a signal which may crash it waits for what is still to be told.
    #[must_use]
    pub const fn last_words(&self) -> Duration {
        Duration::from_nanos(self.setup.stop_deadline_ns / 4)
    }

    /// Disarms everything and tells the last numbers. The threads are released by the exit of
    /// this process, without a stop (invariant I3).
    pub fn end(&mut self, ending: Ending) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(ending);
        let _ = self.take_records();
        // What is still to be told may take a while: nobody stands still for it.
        match &self.state {
            State::Stalled(_) if self.caught() > 0 => self.end_stall(None),
            State::Stalled(stalled) => self.let_go(stalled.tid),
            _ => {}
        }
        let completed = matches!(self.state, State::Confirm(_)) && self.is_confirmed_soon();
        self.enter(phase::CLOSED);
        self.arming.close_events(self.arming.delivery());
        self.site_is_disarmed();
        self.judge_last(completed);
        self.gates.flush_log();
        self.tell_coverage();
        self.tell_elsewhere(|_, _| true);
        self.tell_last_decisions();
        let statistics = self.statistics();
        self.outbox.send(&Notice::Ended(ending, statistics));
    }
}
