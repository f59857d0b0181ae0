//! How locks stand in memory that tell who holds them, on x86-64: the mutexes of glibc (`struct __pthread_mutex_s`,
//! sysdeps/x86/nptl/bits/struct_mutex.h, sysdeps/nptl/bits/thread-shared-types.h; the kinds in nptl/pthreadP.h) and its read-write locks while they are held for writing
//! (`struct __pthread_rwlock_arch_t`, sysdeps/x86/nptl/bits/struct_rwlock.h; nptl/pthread_rwlock_common.c), and the mutexes of musl that are recursive, check for
//! errors, are robust or inherit priorities (src/internal/pthread_impl.h, src/thread/pthread_mutex_trylock.c). Those of C++ are made of these.
//!
//! All fields of a lock have to be as they are while it is held: other data does not look so by chance, but for a copy that was made of a lock while it was held. Locks that the thread's
//! own list leads to cannot be mistaken even so.

use crate::report::finding::LockKind;

/// The bits of a lock word that are its owner's id (`FUTEX_TID_MASK` of include/uapi/linux/futex.h).
pub const OWNER: u32 = 0x3fff_ffff;

/// Threads that may wait for a lock, or for a condition with it: `PID_MAX_LIMIT` of include/linux/threads.h.
const MOST_THREADS: u32 = 1 << 22;

/// How a lock says that a thread holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// By its fields.
    Itself,
    /// By its fields, and the list of what the thread holds leads to it: the field `LAST` is the address of a word that has the address of the field `NEXT`, perhaps with the lowest bit set.
    InList,
}

/// The bytes of a lock before the fields that link it with others.
pub const LAST: u64 = 24;
pub const NEXT: u64 = 32;

/// The lock around a word that is a thread's id, but for the two highest bits, if this is one that says that the thread holds it: where in the bytes it begins, what it is and how it says so. The
/// first of the bytes has an address that is a multiple of eight.
pub fn around(bytes: &[u8], word: usize, id: u32) -> Option<(usize, LockKind, Says)> {
    type Form = (usize, LockKind, fn(&[u8], u32) -> Option<Says>);
    const FORMS: [Form; 3] = [
        (8, LockKind::Mutex, is_mutex),
        (4, LockKind::Mutex, is_mutex_of_musl),
        (24, LockKind::Rwlock, is_rwlock),
    ];
    FORMS.into_iter().find_map(|(before, kind, held)| {
        let start = word.checked_sub(before)?;
        let lock = bytes.get(start..).filter(|_| start.is_multiple_of(8))?;
        Some((start, kind, held(lock, id)?))
    })
}

/// Bytes of a read-write lock of either library, which has no more than a mutex.
pub const RWLOCK: u64 = 56;

/// Bytes of the word, the first one of a read-write lock of glibc or musl, that changes whenever somebody takes or releases it for reading.
pub const READERS: u8 = 4;

/// Whether a lock that is held for reading may begin with these bytes: most do not.
pub fn may_be_readers(bytes: &[u8]) -> bool {
    let readers = words::<1>(bytes).map(|[readers]| readers & !WAITERS);
    readers.is_some_and(|readers| (1..=MOST_THREADS << 3).contains(&readers))
}

/// Where musl notes that somebody waits, beside how many readers there are.
const WAITERS: u32 = 1 << 31;

/// Whether bytes look like a read-write lock that one or more threads hold for reading: of glibc, or of musl (`_rw_lock`, `_rw_waiters` and `_rw_shared` of src/internal/pthread_impl.h).
/// Much else does.
pub fn may_be_held_for_reading(bytes: &[u8]) -> bool {
    let Some(lock) = words::<14>(bytes) else {
        return false;
    };
    let [readers, writers, phase, writing, rest @ ..] = lock;
    let [.., flags, last] = lock;
    // The phase of readers, and how many they are.
    let of_glibc = readers & 1 == 0
        && (1..MOST_THREADS).contains(&(readers >> 3))
        && writers <= MOST_THREADS
        && matches!(phase, 0 | 2)
        && writing <= 3
        && rest[..8] == [0; 8]
        && flags <= MOST_FLAGS
        && last == 0;
    let of_musl = (1..=MOST_THREADS).contains(&(readers & !WAITERS))
        && writers <= MOST_THREADS
        && lock[2..] == [0; 12];
    of_glibc || of_musl
}

/// The highest preference of a read-write lock (`PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`).
const MOST_FLAGS: u32 = 2;

/// So many words.
fn words<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.get(..4 * N)?.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

