//! An address that stays watched without a stall: who uses it?

use core::sync::atomic::AtomicU64;

use crate::USERS;

/// The address that stays watched after a stall, and who has accessed it since.
#[repr(C)]
pub struct Sharing {
    /// The address; 0 while none is watched so.
    pub address: AtomicU64,
    /// It is watched in advance, for the thread of this generation, which is waited for: what others do from its claim on is evidence
    /// if that one stands. 0: it is not.
    pub ahead: AtomicU64,
    /// The thread that was stalled there.
    pub tid: AtomicU64,
    /// Its accesses since.
    pub own: AtomicU64,
    /// Since when it stays watched, CLOCK_MONOTONIC ns.
    pub since_ns: AtomicU64,
    /// Accesses of other threads.
    pub others: AtomicU64,
    /// After the first of those: until when there are more to be seen, CLOCK_MONOTONIC ns.
    pub until_ns: AtomicU64,
    /// How many places of `users` are taken.
    pub user_count: AtomicU64,
    /// Where those were made, as the address of the next instruction (0: not known yet), how long after
    /// it began, ns, and by which thread, where it is watched in advance. Two processors may have taken a place each for the same address.
    pub users: [[AtomicU64; 3]; USERS],
}
