//! What becomes of races that were caught.

use crate::hunt::wire::Refuted;

/// What became of a race that was caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was reported; it is the Nth that was.
    Reported(u64),
    /// It was reported before.
    Repeated,
    /// An earlier run has found it: it was told, and counts for nothing.
    Known,
    /// The user does not want to hear of it: to everybody but the figures it is as if it had not been caught.
    Suppressed,
    /// Debug information shows that it is none.
    Refuted(Refuted),
}

/// A race was looked at.
#[derive(Clone, Copy, Debug)]
pub struct Explained {
    /// The process that it was caught in.
    pub pid: u32,
    /// CPU time that it took, ns.
    pub cpu_ns: u64,
    /// What became of it.
    pub fate: Fate,
}
