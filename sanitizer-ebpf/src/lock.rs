//! Locks that say who holds them: the mutexes of glibc (`struct __pthread_mutex_s`, sysdeps/x86/nptl/bits/struct_mutex.h:
//! lock word, depth, owner) and of musl (`pthread_impl.h`: type, lock word with the owner in its lower 30 bits), and
//! those that inherit priorities (futex(2)).

/// The words that are looked at, from the one on which threads wait: a futex.
pub type Words = [u32; 3];

/// The bits of a lock word that are its owner's id, `FUTEX_TID_MASK`.
const OWNER: u32 = 0x3fff_ffff;

/// Whether these words say that a thread holds the lock. Its id is that of the pid namespace in which it lives.
#[must_use]
#[inline(always)]
pub const fn is_held_by([lock, _, owner]: Words, tid: u32) -> bool {
    lock & OWNER == tid || owner == tid
}
