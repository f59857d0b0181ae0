//! What keeps leases from beginning, and ends those that run.

use std::time::Duration;

use super::event::Reason;

/// After another tool has taken breakpoints, they are tried again after so long: another gwp-race, which may have been refused some, asks again after 30 s.
pub const RETRY: Duration = Duration::from_secs(45);
/// What keeps leases from beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holds {
    /// The machine is short of something.
    pub(super) is_pressed: bool,
    /// Another tool has the breakpoints; they are tried again then.
    retry: Option<Duration>,
    is_paused: bool,
    paused_until: Option<Duration>,
}

impl Holds {
    pub(super) fn breakpoints_are_taken(&mut self, now: Duration) {
        self.retry = Some(now + RETRY);
    }

    pub(super) const fn pause(&mut self, until: Option<Duration>) {
        (self.is_paused, self.paused_until) = (true, until);
    }

    pub(super) const fn resume(&mut self) {
        (self.is_paused, self.paused_until) = (false, None);
    }

    /// For how long another tool has the breakpoints, as far as is known.
    pub(super) fn makes_room(&self, now: Duration) -> Option<Duration> {
        let left = self.retry?.saturating_sub(now);
        (!left.is_zero()).then_some(left)
    }

    /// What does so at this time.
    pub(super) fn reason(&mut self, now: Duration) -> Option<Reason> {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.resume();
        }
        self.retry = self.retry.filter(|&retry| now < retry);
        match self {
            _ if self.is_paused => Some(Reason::Paused),
            _ if self.is_pressed => Some(Reason::Pressure),
            _ if self.retry.is_some() => Some(Reason::Breakpoints),
            _ => None,
        }
    }
}
