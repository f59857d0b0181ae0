//! The whole cross product of what can be known about a hit, against the rules written a second
//! time in another way: as the set of everything that speaks against a report.

use std::collections::BTreeSet;

use super::class::RaceClass;
use super::{Access, Analyzed, Context, Policy, Race, Reason, Verdict, judge};
use crate::insn::AccessKind::{Read, ReadWrite, Write};
use crate::insn::{AccessKind, ByteUse, ReadUse};
use crate::pcmeta::Atomicity;

const WATCH: (u64, u32) = (0x100, 8);
const KINDS: [AccessKind; 3] = [Read, Write, ReadWrite];
const ATOMICITIES: [Atomicity; 3] = [Atomicity::Atomic, Atomicity::Plain, Atomicity::Unknown];
const ANALYZED: [Analyzed; 5] = [
    Analyzed::Yes,
    Analyzed::No,
    Analyzed::ForCaller {
        caller_analyzed: true,
    },
    Analyzed::ForCaller {
        caller_analyzed: false,
    },
    Analyzed::Unknown,
];
const READ_USES: [ReadUse; 3] = [ReadUse::Proven, ReadUse::ProvenInPart, ReadUse::Unproven];
/// Ranges around the watch: equal, inside, across an edge, wider, next to it, far away.
const RANGES: [(u64, u32); 8] = [
    (0x100, 8),
    (0x100, 4),
    (0x104, 4),
    (0x105, 1),
    (0xfc, 8),
    (0xf0, 32),
    (0x108, 8),
    (0xdead_0000, 1),
];

fn base() -> Access {
    Access {
        pc: 0x40_0000,
        address: WATCH.0,
        size: WATCH.1,
        kind: Write,
        atomicity: Atomicity::Plain,
        analyzed: Analyzed::Yes,
        read_use: ReadUse::Proven,
        bytes: ByteUse::UNKNOWN,
        address_exact: true,
    }
}

const HIT: Context = Context {
    watch: WATCH,
    same_thread: false,
    in_stall: true,
    completed: true,
};

/// Everything that speaks against reporting the hit.
fn objections(a: &Access, b: &Access, context: &Context, policy: &Policy) -> BTreeSet<Reason> {
    let mut objections = BTreeSet::new();
    let mut object = |objection: bool, reason: Reason| {
        if objection {
            objections.insert(reason);
        }
    };
    object(context.same_thread, Reason::SameThread);
    object(!context.in_stall, Reason::OutsideStall);
    object(!context.completed, Reason::NotCompleted);

    // Bytes are compared one by one. The bytes of an access without an exact address may be any
    // of the watch's, and at least one of them.
    let bytes = |access: &Access| -> BTreeSet<u64> {
        (access.address..access.address + u64::from(access.size)).collect()
    };
    let watched: BTreeSet<u64> = (WATCH.0..WATCH.0 + u64::from(WATCH.1)).collect();
    match (a.address_exact, b.address_exact) {
        (true, true) => object(bytes(a).is_disjoint(&bytes(b)), Reason::NoOverlap),
        (false, false) => object(true, Reason::OverlapUncertain),
        _ => {
            let exact = bytes(if a.address_exact { a } else { b });
            let possible = watched.iter().filter(|&byte| exact.contains(byte)).count();
            object(possible == 0, Reason::NoOverlap);
            object(
                possible != 0 && possible != watched.len(),
                Reason::OverlapUncertain,
            );
        }
    }

    object(a.kind == Read && b.kind == Read, Reason::NoWrite);
    for side in [a, b] {
        let (tolerated, reason) = match side.analyzed {
            Analyzed::Yes
            | Analyzed::ForCaller {
                caller_analyzed: true,
            } => continue,
            Analyzed::No => (policy.unanalyzed, Reason::Unanalyzed),
            Analyzed::ForCaller {
                caller_analyzed: false,
            } => (policy.unanalyzed, Reason::UnanalyzedCaller),
            Analyzed::Unknown => (false, Reason::UnknownCode),
        };
        object(!tolerated, reason);
    }
    let lost = |s: &Access| s.atomicity == Atomicity::Unknown && s.analyzed == Analyzed::Yes;
    let atomic = |s: &Access| s.atomicity == Atomicity::Atomic;
    // Beside a plain access it does not matter which the other one was.
    let plain = |s: &Access| !lost(s) && s.atomicity != Atomicity::Atomic;
    let matters = !policy.mixed || !(plain(a) || plain(b));
    object((lost(a) || lost(b)) && matters, Reason::UnknownAtomicity);
    object(atomic(a) && atomic(b), Reason::BothAtomic);
    object(
        atomic(a) != atomic(b) && !policy.mixed,
        Reason::MixedIgnored,
    );
    objections
}

