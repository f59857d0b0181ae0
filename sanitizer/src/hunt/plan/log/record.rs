//! What a log consists of.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hunt::plan::{
    action::{Action, Candidate, Then},
    event::{Event, SiteId, What},
    purse::Purse,
};

/// A record, in the order in which it all happened. Times are since any instant, the same one in all records of a hunt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A hunt begins, with a planner that knows nothing yet.
    Begun {
        /// What its choices by chance follow from.
        seed: u64,
        /// [`prior::fingerprint`](crate::hunt::plan::prior::fingerprint) of the numbers of its model.
        priors: u64,
    },
    /// It has heard of something.
    Observed(Duration, Event),
    /// It was asked what to do next, with so much to spend.
    Decided(Duration, Purse, Action),
    /// It was asked what to do with a thread that was stopped.
    Stopped {
        /// When.
        now: Duration,
        /// Where: the site that was waited at, or those to which it may come.
        ahead: Vec<SiteId>,
        /// How long it was waited for; `None` where a sample has stopped it.
        waited: Option<Duration>,
        /// The answer.
        answer: Option<(SiteId, Then)>,
    },
    /// It was asked which of the threads that are off their processors to take.
    Preempted {
        /// When.
        now: Duration,
        /// What they are about to access.
        all: Vec<Candidate>,
        /// The answer: which, and for how long.
        answer: Option<(usize, Duration)>,
    },
    /// The hunt goes on, but what has happened from here on could not be told.
    Lost,
    /// The hunt is over.
    Ended,
}

impl Record {
    /// When it was, if it says so.
    #[must_use]
    pub const fn time(&self) -> Option<Duration> {
        match self {
            Self::Observed(now, _)
            | Self::Decided(now, ..)
            | Self::Stopped { now, .. }
            | Self::Preempted { now, .. } => Some(*now),
            Self::Begun { .. } | Self::Lost | Self::Ended => None,
        }
    }

    /// Whether a planner can work with its numbers.
    pub(super) fn is_sound(&self) -> bool {
        /// No budget is in debt for longer than that, s: 30 years.
        const LONGEST_S: f64 = 1e9;
        match self {
            Self::Observed(_, event) => match event.what {
                What::Cost(cost_s) | What::Profiled { cost_s, .. } => cost_s.is_finite(),
                _ => true,
            },
            Self::Decided(_, purse, _) => {
                let Purse {
                    left_s,
                    income,
                    most_s,
                    credit_s,
                } = purse;
                [left_s, income, most_s, credit_s].map(|number| number.is_finite()) == [true; 4]
                    && purse.until_left_s() < LONGEST_S
            }
            _ => true,
        }
    }
}
