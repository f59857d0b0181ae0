//! What came of what a strategy has proposed.

use std::time::Duration;

/// Two threads use the same bytes, and at least one of them writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The address behind the other access's instruction.
    pub behind: u64,
    /// From an access at the site to the first one at that place.
    pub distance: Duration,
}

/// What came of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No thread came to the site in time.
    NotReached,
    /// Threads came there, and were let pass: they held locks for which others had waited.
    Held,
    /// Threads come there all the time, and none could be stopped.
    TooOften,
    /// The access was not worth a stall: its own stack, thread-local, not decodable.
    Unsuitable,
    /// A thread came there, and let go: only it is known to use what it was to access.
    KnownPrivate,
    /// A thread came there, and was stalled for what it was to access next: that was worth more.
    Beside,
    /// Nobody else touched the bytes.
    Quiet,
    /// The same, but others waited for a lock that the stalled thread held: of those nobody could.
    Locked,
    /// After such a stall: another thread did.
    Shared(Conflict),
    /// After such a stall: its own thread did again and again, and nobody else.
    Private,
    /// The same, and so did nobody else.
    Unused,
    /// Whoever else accessed the bytes could not be seen: the watchpoints were for other accesses.
    Blind,
    /// Somebody did; so long after the stall had begun.
    Hit(Conflict),
    /// Somebody did, at a place of which that is known.
    Repeat,
}

impl Outcome {
    /// Its name in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotReached => "not-reached",
            Self::Held => "held",
            Self::TooOften => "too-often",
            Self::Unsuitable => "unsuitable",
            Self::KnownPrivate => "known-private",
            Self::Beside => "beside",
            Self::Quiet => "quiet",
            Self::Locked => "locked",
            Self::Shared(_) => "shared",
            Self::Private => "private",
            Self::Unused => "unused",
            Self::Blind => "blind",
            Self::Hit(_) => "hit",
            Self::Repeat => "repeat",
        }
    }
}
