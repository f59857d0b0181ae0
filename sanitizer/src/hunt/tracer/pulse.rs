//! The heartbeat of a lease.

use std::time::Duration;

use crate::hunt::engine::Engine;
use crate::hunt::watchdog;
use crate::kernel::dead_man::DeadMansSwitch;
use crate::kernel::{KernelError, process};

/// Says when the tracees are looked at next: to the watchdog, and to the kernel, which ends this process if that does not come and the watchdog
/// does nothing.
pub(super) struct Pulse {
    switch: DeadMansSwitch,
    late: Duration,
}

impl Pulse {
    pub(super) fn new(deadline: Duration) -> Result<Self, KernelError> {
        Ok(Self {
            switch: DeadMansSwitch::new()?,
            late: watchdog::at_the_latest(deadline),
        })
    }

    pub(super) fn announce_heartbeat(
        &mut self,
        engine: &Engine,
        after: Duration,
    ) -> Result<(), KernelError> {
        engine.announce_heartbeat(after);
        let look = process::monotonic_ns().saturating_add(process::nanos(after));
        self.switch
            .go_on_until(look.saturating_add(process::nanos(self.late)))
    }
}
