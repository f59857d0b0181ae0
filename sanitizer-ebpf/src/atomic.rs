//! Atomic read-modify-write operations. The BPF targets have them (instruction set v3), but
//! `core` offers none for them, and LLVM cannot select the loads and stores that it has: those
//! are volatile here, which for an aligned 64-bit word is one instruction.

use core::{
    intrinsics::{AtomicOrdering, atomic_cxchg, atomic_xadd},
    sync::atomic::AtomicU64,
};

/// Adds to a word; the result is its value before.
#[inline(always)]
pub fn add(word: &AtomicU64, value: u64) -> u64 {
    // SAFETY: the pointer is valid and aligned, as it comes from a reference.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(word.as_ptr(), value) }
}

/// Replaces `old` by `new`; whether it did.
#[inline(always)]
pub fn replace(word: &AtomicU64, old: u64, new: u64) -> bool {
    // SAFETY: the pointer is valid and aligned, as it comes from a reference.
    unsafe {
        atomic_cxchg::<u64, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(
            word.as_ptr(),
            old,
            new,
        )
        .1
    }
}

/// Reads a word that others change.
#[inline(always)]
pub fn load(word: &AtomicU64) -> u64 {
    // SAFETY: the pointer is valid and aligned, as it comes from a reference.
    unsafe { word.as_ptr().read_volatile() }
}

/// Writes a word that others read.
#[inline(always)]
pub fn store(word: &AtomicU64, value: u64) {
    // SAFETY: the pointer is valid and aligned, as it comes from a reference.
    unsafe { word.as_ptr().write_volatile(value) }
}