const fn pointer(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

fn is_mutex(bytes: &[u8], id: u32) -> Option<Says> {
    const RECURSIVE: u32 = 1;
    const ADAPTIVE: u32 = 3;
    const ROBUST: u32 = 0x10;
    const INHERITS: u32 = 0x20;
    const HAS_CEILING: u32 = 0x40;
    /// Other processes hold it, too, whose threads may have this id in a pid namespace of their own.
    const SHARED: u32 = 0x80;
    const ELIDED: u32 = 0x100;
    const NOT_ELIDED: u32 = 0x200;
    /// `PTHREAD_MUTEX_PRIO_CEILING_MASK`: above it the ceiling.
    const BELOW_CEILING: u32 = (1 << 19) - 1;
    let [
        lock,
        depth,
        owner,
        users,
        kind,
        tries,
        last,
        last_high,
        next,
        next_high,
    ] = words(bytes)?;
    let behaviour = kind & 3;
    let protocol = kind & !(3 | SHARED | ELIDED | NOT_ELIDED);
    let is_locked = match protocol {
        0 => matches!(lock, 1 | 2),
        ROBUST | INHERITS | 0x30 => lock & OWNER == id,
        HAS_CEILING => matches!(lock & BELOW_CEILING, 1 | 2),
        _ => false,
    };
    let links = [pointer(last, last_high), pointer(next, next_high)];
    let are_links = match protocol & ROBUST {
        0 => links == [0, 0],
        _ => !links.contains(&0),
    };
    let is_depth = match behaviour {
        RECURSIVE => depth >= 1,
        _ => depth <= 1,
    };
    let may_try = behaviour == ADAPTIVE || kind & ELIDED != 0;
    let says = match protocol & ROBUST {
        0 => Says::Itself,
        _ => Says::InList,
    };
    let is_held = owner == id
        && is_locked
        && are_links
        && is_depth
        && (1..=MOST_THREADS).contains(&users)
        && (tries == 0 || may_try)
        && (kind & SHARED == 0 || says == Says::InList);
    is_held.then_some(says)
}

fn is_mutex_of_musl(bytes: &[u8], id: u32) -> Option<Says> {
    const SHARED: u32 = 128;
    const MOST_KIND: u32 = 15;
    let [
        kind,
        lock,
        waiters,
        unused,
        _,
        _,
        last,
        last_high,
        next,
        next_high,
    ] = words(bytes)?;
    let kind = kind & !SHARED;
    let is_link = |link: u64| link != 0 && link.is_multiple_of(8);
    let is_held = (1..=MOST_KIND).contains(&kind)
        && kind & 3 != 3
        && lock & OWNER == id
        && waiters <= MOST_THREADS
        && unused == 0
        && is_link(pointer(last, last_high))
        && is_link(pointer(next, next_high));
    is_held.then_some(Says::InList)
}

fn is_rwlock(bytes: &[u8], id: u32) -> Option<Says> {
    /// `PTHREAD_RWLOCK_WRPHASE` and `PTHREAD_RWLOCK_WRLOCKED`.
    const WRITING: u32 = 3;
    let [
        readers,
        writers,
        phase,
        writing,
        first,
        second,
        writer,
        shared,
        elision,
        third,
        fourth,
        fifth,
        flags,
    ] = words(bytes)?;
    let is_held = writer == id
        && readers & WRITING == WRITING
        && readers >> 3 <= MOST_THREADS
        && writers <= MOST_THREADS
        // A futex that is 1 while a writer has the lock, and 2 more while it is waited for.
        && [phase, writing].iter().all(|futex| matches!(futex, 1 | 3))
        && [first, second, shared, elision, third, fourth, fifth] == [0; 7]
        && flags <= MOST_FLAGS;
    is_held.then_some(Says::Itself)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u32 = 41_234;

    fn told(words: &[u32], id: u32) -> Vec<(usize, LockKind)> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let places = 0..words.len();
        let found = places.filter(|&place| words[place] & OWNER == id);
        let mut found: Vec<_> = found
            .filter_map(|place| around(&bytes, place * 4, id))
            .map(|(start, kind, _)| (start, kind))
            .collect();
        found.dedup();
        found
    }

    /// Check locks of each kind as they stand in memory while they are held, that nothing is told of another thread, and that no field may be any other.
    #[test]
    fn locks_that_are_held() {
        let link = [0x5000_u32, 0x7f00];
        let links = [link[0], link[1], link[0], link[1]];
        let mutex = |lock, depth, users, kind, tries, links: [u32; 4]| {
            let mut words = vec![lock, depth, ID, users, kind, tries];
            words.extend(links);
            words
        };
        let of_musl = |kind, lock| [vec![kind, lock, 0, 0, 0, 0], links.to_vec()].concat();
        let rwlock =
            |readers, phase, flags| vec![readers, 0, phase, 1, 0, 0, ID, 0, 0, 0, 0, 0, flags, 0];
        let none = [0; 4];
        let cases = [
            ("normal", LockKind::Mutex, mutex(1, 0, 1, 0, 0, none)),
            ("waited for", LockKind::Mutex, mutex(2, 0, 3, 0, 0, none)),
            ("recursive", LockKind::Mutex, mutex(1, 2, 1, 1, 0, none)),
            ("checked", LockKind::Mutex, mutex(1, 0, 1, 2, 0, none)),
            ("adaptive", LockKind::Mutex, mutex(1, 0, 1, 3, 17, none)),
            (
                "inheriting",
                LockKind::Mutex,
                mutex(ID | WAITERS, 1, 1, 0x20, 0, none),
            ),
            ("robust", LockKind::Mutex, mutex(ID, 1, 1, 0x10, 0, links)),
            (
                "ceiling",
                LockKind::Mutex,
                mutex(5 << 19 | 1, 0, 1, 0x40, 0, none),
            ),
            ("rwlock", LockKind::Rwlock, rwlock(3, 1, 0)),
            (
                "rwlock, waited for",
                LockKind::Rwlock,
                rwlock(3 | 4 | 2 << 3, 3, 2),
            ),
            ("musl, recursive", LockKind::Mutex, of_musl(1, ID)),
            ("musl, robust", LockKind::Mutex, of_musl(4, ID | WAITERS)),
            ("musl, inheriting", LockKind::Mutex, of_musl(8 | 128, ID)),
        ];
        for (name, kind, words) in cases {
            assert_eq!(told(&words, ID), [(0, kind)], "{name}");
            assert_eq!(told(&words, ID + 1), [], "{name}");
            let shifted = [vec![0, 0], words.clone()].concat();
            assert_eq!(told(&shifted, ID), [(8, kind)], "{name}");
            assert_eq!(told(&[vec![0], words.clone()].concat(), ID), [], "{name}");
            let short = words.len() - 5;
            assert_eq!(told(&words[..short], ID), [], "{name}");
        }
    }

    /// Check read-write locks that are held for reading, and that no word may be anything else.
    #[test]
    fn locks_held_for_reading() {
        let told = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            may_be_held_for_reading(&bytes)
        };
        let glibc = [16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let waited_for = [16 | 2 | 4, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0];
        let musl = [3 | 1 << 31, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for lock in [glibc, waited_for, musl] {
            assert!(told(&lock));
            assert!(!told(&lock[..13]));
            for place in 0..lock.len() {
                let mut changed = lock;
                changed[place] = 0x7fff_fff1;
                assert!(!told(&changed), "{place}");
            }
        }
        for free_or_written in [[0; 14], [3, 0, 1, 1, 0, 0, ID, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(!told(&free_or_written));
        }
    }

    /// Check that what is free, was never a lock, or is no more is not told.
    #[test]
    fn what_is_not_held() {
        let normal = [1, 0, ID, 1, 0, 0, 0, 0, 0, 0];
        let writing = [3, 0, 1, 1, 0, 0, ID, 0, 0, 0, 0, 0, 0, 0];
        let of_musl = [1, ID, 0, 0, 0, 0, 0x5000, 1, 0x6000, 1];
        assert_eq!(told(&normal, ID).len(), 1);
        assert_eq!(told(&writing, ID).len(), 1);
        assert_eq!(told(&of_musl, ID).len(), 1);
        let changed: [(&[u32], usize, u32); 22] = [
            // Shared with other processes.
            (&normal, 4, 0x80),
            (&writing, 7, 1),
            (&normal, 0, 0),
            (&normal, 0, 3),
            (&normal, 1, 2),
            (&normal, 2, 0),
            (&normal, 3, 0),
            (&normal, 3, u32::MAX),
            // Destroyed.
            (&normal, 4, u32::MAX),
            (&normal, 4, 1),
            (&normal, 4, 0x10),
            (&normal, 5, 1),
            (&normal, 6, 1),
            (&normal, 9, 1),
            (&writing, 0, 1),
            (&writing, 0, 8),
            (&writing, 3, 0),
            (&writing, 4, 1),
            (&writing, 12, 3),
            (&of_musl, 0, 0),
            (&of_musl, 6, 0x5004),
            (&of_musl, 1, ID + 1),
        ];
        for (words, place, value) in changed {
            let mut words = words.to_vec();
            words[place] = value;
            assert_eq!(told(&words, ID), [], "{place}: {value:#x}");
        }
    }
}
