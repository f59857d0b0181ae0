//! What a planner can ask for.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

pub use super::id::ActionId;
use super::{
    id::{AddressId, SiteId, VariableId},
    lists::{as_list, of_list},
};

/// What to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The name under which its events come back.
    pub id: ActionId,
    /// What is to be done.
    pub deed: Deed,
}

/// The things that can be done. One at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Deed {
    /// Waits at an access site for whichever thread comes there first.
    Wait {
        /// The site.
        site: SiteId,
        /// For so long at most.
        at_most: Duration,
        /// What to do with the thread.
        then: Then,
        /// Only a thread that is about to access these bytes, which are watched from the beginning of the wait on: who uses them right after it has
        /// come is not missed. All others are let pass. `None`: any thread, whose bytes are watched when it stands.
        wanted: Option<AddressId>,
    },
    /// Lets a sample of CPU time stop a thread, wherever it is.
    Sample {
        /// Waits so long for a sample, at most.
        at_most: Duration,
        /// What to do with the thread, at the next access that it is about to make.
        then: Then,
    },
    /// Lets whoever comes to a site at which a probe stands be stopped there: sites to which hardly anybody comes. What to do with the thread is asked when it stands.
    Arrival {
        /// But for these, at which whoever comes is let pass.
        #[serde(serialize_with = "as_list", deserialize_with = "of_list")]
        but: Arc<[SiteId]>,
        /// Waits so long for somebody, at most.
        at_most: Duration,
    },
    /// Takes one of the threads that are off their processors right before an access, and watches what it is about to access until it gets one
    /// again. Nobody is stopped; which thread, and for how long at most, is asked when it is known which there are.
    Preempted,
    /// Watches a variable for who writes it. Nobody is stopped.
    Watch {
        /// The variable.
        variable: VariableId,
        /// For so long at most.
        at_most: Duration,
    },
    /// Has the kernel note who comes to any of these sites, and what it is about to access there. Nobody is stopped.
    Profile {
        /// The sites.
        #[serde(serialize_with = "as_list", deserialize_with = "of_list")]
        sites: Arc<[SiteId]>,
        /// For so long at most.
        at_most: Duration,
    },
    /// Does nothing.
    Rest {
        /// For so long.
        time: Duration,
    },
}

/// A thread that is off its processor, and is certain to make this access before anything else can happen to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Where it is about to access memory.
    pub site: SiteId,
    /// How long it is likely to be off.
    pub left: Duration,
}

/// What to do with a thread that has come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Then {
    /// Makes it stand before its access, while all others are watched.
    Hold {
        /// For so long at most.
        at_most: Duration,
        /// If nobody has come by then: watches for so long who uses the bytes when it has gone on.
        look: Duration,
    },
    /// Lets it go at once, and watches for so long at most who uses the bytes.
    Look(Duration),
    /// Lets it go.
    LetGo,
}

impl Then {
    /// For how long the thread stands at most, and for how long its bytes are watched then.
    #[must_use]
    pub const fn times(self) -> (Duration, Duration) {
        match self {
            Self::Hold { at_most, look } => (at_most, look),
            Self::Look(look) => (Duration::ZERO, look),
            Self::LetGo => (Duration::ZERO, Duration::ZERO),
        }
    }
}
