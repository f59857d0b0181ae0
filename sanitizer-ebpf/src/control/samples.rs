//! Where clock samples were.

use core::sync::atomic::AtomicU64;

use crate::{ELSEWHERE, ELSEWHERE_BITS, SEEN};

/// Program counters of clock samples.
#[repr(C)]
pub struct Samples {
    /// Clock samples in analyzed modules, ever; the next place in `seen`.
    pub seen_count: AtomicU64,
    /// Program counters of the last of them.
    pub seen: [AtomicU64; SEEN],
    /// Program counters of clock samples outside analyzed functions, by a hash of all but their low
    /// [`ELSEWHERE_BITS`] bits, and how many more of them than of others with the same hash there were.
    pub elsewhere: [[AtomicU64; 2]; ELSEWHERE],
    /// When an unknown program counter was last told of, ns.
    pub unknown_pc_ns: AtomicU64,
}

impl Samples {
    /// Where in `elsewhere` a program counter is counted.
    #[must_use]
    pub const fn place_elsewhere(pc: u64) -> usize {
        /// 2^64 divided by the golden ratio: spreads what is near.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        ((pc >> ELSEWHERE_BITS).wrapping_mul(SPREAD) >> (64 - ELSEWHERE.trailing_zeros())) as usize
    }

    /// What stands there after a sample at `pc`, where there was a place with its number before: what is executed most often
    /// stays, whatever else has the same hash.
    #[must_use]
    pub const fn counted_elsewhere([place, number]: [u64; 2], pc: u64) -> [u64; 2] {
        if (place ^ pc) >> ELSEWHERE_BITS == 0 {
            [place, number + 1]
        } else if number == 0 {
            [pc, 1]
        } else {
            [place, number - 1]
        }
    }
}
