//! Watching a variable that changes for who writes it, in place of a wait: by watchpoints that have nothing else to do then.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::{NOBODY, TRAPS_PER_STALL};

use crate::addr::RuntimeAddr;
use crate::hunt::engine::adviser::Adviser;
use crate::hunt::engine::rig::{Rig, WATCHPOINT_FAILED};
use crate::hunt::strategy::Unexplained;
use crate::kernel::perf::WatchKind;
use crate::kernel::process::{monotonic_ns, nanos};

use super::{Doing, Waiting};

/// A variable that is watched for who writes it.
#[derive(Clone, Copy, Debug)]
pub struct Watching {
    variable: u64,
    since: u64,
    pub until: u64,
}

impl Waiting {
    /// Watches who writes a variable, if the watchpoints can do that now.
    pub fn watch_for_writers(&mut self, rig: &mut Rig, unexplained: Unexplained) {
        let Unexplained {
            variable,
            byte,
            at_most,
        } = unexplained;
        let since = self.begin_sharing(rig, NOBODY, RuntimeAddr(byte));
        let watchpoints = rig.arming.watchpoints();
        match watchpoints.watch_beside(RuntimeAddr(byte), 1, WatchKind::Writes) {
            Ok(()) => {
                self.doing = Doing::Watching(Watching {
                    variable,
                    since,
                    until: since.saturating_add(nanos(at_most)),
                });
            }
            Err(error) => {
                rig.cannot_arm(&error, WATCHPOINT_FAILED);
                rig.gates.control().sharing.address.store(0, SeqCst);
            }
        }
    }

    /// Does not watch a variable any more.
    pub fn end_watching(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        if matches!(self.doing, Doing::Watching(_)) {
            self.tell_writers(rig, adviser);
            self.disarm_site(rig);
        }
    }

    /// Tells the strategy who was seen to write the variable that was watched. What is still armed tells nothing from here on.
    pub fn tell_writers(&mut self, rig: &mut Rig, adviser: &mut Adviser) {
        let Doing::Watching(watching) = self.doing else {
            return;
        };
        self.doing = Doing::Nothing;
        let Watching {
            variable,
            since,
            until,
        } = watching;
        let control = rig.gates.control();
        control.sharing.address.store(0, SeqCst);
        // As long as was meant, where it has trapped so often that the watchpoint was taken away: of when that was, nothing is known.
        let ended = if control.stall.traps.load(SeqCst) < TRAPS_PER_STALL {
            monotonic_ns().min(until)
        } else {
            until
        };
        let lasted = Duration::from_nanos(ended.saturating_sub(since));
        let writers = rig.users();
        adviser.saw_writers(rig, variable, &writers);
        adviser.strategy.watched(variable, lasted, &writers);
    }
}
