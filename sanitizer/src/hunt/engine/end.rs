//! The end of a hunt: nothing stays armed, and the last is told.

use std::time::Duration;

use gwp_race_abi::phase;

use crate::hunt::wire::{Ending, Notice};

use super::Engine;
use super::sampler::State;

impl Engine {
    /// How long a thread that is about to receive a signal which may crash it waits for what is still to be told.
    #[must_use]
    pub const fn last_words(&self) -> Duration {
        Duration::from_nanos(self.rig.setup.stop_deadline_ns / 4)
    }

    /// Disarms everything and tells the last numbers. The threads are released by the exit of
    /// this process, without a stop (invariant I3).
    pub fn end(&mut self, ending: Ending) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(ending);
        self.profiler.stop();
        let _ = self.rig.take_records(false);
        // What is still to be told may take a while: nobody stands still for it.
        match &self.sampler.state {
            State::Stalled(_) if self.rig.caught() > 0 => {
                self.sampler
                    .end_stall(&mut self.rig, &mut self.adviser, None)
            }
            State::Stalled(stalled) => self.sampler.let_go(&mut self.rig, stalled.thread.tid),
            _ => {}
        }
        let completed =
            matches!(self.sampler.state, State::Confirm(_)) && self.rig.is_confirmed_soon();
        self.sampler.enter(&self.rig, phase::CLOSED);
        self.rig.arming.close_events(self.rig.arming.delivery());
        self.sampler.waiting.site_is_disarmed(&self.rig);
        self.judge_last(completed);
        self.rig.gates.flush_log();
        self.adviser.tell_coverage(&mut self.rig);
        let raced = self.sampler.pairs.take_news();
        self.adviser.tell_gains(&mut self.rig, &raced);
        self.rig.tell_elsewhere(|_, _| true);
        self.adviser.tell_last_decisions(&mut self.rig);
        let statistics = self.statistics();
        self.rig.outbox.send(&Notice::Ended(ending, statistics));
    }
}
