//! Other tools that take breakpoints: leases leave them at least one of each processor, and as soon as somebody has it, all of them.
//!
//! Nobody is told who wants breakpoints, and whoever is refused one leaves no trace. But who has some is seen by what is left for oneself ([`breakpoints`]): so he gets the first ones in any case, is seen, and gets the others when he asks
//! for them. That costs some microseconds a second while somebody is watched, and nothing else.

use std::time::Duration;

use super::{Daemon, contention::Others};
use crate::{
    cli::messages::tell,
    fleet::schedule::{Event, RETRY},
    hunt::watchpoints::OF_PROCESSOR,
    kernel::{KernelError, breakpoints, cpus},
};

/// How often it is looked whether somebody has some while leases go on: two looks are to be over within a second.
pub const LOOK: Duration = Duration::from_millis(400);

impl Daemon {
    /// Looks whether another tool has taken some since the first of the leases that go on began; then all end.
    pub(super) fn look_at_breakpoints(&mut self) {
        let now = self.now();
        if !self.yields() || !self.is_anybody_watched() || self.scheduler.makes_room(now).is_some()
        {
            return;
        }
        // Where none can be opened, none was: the tracer tells of that.
        if let Ok(others) = self.breakpoints_of_others()
            && self.contention.look(others)
        {
            self.make_room("has taken breakpoints");
        }
    }

    /// A lease is about to begin: if it is the first one, what others have now is nothing new.
    pub(super) fn see_breakpoints(&mut self) {
        if self.yields()
            && !self.is_anybody_watched()
            && let Ok(others) = self.breakpoints_of_others()
        {
            self.contention.begin(others);
        }
    }

    /// Nobody is watched for a while, so that another tool gets what it wants.
    pub(super) fn make_room(&mut self, what: &str) {
        tell(&format!(
            "another tool {what}: nobody is watched for {}, so that it gets those that it wants",
            humantime::format_duration(RETRY)
        ));
        self.scheduler.take(self.now(), Event::BreakpointsTaken);
        self.is_urgent = true;
    }

    /// Slots that may have leases. Beside one that watches by processor none begins where breakpoints are left to others: with both kinds, none would be.
    pub(super) fn slots(&self) -> usize {
        let usable = self.sampler.usable();
        if self.yields() && self.is_by_processor() {
            usable.min(self.leases.len())
        } else {
            usable
        }
    }

    const fn yields(&self) -> bool {
        self.config.settings.yields_breakpoints
    }

    fn is_anybody_watched(&self) -> bool {
        self.leases.iter().any(|lease| lease.link.is_some())
    }

    fn is_by_processor(&self) -> bool {
        self.leases.iter().any(|lease| lease.is_by_processor)
    }

    fn breakpoints_of_others(&self) -> Result<Others, KernelError> {
        let is_by_processor = self.is_by_processor();
        let ours = if is_by_processor { OF_PROCESSOR } else { 0 };
        let most = breakpoints::most_of_processors()?;
        // Threads of others are in the way of what we have on processors, and of nothing else.
        let are_crowded = match cpus::online().first() {
            Some(&cpu) if is_by_processor => !breakpoints::has_left(cpu)?,
            _ => false,
        };
        Ok(Others {
            on_processors: most.saturating_sub(ours),
            are_crowded,
        })
    }
}
