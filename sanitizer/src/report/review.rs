//! A finding looked at once more, with debug information: what the tracer could not know of it. Types tell which
//! bytes of a result the source has and what is padding, and line tables which instructions were made of several.

use super::doubt::Doubt;
use super::finding::{Finding, RaceClass, SideFacts};
use crate::insn::ByteUse;
use crate::symbols::{FunctionResult, Held, StackSnapshot, Stopped, Symbolizer};
use crate::verdict::Reason;

/// What debug information says of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Facts {
    /// The instruction belongs to no one place of the source; None where that is not known, or of no interest.
    of_no_place: Option<bool>,
    /// Where its function returns what.
    result: Option<FunctionResult>,
    /// What its variables have at the bytes that both share.
    held: Held,
    /// What they have where it copies these bytes to.
    destination: Held,
}

/// Looks at what speaks against a finding; what is left of it, first of the stalled side. `mixed`: whether races of a
/// plain and an atomic access are wanted.
///
/// # Errors
/// The reason for which it is no race.
pub fn review(
    symbolizer: &Symbolizer,
    finding: &Finding,
    mixed: bool,
) -> Result<[Option<Doubt>; 2], Reason> {
    let sides = [&finding.stalled, &finding.racing];
    let is_doubtful = sides.iter().any(|side| side.doubtful.is_some());
    let shared = shared(finding);
    let facts = sides.map(|side| {
        let mut facts = Facts::default();
        if side.may_be_merged {
            facts.of_no_place = symbolizer.is_of_no_place(side.pc);
        }
        if is_doubtful {
            facts.result = symbolizer.result_at(side.pc);
            let stack = StackSnapshot {
                base: side.stack_base,
                bytes: side.stack.clone(),
            };
            let stopped = Stopped {
                pc: side.pc,
                regs: &side.regs,
                stack: &stack,
            };
            facts.held = symbolizer.held_at(stopped, shared);
            let of_side = shared.0.checked_sub(side.address);
            if let Some((copy, first)) = side.copied_to.zip(of_side) {
                let bytes = (copy.address.wrapping_add(first), shared.1);
                let stored = Stopped {
                    pc: copy.stored,
                    ..stopped
                };
                facts.destination = symbolizer
                    .held_at(stopped, bytes)
                    .and(symbolizer.held_at(stored, bytes));
            }
        }
        facts
    });
    weigh(finding, facts, mixed)
}

/// The bytes that both accesses touch; those that were watched where they share none for certain.
fn shared(finding: &Finding) -> (u64, u32) {
    let end = |side: &SideFacts| side.address.saturating_add(side.size.into());
    let start = finding.stalled.address.max(finding.racing.address);
    let end = end(&finding.stalled).min(end(&finding.racing));
    match end
        .checked_sub(start)
        .and_then(|len| u32::try_from(len).ok())
    {
        Some(len) if len > 0 => (start, len),
        _ => (finding.watch_address, finding.watch_len),
    }
}

fn weigh(finding: &Finding, facts: [Facts; 2], mixed: bool) -> Result<[Option<Doubt>; 2], Reason> {
    let sides = [&finding.stalled, &finding.racing];
    let merged = facts.map(|facts| facts.of_no_place == Some(true));
    let atomic = [sides[0], sides[1]].map(|side| side.atomic || side.mark_may_be_lost);
    // An access that may be atomic is no evidence beside one that is; nor beside a plain one, for who does not want
    // such races. Of two that may have been merged each is plain as a rule.
    let [first, second] = [0, 1].map(|i| (atomic[i], atomic[i] || merged[i]));
    if first.0 && second.1 || second.0 && first.1 || !mixed && (first.1 || second.1) {
        return Err(Reason::UnknownAtomicity);
    }
    let mut doubts = [None; 2];
    for (i, doubt) in doubts.iter_mut().enumerate() {
        let (side, other) = (sides[i], sides[1 - i]);
        if let Some(bytes) = &side.doubtful {
            *doubt = of_bytes(
                bytes,
                facts[i],
                other.atomic && facts[1 - i].held.is_atomic(),
            )?;
        } else if side.mark_may_be_lost {
            *doubt = Some(Doubt::Mark);
        } else if side.may_be_merged
            && (merged[i]
                || facts[i].of_no_place.is_none() && finding.class == RaceClass::PlainAtomic)
        {
            *doubt = Some(Doubt::Merged);
        }
    }
    Ok(doubts)
}

