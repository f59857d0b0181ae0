//! A stall: the watched bytes, and who has accessed them.

use core::sync::atomic::AtomicU64;

use crate::KNOWN;

/// The stall of the claimed thread.
#[repr(C)]
pub struct Stall {
    /// The watched address.
    pub address: AtomicU64,
    /// Its hits: those of this generation.
    pub hits: AtomicU64,
    /// Its traps.
    pub traps: AtomicU64,
    /// Addresses behind accesses of which it is known that they race with the one of the stalled thread; 0 where
    /// there are no more.
    pub known: [AtomicU64; KNOWN],
    /// For each of them the last generation in whose stall it was made.
    pub known_met: [AtomicU64; KNOWN],
    /// `generation << KNOWN_BITS | count`: those of them that were made during the stall of that generation.
    pub known_hits: AtomicU64,
    /// 1: of each place one access is recorded in a stall; further ones count as known.
    pub places_once: AtomicU64,
    /// 1: the first racing thread of a stall is stopped as well, so that the tracer knows at once, and can read all of its stack.
    pub stop_racing: AtomicU64,
}
