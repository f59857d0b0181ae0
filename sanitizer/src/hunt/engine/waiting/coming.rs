//! What is waited for next, and what accesses of others are going to be watched for then.

use std::time::Duration;

use crate::hunt::engine::rig::Rig;
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

    /// Somebody who is off its processor. To make the events ready for the other kind of accesses takes longer than most of them are off, so
    /// they are mostly taken as they are.
    pub(super) fn preempted(rig: &mut Rig, random: &mut fastrand::Rng) -> Self {
        /// How many of 256 do not.
        const CHANGES: u8 = 32;
        let kinds = [WatchKind::ReadsAndWrites, WatchKind::Writes];
        let present = kinds
            .into_iter()
            .find(|kind| rig.arming.watchpoints().are_for(*kind));
        let present = present.filter(|_| random.u8(..) >= CHANGES);
        Self::Preempted(present.unwrap_or_else(|| kind_of_any(random)))
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
