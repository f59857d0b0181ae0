//! What is waited for next, and what accesses of others are going to be watched for then.

use std::time::Duration;

use crate::hunt::strategy::{Unexplained, Wait};
use crate::kernel::perf::WatchKind;

/// How many of 256 clock samples watch for all accesses, where that has to be known before: that of a thread which is
/// about to read is for nothing then.
const ALL_ACCESSES: u8 = 85;

/// What is waited for next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Coming {
    /// A clock sample, for so long.
    Sample(Duration, WatchKind),
    /// Whoever comes to a site at which a probe stands, for so long.
    Arrival(Duration, WatchKind),
    /// A thread at a site.
    Site(Wait),
    /// Somebody who is off its processor already.
    Preempted(WatchKind),
    /// Nobody: it is watched who writes a variable.
    Writers(Unexplained),
}

impl Coming {
    /// A clock sample, for so long. It is unknown what is going to be watched; who writes is of interest in any case.
    pub(super) fn sample(time: Duration, random: &mut fastrand::Rng) -> Self {
        Self::Sample(time, kind_of_any(random))
    }

    /// The same of somebody who comes to a probe that stands.
    pub(super) fn arrival(time: Duration, random: &mut fastrand::Rng) -> Self {
        Self::Arrival(time, kind_of_any(random))
    }

    /// What the other threads' accesses are going to be watched for.
    pub(super) const fn kind(&self) -> WatchKind {
        match self {
            Self::Sample(_, kind) | Self::Arrival(_, kind) | Self::Preempted(kind) => *kind,
            Self::Site(wait) if wait.writes => WatchKind::ReadsAndWrites,
            Self::Site(_) | Self::Writers(_) => WatchKind::Writes,
        }
    }
}

/// What accesses are watched for where it is unknown who comes.
fn kind_of_any(random: &mut fastrand::Rng) -> WatchKind {
    if random.u8(..) < ALL_ACCESSES {
        WatchKind::ReadsAndWrites
    } else {
        WatchKind::Writes
    }
}
