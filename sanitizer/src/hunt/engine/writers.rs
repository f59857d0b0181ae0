//! Watching a variable that changes for who writes it, in place of a wait: by watchpoints that have nothing else to do then.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::{NOBODY, TRAPS_PER_STALL};

use crate::addr::RuntimeAddr;
use crate::hunt::strategy::Unexplained;
use crate::hunt::wire::Notice;
use crate::kernel::perf::WatchKind;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;

use super::Engine;

/// How long it is watched, if nothing ends that before.
const WATCHED: Duration = Duration::from_millis(500);

/// A variable that is watched for who writes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watching {
    variable: u64,
    since: u64,
    pub(super) until: u64,
}

impl Engine {
    /// Watches who writes a variable, if the watchpoints can do that now.
    pub(super) fn watch_for_writers(&mut self, unexplained: Unexplained) {
        let Unexplained { variable, byte } = unexplained;
        let since = self.begin_sharing(NOBODY, RuntimeAddr(byte));
        let watchpoints = self.arming.watchpoints();
        match watchpoints.watch_beside(RuntimeAddr(byte), 1, WatchKind::Writes) {
            Ok(()) => {
                self.waiting.watching = Some(Watching {
                    variable,
                    since,
                    until: since.saturating_add(nanos(WATCHED)),
                });
            }
            Err(error) => {
                self.outbox.send(&Notice::Debug(error.to_string()));
                self.gates.control().sharing.address.store(0, SeqCst);
                self.figures.no_stall("watchpoint-failed");
            }
        }
    }

    /// Does not watch a variable any more.
    pub(super) fn end_watching(&mut self) {
        if self.waiting.watching.is_none() {
            return;
        }
        self.tell_writers();
        self.disarm_site();
    }

    /// Tells the strategy who was seen to write the variable that was watched. What is still armed tells nothing from here on.
    pub(super) fn tell_writers(&mut self) {
        let Some(watching) = self.waiting.watching.take() else {
            return;
        };
        let Watching { variable, .. } = watching;
        let control = self.gates.control();
        control.sharing.address.store(0, SeqCst);
        let part = if control.stall.traps.load(SeqCst) < TRAPS_PER_STALL {
            let lasted = monotonic_ns().saturating_sub(watching.since);
            Duration::from_nanos(lasted).div_duration_f64(WATCHED)
        } else {
            1.0
        };
        let writers = self.users();
        self.saw_writers(variable, &writers);
        self.strategy.watched(variable, part.min(1.0), &writers);
    }
}
