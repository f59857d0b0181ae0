//! The planner: where to wait next, and what to do with whoever comes there.
//!
//! It is pure. It hears what can be observed ([`event`]), is asked for the next [`action`], and knows nothing else: it reads no
//! clock, no file and no memory of the program, and draws from a generator that is given a seed. So the same events give the same actions,
//! which is what tests, replays and simulations ([`super::world`]) rest on.
//!
//! It is not what decides yet: the engine still asks a [`super::strategy`].

pub mod action;
pub mod addresses;
pub mod belief;
pub mod catalogue;
pub mod choose;
pub mod counts;
pub mod event;
pub mod id;
mod lists;
pub mod log;
mod news;
mod pace;
pub mod posterior;
pub mod price;
pub mod prior;
mod profiled;
pub mod profiles;
pub mod purse;
pub mod samples;
mod trust;
pub mod update;
mod uses;
pub mod worth;

#[cfg(test)]
mod tests;

use std::time::Duration;

use action::{Action, Candidate, Then};
use counts::Counts;
use event::{Event, SiteId};
use purse::Purse;

/// Decides what to do next. Times are since any fixed instant, the same one each time.
pub trait Planner {
    /// Takes note of what has happened.
    fn observe(&mut self, now: Duration, event: &Event);
    /// What to do next, when nothing is in hand. The events that come of it have the action's id.
    fn decide(&mut self, now: Duration, purse: &Purse) -> Action;

    /// A thread was just stopped: at a site, after so long a wait, or by a sample. What to do with it, where that follows from how it
    /// came there. `ahead`: that site; for one that a sample has stopped, the sites that it may be let run to. `None`: what the
    /// action says.
    fn stopped(
        &mut self,
        _now: Duration,
        _ahead: &[SiteId],
        _waited: Option<Duration>,
    ) -> Option<(SiteId, Then)> {
        None
    }

    /// What was seen at sites since it was asked for last, without what was told: sums, for whoever watches the program next.
    fn gained(&mut self) -> Vec<(SiteId, Counts)> {
        Vec::new()
    }

    /// How many new races were to be expected of all that was done so far, by the model: of those that were found, which are few, next to nothing can be told.
    fn expected(&self) -> f64 {
        0.0
    }

    /// What threads that are off their processors are about to access: the place of the one to be watched, and for how long at most. `None`: none is
    /// worth it.
    fn preempted(&mut self, _now: Duration, _all: &[Candidate]) -> Option<(usize, Duration)> {
        None
    }
}