/// Checks one combination: a race where nothing speaks against it, otherwise the first reason.
fn check(a: &Access, b: &Access, context: &Context, policy: &Policy) -> Option<Race> {
    let objections = objections(a, b, context, policy);
    let place = || format!("{a:?} {b:?} {context:?} {policy:?} {objections:?}");
    match judge(a, b, context, policy) {
        Verdict::Race(race) => {
            assert!(objections.is_empty(), "{}", place());
            let lost =
                |s: &Access| s.atomicity == Atomicity::Unknown && s.analyzed == Analyzed::Yes;
            let plain = [a, b].map(|side| side.atomicity != Atomicity::Atomic && !lost(side));
            let expected = if plain == [true, true] {
                RaceClass::PlainPlain
            } else {
                RaceClass::PlainAtomic
            };
            assert_eq!(race.class, expected, "{}", place());
            Some(race)
        }
        Verdict::NotReported(reason) => {
            assert!(objections.contains(&reason), "{reason:?}: {}", place());
            // What is asked first names the reason, except that both sides are asked whether
            // they were analyzed, the stalled one first.
            let rank = |reason: &Reason| match reason {
                Reason::Unanalyzed | Reason::UnanalyzedCaller | Reason::UnknownCode => {
                    Reason::Unanalyzed
                }
                other => *other,
            };
            let first = objections.iter().map(rank).min();
            assert_eq!(Some(rank(&reason)), first, "{}", place());
            None
        }
    }
}

fn sides() -> impl Iterator<Item = Access> {
    KINDS.into_iter().flat_map(|kind| {
        ATOMICITIES.into_iter().flat_map(move |atomicity| {
            ANALYZED.into_iter().flat_map(move |analyzed| {
                [true, false].into_iter().map(move |address_exact| Access {
                    kind,
                    atomicity,
                    analyzed,
                    address_exact,
                    ..base()
                })
            })
        })
    })
}

fn policies() -> [Policy; 4] {
    [(true, false), (true, true), (false, false), (false, true)]
        .map(|(mixed, unanalyzed)| Policy { mixed, unanalyzed })
}

/// Check every combination of kinds, atomicity, analysis, exactness, context and policy.
#[test]
fn every_combination() {
    let mut races = 0;
    let mut total = 0;
    for a in sides() {
        for b in sides() {
            for bits in 0..8u8 {
                let context = Context {
                    same_thread: bits & 1 != 0,
                    in_stall: bits & 2 != 0,
                    completed: bits & 4 != 0,
                    ..HIT
                };
                for policy in policies() {
                    total += 1;
                    races += u32::from(check(&a, &b, &context, &policy).is_some());
                }
            }
        }
    }
    assert_eq!(total, 90 * 90 * 8 * 4);
    assert!(races > 1_000, "{races} of {total}");
}

/// Check every pair of ranges, exact or not, and that the overlap is the shared bytes.
#[test]
fn every_pair_of_ranges() {
    for a_range in RANGES {
        for b_range in RANGES {
            for exact in [(true, true), (true, false), (false, true), (false, false)] {
                let (address, size) = a_range;
                let a = Access {
                    address,
                    size,
                    address_exact: exact.0,
                    ..base()
                };
                let (address, size) = b_range;
                let b = Access {
                    address,
                    size,
                    address_exact: exact.1,
                    ..base()
                };
                let Some(race) = check(&a, &b, &HIT, &Policy::default()) else {
                    continue;
                };
                assert!(race.overlap.1 > 0);
                if exact == (true, true) {
                    let first = a.address.max(b.address);
                    let end = (a.address + u64::from(a.size)).min(b.address + u64::from(b.size));
                    assert_eq!(
                        race.overlap,
                        (first, u32::try_from(end - first).unwrap_or(0))
                    );
                } else {
                    assert_eq!(race.overlap, WATCH);
                }
            }
        }
    }
}

/// Check which reads are said to be possibly the compiler's: plain loads without proof, and
/// loads proven in part against a write that leaves some of their bytes alone.
#[test]
fn introduced_reads() {
    for kind in KINDS {
        for atomicity in [Atomicity::Atomic, Atomicity::Plain] {
            for analyzed in [
                Analyzed::Yes,
                Analyzed::ForCaller {
                    caller_analyzed: true,
                },
            ] {
                for read_use in READ_USES {
                    for (address, size) in RANGES.into_iter().take(6) {
                        let read = Access {
                            kind,
                            atomicity,
                            analyzed,
                            read_use,
                            ..base()
                        };
                        let write = Access {
                            address,
                            size,
                            ..base()
                        };
                        let whole =
                            size >= 8 && address <= 0x100 && address + u64::from(size) >= 0x108;
                        let expected = kind == Read
                            && atomicity == Atomicity::Plain
                            && analyzed == Analyzed::Yes
                            && match read_use {
                                ReadUse::Proven => false,
                                ReadUse::ProvenInPart => !whole,
                                ReadUse::Unproven => true,
                            };
                        let race = |a: &Access, b: &Access| {
                            check(a, b, &HIT, &Policy::default())
                                .expect("plain write, shared bytes")
                        };
                        assert_eq!(race(&read, &write).introduced_read, [expected, false]);
                        assert_eq!(race(&write, &read).introduced_read, [false, expected]);
                    }
                }
            }
        }
    }
}

/// Check that ranges at the top of the address space neither wrap nor panic.
#[test]
fn top_of_the_address_space() {
    let top = Access {
        address: u64::MAX - 3,
        size: 8,
        ..base()
    };
    let low = Access {
        address: 0,
        size: 4,
        ..base()
    };
    assert_eq!(
        judge(&top, &low, &HIT, &Policy::default()),
        Verdict::NotReported(Reason::NoOverlap)
    );
    assert!(matches!(
        judge(&top, &top, &HIT, &Policy::default()),
        Verdict::Race(_)
    ));
}
