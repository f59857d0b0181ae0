//! What may be spent before anything was earned.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::kernel::process::nanos;

/// What one busy thread earns in so long is advanced to a program, with these as limits.
const ADVANCED: Duration = Duration::from_secs(1);
const MOST_ADVANCE: Duration = Duration::from_millis(40);
const MOST_ADVANCE_OF_CHILD: Duration = Duration::from_millis(2);

/// What a process has saved before it is watched, and what is known of it by then.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// So much, ns.
    pub most_ns: u64,
    /// For how long it is watched at most, ns.
    pub lasts_ns: u64,
    /// Processors that the process has kept busy lately.
    pub processors: f64,
}

#[cfg(test)]
impl Allowance {
    /// Of a process that keeps one processor busy, and is watched for a minute at most, for tests.
    pub(crate) fn usual(most: Duration) -> Self {
        Self {
            most_ns: nanos(most),
            lasts_ns: nanos(Duration::from_secs(60)),
            processors: 1.0,
        }
    }
}

/// Who is given an advance: what may be spent before anything was earned, so that the first samples are not put off.
#[derive(Clone, Copy, Debug)]
pub enum Advance {
    /// A program of which much is unknown.
    First,
    /// One that was forked by a program that is watched: there may be any number of these, and more is known by then.
    Child,
    /// One that has saved so much before it was watched. It begins with that, and earns nothing until it would have earned as much: so it costs no more
    /// than its share of what it uses meanwhile, or than this, where it uses so little that it could hardly earn a single stop.
    Saved(Allowance),
}

impl Advance {
    /// So much of a budget that is such a share of the CPU time, ns.
    pub(super) fn ns(self, share: f64) -> u64 {
        let earned = ADVANCED.mul_f64(share);
        nanos(match self {
            Self::First => earned.min(MOST_ADVANCE),
            Self::Child => earned.min(MOST_ADVANCE_OF_CHILD),
            Self::Saved(saved) => Duration::from_nanos(saved.most_ns).min(MOST_ADVANCE),
        })
    }

    /// What part of so many processors the program uses, and how many; and when it is over at the latest. Of whom nobody has said it, that is seen a bit later.
    pub(super) fn known(self, cpus: f64) -> (Option<(f64, f64)>, Option<Instant>) {
        let Self::Saved(saved) = self else {
            return (None, None);
        };
        let used = saved.processors;
        let ends = Instant::now().checked_add(Duration::from_nanos(saved.lasts_ns));
        (Some(((used / cpus).min(1.0), used)), ends)
    }
}
