//! The rules, in the order in which they are asked: the first that fails names the reason.

use serde::{Deserialize, Serialize};

use super::access::{Access, Analyzed, Context, Policy};
use super::bytes::{intersection, range};
use super::class::RaceClass;
use super::reach;
use super::reason::Reason;
use crate::insn::{AccessKind, ByteUse, ReadUse};
use crate::pcmeta::Atomicity;

/// A proven race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Race {
    /// Plain against plain, or plain against atomic.
    pub class: RaceClass,
    /// Of the stalled and of the racing access: a plain read that the compiler may have
    /// introduced, so that the source need not have this race.
    pub introduced_read: [bool; 2],
    /// Of both: what becomes of the shared bytes, where a load is not known to use any of them.
    pub doubtful: [Option<ByteUse>; 2],
    /// Run-time address and number of the bytes that both are known to access.
    pub overlap: (u64, u32),
}

/// What comes of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub enum Verdict {
    /// Evidence of a race.
    Race(Race),
    /// Counted under its reason.
    NotReported(Reason),
}

/// Judges a hit of `racing` while `stalled` waited.
#[must_use]
pub fn judge(stalled: &Access, racing: &Access, context: &Context, policy: &Policy) -> Verdict {
    match race(stalled, racing, context, policy) {
        Ok(race) => Verdict::Race(race),
        Err(reason) => Verdict::NotReported(reason),
    }
}

/// Why it is no race, where that does not depend on which bytes are used.
#[must_use]
pub fn refuted(
    stalled: &Access,
    racing: &Access,
    context: &Context,
    policy: &Policy,
) -> Option<Reason> {
    conflict(stalled, racing, context, policy).err()
}

/// What two accesses to the same bytes are to each other.
struct Conflict {
    class: RaceClass,
    overlap: (u64, u32),
    /// The stalled and the racing one.
    atomic: [Option<bool>; 2],
}

fn conflict(
    stalled: &Access,
    racing: &Access,
    context: &Context,
    policy: &Policy,
) -> Result<Conflict, Reason> {
    if context.same_thread {
        return Err(Reason::SameThread);
    }
    if !context.in_stall {
        return Err(Reason::OutsideStall);
    }
    if !context.completed {
        return Err(Reason::NotCompleted);
    }
    let overlap = overlap(stalled, racing, context.watch)?;
    if !stalled.kind.writes() && !racing.kind.writes() {
        return Err(Reason::NoWrite);
    }
    let stalled_atomic = is_atomic(stalled, policy)?;
    let racing_atomic = is_atomic(racing, policy)?;
    let class = match (stalled_atomic, racing_atomic) {
        (Some(true), Some(true)) => return Err(Reason::BothAtomic),
        (Some(false), Some(false)) => RaceClass::PlainPlain,
        // Whatever the other one is: one is plain.
        (None, Some(false)) | (Some(false), None) if policy.mixed => RaceClass::PlainAtomic,
        (None, _) | (_, None) => return Err(Reason::UnknownAtomicity),
        _ if policy.mixed => RaceClass::PlainAtomic,
        _ => return Err(Reason::MixedIgnored),
    };
    Ok(Conflict {
        class,
        overlap,
        atomic: [stalled_atomic, racing_atomic],
    })
}

fn race(
    stalled: &Access,
    racing: &Access,
    context: &Context,
    policy: &Policy,
) -> Result<Race, Reason> {
    let Conflict {
        class,
        overlap,
        atomic: [stalled_atomic, racing_atomic],
    } = conflict(stalled, racing, context, policy)?;
    let doubtful = [
        reach::doubtful(stalled, racing, context.watch)?,
        reach::doubtful(racing, stalled, context.watch)?,
    ];
    Ok(Race {
        class,
        introduced_read: [
            stalled_atomic != Some(true) && may_be_introduced(stalled, racing),
            racing_atomic != Some(true) && may_be_introduced(racing, stalled),
        ],
        doubtful,
        overlap,
    })
}

/// The bytes that both access. An access without an exact address is only known to touch some
/// watched byte: it overlaps the other for certain where that one covers the whole watch.
fn overlap(stalled: &Access, racing: &Access, watch: (u64, u32)) -> Result<(u64, u32), Reason> {
    match (stalled.address_exact, racing.address_exact) {
        (true, true) => intersection(range(stalled), range(racing)).ok_or(Reason::NoOverlap),
        (false, false) => Err(Reason::OverlapUncertain),
        (true, false) => certain_overlap(stalled, watch),
        (false, true) => certain_overlap(racing, watch),
    }
}

fn certain_overlap(exact: &Access, watch: (u64, u32)) -> Result<(u64, u32), Reason> {
    match intersection(range(exact), watch) {
        None => Err(Reason::NoOverlap),
        Some(common) if common == watch => Ok(watch),
        Some(_) => Err(Reason::OverlapUncertain),
    }
}

/// Whether an access is atomic; None where that was lost.
fn is_atomic(access: &Access, policy: &Policy) -> Result<Option<bool>, Reason> {
    let known = match access.atomicity {
        Atomicity::Atomic => Some(true),
        Atomicity::Plain => Some(false),
        Atomicity::Unknown => None,
    };
    match access.analyzed {
        Analyzed::Yes => Ok(known),
        // The loads and stores of a memory routine or the kernel are the caller's plain copy; what is
        // atomic in it says so itself.
        Analyzed::ForCaller {
            caller_analyzed: true,
        } => Ok(Some(known.unwrap_or(false))),
        Analyzed::No
        | Analyzed::ForCaller {
            caller_analyzed: false,
        } if policy.unanalyzed => Ok(Some(known.unwrap_or(false))),
        Analyzed::No => Err(Reason::Unanalyzed),
        Analyzed::ForCaller {
            caller_analyzed: false,
        } => Err(Reason::UnanalyzedCaller),
        Analyzed::Unknown => Err(Reason::UnknownCode),
    }
}

/// Whether the source may be without this plain read. A routine that copies is called by the
/// source, and an instruction that also stores stands for the source's own update.
fn may_be_introduced(read: &Access, other: &Access) -> bool {
    if read.kind != AccessKind::Read || matches!(read.analyzed, Analyzed::ForCaller { .. }) {
        return false;
    }
    match read.read_use {
        ReadUse::Proven => false,
        ReadUse::Unproven => true,
        // Some byte is the source's: if the other access writes all of them, that one too.
        ReadUse::ProvenInPart => {
            let covered = read.address_exact
                && other.address_exact
                && intersection(range(read), range(other)) == Some(range(read));
            !covered
        }
    }
}
