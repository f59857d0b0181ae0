//! Telling what was gained of the code, where somebody keeps it (`--ledger`): each second, so that a tracer which is ended from outside has told all but what
//! came last.

use crate::hunt::engine::rig::Rig;
use crate::hunt::wire::Notice;

use super::Adviser;

impl Adviser {
    /// Tells what was gained since the last time, by the modules of now. `raced`: the addresses behind accesses of which a race was told.
    pub fn tell_gains(&mut self, rig: &mut Rig, raced: &[(u64, u64)]) {
        if !rig.setup.memory {
            return;
        }
        for gained in self.strategy.gained(raced, &*rig.modules) {
            // What is not taken is lost: nothing waits for a daemon that does not read.
            rig.outbox.send(&Notice::Gained(gained));
        }
    }
}
