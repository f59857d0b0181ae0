//! Why a hit is not reported: a stable name for the statistics, a sentence for people.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::insn::Undetermined;

/// Why a hit is not a race, or not known to be one. Hits are counted under [`Reason::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Reason {
    /// The stalled thread hit its own watchpoint.
    SameThread,
    /// The hit belongs to another generation of the watchpoint, or came before or after.
    OutsideStall,
    /// The instruction or its bytes cannot be told.
    Undetermined(Undetermined),
    /// The stalled thread did not make its access when released (a signal, a jump, an exit).
    NotCompleted,
    /// The stalled thread was not held, and was not off its processor from before the watch until after the hit.
    RanOn,
    /// The stalled thread was not held, and a signal waited for it.
    SignalPending,
    /// The stalled thread was in a restartable sequence, which may be aborted.
    RestartableSequence,
    /// The watchpoint is wider than the accesses, which share no byte.
    NoOverlap,
    /// The accesses may share no byte: the address of one is not exact.
    OverlapUncertain,
    /// Neither access writes.
    NoWrite,
    /// One access is in code that was not analyzed.
    Unanalyzed,
    /// One access is in a memory routine that unanalyzed code called.
    UnanalyzedCaller,
    /// One access is in no known module.
    UnknownCode,
    /// Both accesses are atomic.
    BothAtomic,
    /// The compiler is known to lose the mark of such an access.
    UnknownAtomicity,
    /// One plain and one atomic access, which the user chose not to see.
    MixedIgnored,
    /// One access loads more than its code uses, and the other one touched only the rest.
    BytesUnused,
    /// One access copies a part of an object, with padding in which the other one's atomic lies.
    PaddingCopied,
}

/// Every reason with its stable name.
const NAMES: [(Reason, &str); 26] = [
    (Reason::SameThread, "same-thread"),
    (Reason::OutsideStall, "outside-stall"),
    (Reason::NotCompleted, "not-completed"),
    (Reason::RanOn, "ran-on"),
    (Reason::SignalPending, "signal-pending"),
    (Reason::RestartableSequence, "restartable-sequence"),
    (Reason::NoOverlap, "no-overlap"),
    (Reason::OverlapUncertain, "overlap-uncertain"),
    (Reason::NoWrite, "no-write"),
    (Reason::Unanalyzed, "unanalyzed"),
    (Reason::UnanalyzedCaller, "unanalyzed-caller"),
    (Reason::UnknownCode, "unknown-code"),
    (Reason::BothAtomic, "both-atomic"),
    (Reason::UnknownAtomicity, "unknown-atomicity"),
    (Reason::MixedIgnored, "mixed-ignored"),
    (Reason::BytesUnused, "bytes-unused"),
    (Reason::PaddingCopied, "padding-copied"),
    (
        Reason::Undetermined(Undetermined::Undecodable),
        "undetermined-undecodable",
    ),
    (
        Reason::Undetermined(Undetermined::Desync),
        "undetermined-desync",
    ),
    (
        Reason::Undetermined(Undetermined::OutsideCode),
        "undetermined-outside-code",
    ),
    (
        Reason::Undetermined(Undetermined::MaskUnknown),
        "undetermined-mask-unknown",
    ),
    (
        Reason::Undetermined(Undetermined::SizeUnknown),
        "undetermined-size-unknown",
    ),
    (
        Reason::Undetermined(Undetermined::DataDependent),
        "undetermined-data-dependent",
    ),
    (
        Reason::Undetermined(Undetermined::ControlTransfer),
        "undetermined-control-transfer",
    ),
    (
        Reason::Undetermined(Undetermined::Ambiguous),
        "undetermined-ambiguous",
    ),
    (
        Reason::Undetermined(Undetermined::NoMatch),
        "undetermined-no-match",
    ),
];

impl Reason {
    /// Every reason, for tables of counters.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|&(reason, _)| reason)
    }

    /// The stable name under which hits are counted; the same as the serialized form.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find_map(|&(reason, name)| (reason == self).then_some(name))
            .unwrap_or("undetermined")
    }
}

impl From<Undetermined> for Reason {
    fn from(reason: Undetermined) -> Self {
        Self::Undetermined(reason)
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.name().to_owned()
    }
}

/// A name that stands for no reason.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no reason for which hits are swallowed; the file may be from a newer gwp-race: update this one"
)]
pub struct UnknownReason(String);

impl TryFrom<String> for Reason {
    type Error = UnknownReason;

    fn try_from(text: String) -> Result<Self, UnknownReason> {
        NAMES
            .iter()
            .find_map(|&(reason, name)| (name == text).then_some(reason))
            .ok_or(UnknownReason(text))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Undetermined(reason) => return reason.fmt(f),
            Self::SameThread => "the stalled thread hit its own watchpoint",
            Self::OutsideStall => "the hit does not belong to the stall",
            Self::NotCompleted => "the stalled thread did not make its access when released",
            Self::RanOn => "the stalled thread may have run on before the other access",
            Self::SignalPending => "a signal waited for the stalled thread",
            Self::RestartableSequence => "the stalled thread was in a restartable sequence",
            Self::NoOverlap => "the accesses share no byte",
            Self::OverlapUncertain => "the accesses may share no byte",
            Self::NoWrite => "neither access writes",
            Self::Unanalyzed => "an access is in code without metadata about atomics",
            Self::UnanalyzedCaller => {
                "an access is in a memory routine that analyzed code is not known to have called"
            }
            Self::UnknownCode => "an access is in no known module",
            Self::BothAtomic => "both accesses are atomic",
            Self::UnknownAtomicity => "the compiler may have lost the mark of an atomic access",
            Self::MixedIgnored => "plain against atomic, which is ignored",
            Self::BytesUnused => "the shared bytes were loaded, but nothing uses them",
            Self::PaddingCopied => "the shared bytes are padding of what was copied",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Check that every reason has a name of its own, and comes back from it.
    #[test]
    fn names_come_back() {
        let names: HashSet<_> = Reason::all().map(Reason::name).collect();
        assert_eq!(names.len(), NAMES.len());
        for reason in Reason::all() {
            let json = serde_json::to_string(&reason).expect("a name serializes");
            assert_eq!(json, format!("\"{}\"", reason.name()));
            assert_eq!(
                serde_json::from_str::<Reason>(&json).expect("its own name"),
                reason
            );
            assert!(!reason.to_string().is_empty());
        }
        for reason in Undetermined::ALL {
            let name = Reason::from(reason).name();
            assert_eq!(name, format!("undetermined-{}", reason.name()));
        }
        assert!(serde_json::from_str::<Reason>("\"nonsense\"").is_err());
    }
}
