//! What stops on the program's own account cost, and who is let alone for it ([`crate::hunt::respite`]).

use std::os::fd::OwnedFd;

use crate::hunt::engine::rig::Rig;
use crate::hunt::engine::{EngineError, as_pid};
use crate::hunt::wire::Notice;
use crate::kernel::process::monotonic_ns;
use crate::tracee;

use super::Crew;

/// Since when threads may stand that have stopped on the program's own account, and what is told when the process ends.
#[derive(Debug, Default)]
pub struct OwnStops {
    since_ns: u64,
    pub end_of_process: Option<OwnedFd>,
}

impl Crew {
    /// Looks for stops from now on: no thread has stood for longer, as far as we can tell. What passed until we were woken is a part of
    /// what the tracer's work is charged for.
    pub fn begin_own_stops(&mut self) {
        self.own_stops.since_ns = monotonic_ns();
    }

    /// Charges a stop that a thread has made on the program's own account, and from which it goes on now.
    pub fn charge_own_stop(&mut self, rig: &mut Rig) {
        let now = monotonic_ns();
        let stood = now.saturating_sub(self.own_stops.since_ns);
        self.own_stops.since_ns = now;
        self.respite.stopped(stood);
        rig.budget.charge_own_stop(rig.gates.control(), stood);
    }

    /// Takes back those that were let alone longest, as many as there is enough for.
    pub fn take_back(&mut self, rig: &mut Rig) -> Result<(), EngineError> {
        if rig.arming.are_let_alone().len() == 0 {
            return Ok(());
        }
        let alive = tracee::threads::list(as_pid(rig.program.pid)).unwrap_or_default();
        rig.arming
            .keep_let_alone(|tid| alive.contains(&as_pid(tid)));
        let mut tids = rig.arming.are_let_alone().collect::<Vec<_>>().into_iter();
        while self.respite.is_over()
            && let Some(tid) = tids.next()
        {
            match rig.arming.take_back(tid) {
                Ok(true) if !rig.arming.inherits() => rig.open_events(tid)?,
                Ok(_) => {}
                // Whoever traces it now may end.
                Err(error) => drop(rig.outbox.send(&Notice::Debug(error.to_string()))),
            }
            self.respite.end();
        }
        self.count_alone(rig);
        Ok(())
    }

    /// Takes note of how many are let alone.
    pub fn count_alone(&mut self, rig: &Rig) {
        let alone = rig.arming.are_let_alone().len() as u64;
        self.respite.are_alone(alone, monotonic_ns());
    }

    /// Brings the budget up to date.
    pub fn settle(&mut self, rig: &mut Rig) {
        let used = rig.program.cpu_used();
        let new = rig.program.saw(used);
        self.adoption.earn(new);
        self.respite.earn(new);
        let control = rig.gates.control();
        rig.budget.earn(control, used);
        let worked = rig.budget.settle(control);
        self.has_worked(worked);
    }

    /// Says for what the tracer has worked so long, ns: mostly for what it was woken for.
    pub fn has_worked(&mut self, ns: u64) {
        let [threads, stops] = [self.adoption.heard(), self.respite.heard()];
        if threads + stops > 0 {
            let for_stops =
                (u128::from(ns) * u128::from(stops) / u128::from(threads + stops)) as u64;
            self.respite.worked(for_stops);
            self.adoption.worked(ns - for_stops);
        }
    }
}
