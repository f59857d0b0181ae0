//! The access site that is waited at: where, for whom, and who is let pass.

use core::sync::atomic::AtomicU64;

use crate::{LOCKS, MET};

/// In the place of a thread: accesses of others are not waited for.
pub const NOBODY: u64 = u64::MAX;

/// For a register that takes no part in an address.
pub const NO_REGISTER: u64 = 16;

/// The access site that is waited at, and its traps.
#[repr(C)]
pub struct Site {
    /// The site, for any thread; 0 while none is waited at.
    pub at: AtomicU64,
    /// Threads that are let pass before one is claimed.
    pub skip: AtomicU64,
    /// What may have been spent beyond what was earned when a thread is claimed there, ns.
    pub credit_ns: AtomicU64,
    /// Traps since it is waited at, but for those of [`Company::unmet`].
    pub traps: AtomicU64,
    /// When the first of the program's threads came, CLOCK_MONOTONIC ns; 0: none has.
    pub first_ns: AtomicU64,
    /// Traps of threads that were not taken in.
    pub not_held: AtomicU64,
    /// What is accessed there.
    pub operand: Operand,
    /// Whether a thread is let pass for what only it uses.
    pub own: OwnMemory,
    /// Whether a thread is let pass that is about to access something else.
    pub wanted: Wanted,
    /// Whether a thread is let pass while nobody else accesses the same.
    pub company: Company,
    /// Whether a thread is let pass for the locks that it holds.
    pub locks: Locks,
}

/// What makes the address of an access: two registers by their numbers in instructions ([`NO_REGISTER`] for
/// none), the second shifted left by so many bits, and a displacement.
#[repr(C)]
pub struct Operand {
    /// The first register.
    pub base: AtomicU64,
    /// The second register.
    pub index: AtomicU64,
    /// By how many bits that is shifted.
    pub shift: AtomicU64,
    /// What is added.
    pub displacement: AtomicU64,
    /// Another register that points to what is accessed there, by its number, of the call of a memory routine; or [`NO_REGISTER`].
    pub other: AtomicU64,
}

/// Memory that only the thread uses which has come ([`crate::own::is_own`]).
#[repr(C)]
pub struct OwnMemory {
    /// 1: a thread is let pass that is about to access such.
    pub passes: AtomicU64,
    /// So many bytes from the stack pointer up are that, beside others.
    pub frame: AtomicU64,
    /// Traps of threads that were let pass for that reason.
    pub traps: AtomicU64,
}

/// What a thread is to be about to access.
#[repr(C)]
pub struct Wanted {
    /// A byte of it.
    pub address: AtomicU64,
    /// So many bytes are accessed at the site; 0: whatever they are.
    pub size: AtomicU64,
}

/// Threads that are about to access the same.
#[repr(C)]
pub struct Company {
    /// Until when only a thread is claimed that is about to access what another one has, CLOCK_MONOTONIC ns; 0: any is.
    pub until_ns: AtomicU64,
    /// Traps of threads that were let pass, since nobody else was about to access the same, or since they were about to access something
    /// else than what is wanted.
    pub unmet: AtomicU64,
    /// Addresses that were about to be accessed, ever since the site is waited at; the next place in `met`.
    pub met_count: AtomicU64,
    /// The last of them, and the threads, or [`NOBODY`] at those that nobody is claimed for.
    pub met: [[AtomicU64; 2]; MET],
}

/// Locks, and who holds them.
#[repr(C)]
pub struct Locks {
    /// 1: a thread that holds one of `known` is let pass.
    pub spares_holders: AtomicU64,
    /// Traps of threads that were let pass for that reason.
    pub held: AtomicU64,
    /// Locks for which threads have waited ([`crate::lock::Form::word`]); 0 where there are no more.
    pub known: [AtomicU64; LOCKS],
}
