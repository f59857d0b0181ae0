//! Locks that say who holds them: the mutexes of glibc (`struct __pthread_mutex_s`, sysdeps/x86/nptl/bits/struct_mutex.h:
//! lock word, depth, owner); and those that keep their owner in the lower 30 bits of the lock word, and in its highest that
//! somebody waits: all that inherit priorities or are robust (futex(2)), and of musl those that may be locked again by their owner or check for
//! errors (`pthread_impl.h`).
//!
//! Threads also wait for words that are no locks and hold an id all the same: that of the thread whose end
//! `pthread_join` waits for. Nobody has marked such a word.

/// The words that are looked at, from the one on which threads wait: a futex.
pub type Words = [u32; 3];

/// Where a lock tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In its third word.
    Beside,
    /// In the lock word.
    Within,
}

/// The bits of a lock word that are its owner's id, and the one that somebody waits (`include/uapi/linux/futex.h`).
const OWNER: u32 = 0x3fff_ffff;
const WAITERS: u32 = 0x8000_0000;
/// What a mutex of musl that does not tell its owner has in the place of the id: `EBUSY`.
const LOCKED_BY_ANYBODY: u32 = 16;

impl Form {
    /// The form of a lock for which somebody waits, if it is one that tells that a thread holds it. Ids are those of the pid
    /// namespace in which the thread lives.
    #[must_use]
    pub const fn of([lock, _, owner]: Words, tid: u32) -> Option<Self> {
        if tid == 0 || lock == 0 {
            None
        } else if owner == tid {
            Some(Self::Beside)
        } else if lock & WAITERS != 0 && lock & OWNER == tid && tid != LOCKED_BY_ANYBODY {
            Some(Self::Within)
        } else {
            None
        }
    }

    /// Whether a lock of this form says that a thread holds it.
    #[must_use]
    #[inline(always)]
    pub const fn is_held_by(self, [lock, _, owner]: Words, tid: u32) -> bool {
        match self {
            Self::Beside => owner == tid,
            Self::Within => lock & OWNER == tid,
        }
    }

    /// A lock of this form, in a word: a futex is aligned to four bytes.
    #[must_use]
    pub const fn word(self, futex: u64) -> u64 {
        match self {
            Self::Beside => futex & !1,
            Self::Within => futex | 1,
        }
    }

    /// The form and the futex that such a word says.
    #[must_use]
    #[inline(always)]
    pub const fn of_word(word: u64) -> (Self, u64) {
        let form = if word & 1 == 0 {
            Self::Beside
        } else {
            Self::Within
        };
        (form, word & !1)
    }
}
