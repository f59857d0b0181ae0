//! Where a sample stands. The word in [`crate::Control::phase`] is `generation << 8 | phase`; a
//! generation is one sample, from the claim of a thread to its release.

/// No thread is claimed; a clock sample may claim one.
pub const IDLE: u64 = 0;
/// A gate has let one clock sample through; its thread stops.
pub const CLAIMED: u64 = 1;
/// The owner runs to an access site; its instruction breakpoint is armed.
pub const SEEK: u64 = 2;
/// The owner has reached the site; it stops.
pub const REACHED: u64 = 3;
/// The owner is stalled before its access; watchpoint hits of other threads count.
pub const STALL: u64 = 4;
/// The stall is over; no hit counts any more.
pub const CLOSED: u64 = 5;
/// The owner was let go after a hit: the gate waits to see it pass its access.
pub const CONFIRM: u64 = 6;
/// The owner has made its access.
pub const CONFIRMED: u64 = 7;

/// The word of a generation in a phase.
#[must_use]
pub const fn word(generation: u64, phase: u64) -> u64 {
    generation << 8 | phase
}

/// The phase part of a word.
#[must_use]
pub const fn of(word: u64) -> u64 {
    word & 0xff
}

/// The generation part of a word.
#[must_use]
pub const fn generation(word: u64) -> u64 {
    word >> 8
}

/// The word after the owner has come to the instruction at which it is waited for; `None` where it is waited for at none.
#[must_use]
#[inline(always)]
pub const fn after_arrival(before: u64) -> Option<u64> {
    match of(before) {
        SEEK => Some(word(generation(before), REACHED)),
        CONFIRM => Some(word(generation(before), CONFIRMED)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that an arrival leads on from the two phases that wait for one, within the generation, and from no other.
    #[test]
    fn arrivals_lead_on() {
        for (phase, expected) in [
            (IDLE, None),
            (CLAIMED, None),
            (SEEK, Some(REACHED)),
            (REACHED, None),
            (STALL, None),
            (CLOSED, None),
            (CONFIRM, Some(CONFIRMED)),
            (CONFIRMED, None),
        ] {
            for generation in [0, 1, 1 << 40] {
                let expected = expected.map(|next| word(generation, next));
                assert_eq!(after_arrival(word(generation, phase)), expected, "{phase}");
            }
        }
    }
}
