//! What the gates tell.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::{
    EVENT_BACK, EVENT_BUSY, EVENT_CONFIRMED, EVENT_CROWDED, EVENT_EXEC, EVENT_HIT, EVENT_HOT,
    EVENT_KNOWN, EVENT_SHARED, EVENT_THREAD, EVENT_THREADS_LEFT, EVENT_UNKNOWN_PC, Event,
    TRAPS_PER_STALL,
};

use super::rig::Rig;
use super::sampler::State;
use super::{Engine, EngineError};

impl Engine {
    /// Handles all that they have told.
    pub(super) fn on_events(&mut self) -> Result<(), EngineError> {
        while let Some(event) = self.rig.gates.next_event() {
            self.on_event(event)?;
        }
        self.read_rings();
        Ok(())
    }

    fn on_event(&mut self, event: Event) -> Result<(), EngineError> {
        match event.kind {
            EVENT_THREAD => {
                self.rig.arming.note_creation(event.by);
                let Rig { gates, arming, .. } = &mut self.rig;
                (self.crew.creations).take_in(gates, |tid| arming.knows(tid));
                self.crew.take_in_thread(&mut self.rig, event.tid)?;
                if self.rig.arming.wants_others(self.rig.arming.known()) {
                    self.scan_when_idle();
                }
            }
            EVENT_THREADS_LEFT => self.left_threads(),
            EVENT_EXEC => self.look_for_exec()?,
            EVENT_UNKNOWN_PC => self.scan_for_code(),
            EVENT_HOT => self.profiler.remove_hot(),
            EVENT_BUSY if self.sampler.state.is_idle() => self
                .sampler
                .waiting
                .site_is_busy(&mut self.rig, &mut self.adviser),
            EVENT_CROWDED => {
                if let State::Seek { tid, site, .. } = self.sampler.state
                    && event.value == self.sampler.generation
                {
                    self.sampler
                        .give_up_seek(&mut self.rig, &mut self.adviser, tid, site);
                }
            }
            EVENT_SHARED
                if self.sampler.state.is_idle()
                    && event.value == self.rig.gates.control().sharing.since_ns.load(SeqCst) =>
            {
                self.sampler
                    .waiting
                    .end_sharing(&mut self.rig, &mut self.adviser);
            }
            EVENT_BUSY
                if matches!(self.sampler.state, State::Stalled(_))
                    && event.value == self.sampler.generation =>
            {
                self.sampler
                    .cut_stall_short(&mut self.rig, &mut self.adviser);
            }
            EVENT_HIT
                if matches!(self.sampler.state, State::Stalled(_))
                    && event.value == self.sampler.generation =>
            {
                self.sampler
                    .on_hit_of_running(&mut self.rig, &mut self.adviser);
            }
            EVENT_BACK
                if matches!(self.sampler.state, State::Stalled(_))
                    && event.value == self.sampler.generation =>
            {
                self.sampler
                    .end_stall(&mut self.rig, &mut self.adviser, None);
            }
            EVENT_KNOWN
                if matches!(self.sampler.state, State::Stalled(_))
                    && event.value == self.sampler.generation =>
            {
                self.sampler.shorten_stall();
            }
            EVENT_CONFIRMED
                if matches!(self.sampler.state, State::Confirm(_))
                    && event.value == self.sampler.generation =>
            {
                self.sampler.end_confirm(&mut self.rig, true);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes in what the rings hold, where there are no gates, and does what follows from it.
    fn read_rings(&mut self) {
        if self.rig.has_gates() {
            return;
        }
        let may_claim = self.sampler.is_at_rest(&self.rig);
        let records = self.rig.take_records(may_claim);
        if records.is_code_unknown {
            self.scan_for_code();
        }
        if matches!(self.sampler.state, State::Stalled(_)) {
            let control = self.rig.gates.control();
            if control.stall.hits.load(SeqCst) > 0 {
                self.sampler
                    .end_stall(&mut self.rig, &mut self.adviser, None);
            } else if control.stall.traps.load(SeqCst) >= TRAPS_PER_STALL {
                self.sampler
                    .cut_stall_short(&mut self.rig, &mut self.adviser);
            }
        }
        if let Some(sample) = records.sample
            && self.sampler.state.is_idle()
        {
            self.sampler
                .search(&mut self.rig, &mut self.adviser, &sample);
        }
    }
}
