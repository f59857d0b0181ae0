//! What the gates tell.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::EVENT_BUSY;
use gwp_race_abi::EVENT_CONFIRMED;
use gwp_race_abi::EVENT_CROWDED;
use gwp_race_abi::EVENT_EXEC;
use gwp_race_abi::EVENT_HIT;
use gwp_race_abi::EVENT_KNOWN;
use gwp_race_abi::EVENT_SHARED;
use gwp_race_abi::EVENT_THREAD;
use gwp_race_abi::EVENT_THREADS_LEFT;
use gwp_race_abi::EVENT_UNKNOWN_PC;
use gwp_race_abi::Event;

use super::{Engine, EngineError, State};

impl Engine {
    /// Handles all that they have told.
    pub(super) fn on_events(&mut self) -> Result<(), EngineError> {
        while let Some(event) = self.gates.next_event() {
            self.on_event(event)?;
        }
        self.read_rings();
        Ok(())
    }

    fn on_event(&mut self, event: Event) -> Result<(), EngineError> {
        match event.kind {
            EVENT_THREAD => {
                self.arming.note_creation(event.by);
                self.take_in_thread(event.tid)?;
                if self.arming.wants_others(self.arming.known()) {
                    self.scan_when_idle();
                }
            }
            EVENT_THREADS_LEFT => self.left_threads(),
            EVENT_EXEC => self.look_for_exec()?,
            EVENT_UNKNOWN_PC => self.scan_for_code(),
            EVENT_BUSY if matches!(self.state, State::Idle) => self.site_is_busy(),
            EVENT_CROWDED => {
                if let State::Seek { tid, site, .. } = self.state
                    && event.value == self.generation
                {
                    self.give_up_seek(tid, site);
                }
            }
            EVENT_SHARED
                if matches!(self.state, State::Idle)
                    && event.value == self.gates.control().sharing.since_ns.load(SeqCst) =>
            {
                self.end_sharing();
            }
            EVENT_BUSY
                if matches!(self.state, State::Stalled(_)) && event.value == self.generation =>
            {
                self.cut_stall_short();
            }
            EVENT_HIT
                if matches!(self.state, State::Stalled(_)) && event.value == self.generation =>
            {
                self.on_hit_in_kernel();
            }
            EVENT_KNOWN
                if matches!(self.state, State::Stalled(_)) && event.value == self.generation =>
            {
                self.shorten_stall();
            }
            EVENT_CONFIRMED
                if matches!(self.state, State::Confirm(_)) && event.value == self.generation =>
            {
                self.end_confirm(true);
            }
            _ => {}
        }
        Ok(())
    }
}