/// What becomes of bytes that are shared with the other access. `of_an_atomic`: that is atomic, and so is the
/// object that has them, by its type.
fn of_bytes(bytes: &ByteUse, facts: Facts, of_an_atomic: bool) -> Result<Option<Doubt>, Reason> {
    let (in_result, in_vectors) = match facts.result {
        Some(result) if bytes.handed_back(result.general) != 0 => return Ok(None),
        // Compilers leave no load without a use.
        Some(FunctionResult {
            general: 0,
            in_vectors: false,
        }) if bytes.only_returned => return Ok(Some(Doubt::Unclear)),
        Some(result) => (0, result.in_vectors),
        None => (bytes.handed_back(u16::MAX), true),
    };
    let returned_in_vectors = if in_vectors {
        bytes.returned_in_vectors
    } else {
        0
    };
    let handed_over = bytes.passed | in_result | returned_in_vectors;
    if bytes.copied != 0 {
        // Nothing but a copy of bytes has an atomic object among them; the copy of a part of an object has its padding, which
        // nobody looks at in the copy.
        let is_padding = of_an_atomic && facts.held.is_padding() || facts.destination.is_padding();
        return if facts.held.is_member() || facts.held.keeps_padding {
            Ok(None)
        } else if is_padding && bytes.unclear | handed_over == 0 {
            Err(Reason::PaddingCopied)
        } else {
            Ok(Some(Doubt::Padding))
        };
    }
    if bytes.unclear != 0 {
        return Ok(Some(Doubt::Unclear));
    }
    if handed_over == 0 {
        return Err(Reason::BytesUnused);
    }
    Ok(Some(Doubt::BeyondType))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn finding(of_the_stalled: impl FnOnce(&mut SideFacts), racing_is_atomic: bool) -> Finding {
        let mut finding = sample::finding();
        finding.racing.atomic = racing_is_atomic;
        if racing_is_atomic {
            finding.class = RaceClass::PlainAtomic;
        }
        of_the_stalled(&mut finding.stalled);
        finding
    }

    fn placed(of_no_place: [Option<bool>; 2]) -> [Facts; 2] {
        of_no_place.map(|of_no_place| Facts {
            of_no_place,
            ..Facts::default()
        })
    }

    const ATOMIC: Held = Held {
        atomic: true,
        member: false,
        padding: false,
        unknown: false,
        keeps_padding: false,
    };
    const PADDING: Held = Held {
        atomic: false,
        padding: true,
        ..ATOMIC
    };
    const MEMBER: Held = Held {
        atomic: false,
        member: true,
        ..ATOMIC
    };

    fn returned(bytes: std::ops::Range<usize>) -> ByteUse {
        let mut found = ByteUse::default();
        for byte in bytes {
            found.returned[byte] = 1 << byte;
        }
        found
    }

    /// Check that a merged instruction is no evidence beside what is atomic, and is with a note beside anything else.
    #[test]
    fn merged() {
        let merged = |side: &mut SideFacts| side.may_be_merged = true;
        let noted = Ok([Some(Doubt::Merged), None]);
        for (atomic, of_no_place, expected) in [
            (true, Some(true), Err(Reason::UnknownAtomicity)),
            (true, Some(false), Ok([None, None])),
            (true, None, noted),
            (false, Some(true), noted),
            (false, Some(false), Ok([None, None])),
            (false, None, Ok([None, None])),
        ] {
            let found = weigh(&finding(merged, atomic), placed([of_no_place, None]), true);
            assert_eq!(found, expected, "{atomic} {of_no_place:?}");
        }
        let mut both = finding(merged, false);
        both.racing.may_be_merged = true;
        let found = weigh(&both, placed([Some(true); 2]), true);
        assert_eq!(found, Ok([Some(Doubt::Merged); 2]));
        let unwanted = weigh(&finding(merged, false), placed([Some(true), None]), false);
        assert_eq!(unwanted, Err(Reason::UnknownAtomicity));
        let lost = finding(|side| side.mark_may_be_lost = true, false);
        let found = weigh(&lost, placed([None; 2]), true);
        assert_eq!(found, Ok([Some(Doubt::Mark), None]));
        let found = weigh(&lost, placed([None, Some(true)]), true);
        assert_eq!(found, Err(Reason::UnknownAtomicity));
    }

    /// Check that the function's type decides about what it returns, and where it is not known the note.
    #[test]
    fn results() {
        let of = |bytes: &ByteUse, general: Option<u16>, of_an_atomic| {
            let result = general.map(|general| FunctionResult {
                general,
                in_vectors: false,
            });
            let facts = Facts {
                result,
                ..Facts::default()
            };
            of_bytes(bytes, facts, of_an_atomic)
        };
        let noted = Ok(Some(Doubt::BeyondType));
        assert_eq!(
            of(&returned(2..4), Some(0b11), false),
            Err(Reason::BytesUnused)
        );
        assert_eq!(of(&returned(1..2), Some(0b11), true), Ok(None));
        assert_eq!(of(&returned(2..4), None, false), noted);
        assert_eq!(of(&returned(2..4), None, true), noted);
        assert_eq!(of(&returned(0..4), None, true), noted);
        let sunk = ByteUse {
            only_returned: true,
            ..returned(2..4)
        };
        assert_eq!(of(&sunk, Some(0), true), Ok(Some(Doubt::Unclear)));
        assert_eq!(of(&sunk, Some(0b11), true), Err(Reason::BytesUnused));
        let passed = ByteUse {
            passed: 0xf0,
            ..ByteUse::default()
        };
        assert_eq!(of(&passed, Some(0), false), noted);
        let vectors = ByteUse {
            returned_in_vectors: 0xf0,
            ..ByteUse::default()
        };
        assert_eq!(of(&vectors, Some(0), false), Err(Reason::BytesUnused));
        assert_eq!(of(&vectors, None, false), noted);
        let unclear = ByteUse {
            unclear: 0xf0,
            ..ByteUse::default()
        };
        assert_eq!(of(&unclear, Some(0), true), Ok(Some(Doubt::Unclear)));
    }

    /// Check that copied bytes are evidence, with a note unless they are known to be a member, and none only where they are
    /// padding for the one and an atomic object for the other.
    #[test]
    fn copies() {
        let copied = ByteUse {
            copied: 1 << 5,
            ..ByteUse::default()
        };
        let of = |held, of_an_atomic| {
            let facts = Facts {
                held,
                ..Facts::default()
            };
            of_bytes(&copied, facts, of_an_atomic)
        };
        let noted = Ok(Some(Doubt::Padding));
        for of_an_atomic in [false, true] {
            assert_eq!(of(Held::default(), of_an_atomic), noted);
            assert_eq!(of(MEMBER, of_an_atomic), Ok(None));
            let both = Held {
                padding: true,
                ..MEMBER
            };
            assert_eq!(of(both, of_an_atomic), noted);
            let rust = Held {
                keeps_padding: true,
                ..Held::default()
            };
            assert_eq!(of(rust, of_an_atomic), Ok(None));
        }
        assert_eq!(of(PADDING, false), noted);
        assert_eq!(of(PADDING, true), Err(Reason::PaddingCopied));
        assert_eq!(of(ATOMIC, true), Ok(None));
        let into = |held, destination| {
            let facts = Facts {
                held,
                destination,
                ..Facts::default()
            };
            of_bytes(&copied, facts, false)
        };
        assert_eq!(into(Held::default(), PADDING), Err(Reason::PaddingCopied));
        let either = Held {
            padding: true,
            ..ATOMIC
        };
        assert_eq!(into(either, PADDING), Err(Reason::PaddingCopied));
        assert_eq!(into(Held::default(), MEMBER), noted);
        assert_eq!(into(Held::default(), either), noted);
        assert_eq!(into(MEMBER, PADDING), Ok(None));
    }

    /// Check which bytes are shared.
    #[test]
    fn overlaps() {
        let mut finding = sample::finding();
        (finding.watch_address, finding.watch_len) = (0x1000, 8);
        (finding.stalled.address, finding.stalled.size) = (0x1000, 8);
        (finding.racing.address, finding.racing.size) = (0x1005, 1);
        assert_eq!(shared(&finding), (0x1005, 1));
        finding.racing.address = 0x2000;
        assert_eq!(shared(&finding), (0x1000, 8));
    }
}
