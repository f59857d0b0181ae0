//! Which accesses race, as a table.

use crate::hunt::world::trace::{
    format::Operation,
    testing::{Deed, races_of},
};

use Deed::{Allocates, Does, Reads, ReadsAtomically, Writes, WritesAtomically};

const ACQUIRE: Operation = Operation::Acquire;
const RELEASE: Operation = Operation::Release;
const LOCK: Operation = Operation::Lock;
const SHARED: Operation = Operation::LockShared;
const UNLOCK: Operation = Operation::Unlock;
const STORE: Operation = Operation::StoreRelease;
const RELAXED_STORE: Operation = Operation::StoreRelaxed;
const RELAXED_LOAD: Operation = Operation::LoadRelaxed;

const fn fence(acquires: bool, releases: bool) -> Operation {
    Operation::Fence { acquires, releases }
}

const fn both(acquires: bool, releases: bool) -> Operation {
    Operation::ReadWrite { acquires, releases }
}

/// Objects that order threads.
const M: u64 = 0x100;
const N: u64 = 0x200;
/// The word that is accessed.
const X: u64 = 0x1000;

/// What threads do, one after the other, each with its number.
type Deeds<'a> = &'a [(usize, Deed)];

/// Check what orders two accesses, and what does not: for each thing that does, its broken twin.
#[test]
fn orders() {
    let table: [(&str, usize, Deeds<'_>); 33] = [
        ("nothing", 1, &[(0, Writes(X, 8)), (1, Reads(X, 8))]),
        ("two reads", 0, &[(0, Reads(X, 8)), (1, Reads(X, 8))]),
        ("one thread", 0, &[(0, Writes(X, 8)), (0, Reads(X, 8))]),
        (
            "both atomic",
            0,
            &[(0, WritesAtomically(X)), (1, ReadsAtomically(X))],
        ),
        (
            "one atomic",
            1,
            &[(0, WritesAtomically(X)), (1, Reads(X, 8))],
        ),
        (
            "neighbours in a word",
            0,
            &[(0, Writes(X, 4)), (1, Writes(X + 4, 4))],
        ),
        (
            "overlap at a border",
            1,
            &[(0, Writes(X + 4, 8)), (1, Writes(X + 8, 1))],
        ),
        (
            "mutex",
            0,
            &[
                (0, Does(M, LOCK)),
                (0, Writes(X, 8)),
                (0, Does(M, UNLOCK)),
                (1, Does(M, LOCK)),
                (1, Writes(X, 8)),
                (1, Does(M, UNLOCK)),
            ],
        ),
        (
            "two mutexes",
            1,
            &[
                (0, Does(M, LOCK)),
                (0, Writes(X, 8)),
                (0, Does(M, UNLOCK)),
                (1, Does(N, LOCK)),
                (1, Writes(X, 8)),
                (1, Does(N, UNLOCK)),
            ],
        ),
        (
            "after the mutex",
            1,
            &[
                (0, Does(M, LOCK)),
                (0, Does(M, UNLOCK)),
                (0, Writes(X, 8)),
                (1, Does(M, LOCK)),
                (1, Writes(X, 8)),
            ],
        ),
        (
            "a reader after a writer",
            0,
            &[
                (0, Does(M, LOCK)),
                (0, Writes(X, 8)),
                (0, Does(M, UNLOCK)),
                (1, Does(M, SHARED)),
                (1, Reads(X, 8)),
                (1, Does(M, UNLOCK)),
            ],
        ),
        (
            "a writer after readers",
            0,
            &[
                (0, Does(M, SHARED)),
                (0, Reads(X, 8)),
                (0, Does(M, UNLOCK)),
                (1, Does(M, LOCK)),
                (1, Writes(X, 8)),
                (1, Does(M, UNLOCK)),
            ],
        ),
        (
            "a reader who writes",
            1,
            &[
                (0, Does(M, SHARED)),
                (0, Writes(X, 8)),
                (0, Does(M, UNLOCK)),
                (1, Does(M, SHARED)),
                (1, Reads(X, 8)),
                (1, Does(M, UNLOCK)),
            ],
        ),
        (
            "release, acquire",
            0,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, STORE)),
                (1, Does(M, ACQUIRE)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "release, relaxed",
            1,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, STORE)),
                (1, Does(M, RELAXED_LOAD)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "relaxed, acquire",
            1,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, RELAXED_STORE)),
                (1, Does(M, ACQUIRE)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "a write after the release",
            1,
            &[
                (0, Does(M, STORE)),
                (0, Writes(X, 8)),
                (1, Does(M, ACQUIRE)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "another object",
            1,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, STORE)),
                (1, Does(N, ACQUIRE)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "a later store by another thread",
            1,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, STORE)),
                (2, Does(M, STORE)),
                (1, Does(M, ACQUIRE)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "a read-write of another thread between",
            0,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, STORE)),
                (2, Does(M, both(false, false))),
                (1, Does(M, ACQUIRE)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "a count that the last one acquires",
            0,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, both(false, true))),
                (1, Does(M, both(true, true))),
                (1, Writes(X, 8)),
            ],
        ),
        (
            "a relaxed count",
            1,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, both(false, false))),
                (1, Does(M, both(true, true))),
                (1, Writes(X, 8)),
            ],
        ),
        (
            "both fences",
            0,
            &[
                (0, Writes(X, 8)),
                (0, Does(0, fence(false, true))),
                (0, Does(M, RELAXED_STORE)),
                (1, Does(M, RELAXED_LOAD)),
                (1, Does(0, fence(true, false))),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "a fence that releases only",
            1,
            &[
                (0, Writes(X, 8)),
                (0, Does(0, fence(false, true))),
                (0, Does(M, RELAXED_STORE)),
                (1, Does(M, RELAXED_LOAD)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "a fence that acquires only",
            1,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, RELAXED_STORE)),
                (1, Does(M, RELAXED_LOAD)),
                (1, Does(0, fence(true, false))),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "a fence after the store",
            1,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, RELAXED_STORE)),
                (0, Does(0, fence(true, true))),
                (1, Does(M, RELAXED_LOAD)),
                (1, Does(0, fence(true, true))),
                (1, Reads(X, 8)),
            ],
        ),
        // A thread's beginning and end, a signal, a post, and a barrier are releases and acquires that add up.
        (
            "created",
            0,
            &[
                (0, Writes(X, 8)),
                (0, Does(2, RELEASE)),
                (1, Does(2, ACQUIRE)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "before it is joined",
            1,
            &[
                (1, Writes(X, 8)),
                (0, Reads(X, 8)),
                (1, Does(3, RELEASE)),
                (0, Does(3, ACQUIRE)),
            ],
        ),
        (
            "a barrier",
            0,
            &[
                (0, Writes(X, 8)),
                (1, Writes(X + 8, 8)),
                (0, Does(M, RELEASE)),
                (1, Does(M, RELEASE)),
                (0, Does(M, ACQUIRE)),
                (1, Does(M, ACQUIRE)),
                (0, Reads(X + 8, 8)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "two posts, the second one's wait",
            0,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, RELEASE)),
                (2, Does(M, RELEASE)),
                (1, Does(M, ACQUIRE)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "by way of a third thread",
            0,
            &[
                (0, Writes(X, 8)),
                (0, Does(M, STORE)),
                (2, Does(M, ACQUIRE)),
                (2, Does(N, STORE)),
                (1, Does(N, ACQUIRE)),
                (1, Reads(X, 8)),
            ],
        ),
        (
            "memory that is somebody else's by now",
            0,
            &[(0, Writes(X, 8)), (1, Allocates(X, 16)), (1, Writes(X, 8))],
        ),
        (
            "memory beside it",
            1,
            &[
                (0, Writes(X, 8)),
                (1, Allocates(X + 16, 16)),
                (1, Writes(X, 8)),
            ],
        ),
    ];
    for (name, races, deeds) in table {
        assert_eq!(races_of(deeds).len(), races, "{name}");
    }
}

/// Check that all pairs of sites are found at one address, each with how often and how near it was.
#[test]
fn all_pairs_are_found() {
    // The time of each deed, and its site, is its number.
    let found = races_of(&[
        (0, Writes(X, 8)),
        (0, Writes(X, 4)),
        (1, Reads(X, 8)),
        (1, Writes(X + 6, 1)),
    ]);
    let pairs: Vec<_> = found
        .iter()
        .map(|([one, other], seen)| (one.site, other.site, seen.nearest))
        .collect();
    assert_eq!(pairs, [(1, 3, 2), (1, 4, 3), (2, 3, 1)]);
    assert!(found.values().all(|seen| seen.times == 1));
}
