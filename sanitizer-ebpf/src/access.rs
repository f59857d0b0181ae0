//! An access of watched bytes: is it evidence?

use crate::phase;

/// Whether it counts for the stall in hand, if there is one: the address is the one that is watched in it.
#[must_use]
#[inline(always)]
pub const fn is_of_stall(word: u64, address: u64, watched: u64) -> bool {
    phase::of(word) == phase::STALL && address == watched
}

/// Whether it counts for the stall that is about to begin, of a watched address: the thread of the generation `ahead` was claimed right before it accesses that.
#[must_use]
#[inline(always)]
pub const fn is_early(word: u64, ahead: u64) -> bool {
    matches!(phase::of(word), phase::CLAIMED | phase::REACHED)
        && ahead != 0
        && phase::generation(word) == ahead
}

/// Whether an access of so many bytes from an address on has this byte among them.
#[must_use]
#[inline(always)]
pub const fn covers(address: u64, size: u64, byte: u64) -> bool {
    byte.wrapping_sub(address) < size
}

/// What is known of the code that has made an access; by default nothing is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Code {
    /// It is in an analyzed function or a known memory routine: the access can be judged.
    pub is_judged: bool,
    /// Its module has no metadata.
    pub is_of_library: bool,
}

/// What is kept although it cannot be judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// Accesses of libraries, which may make them for a program that has called.
    pub results: bool,
    /// All.
    pub unanalyzed: bool,
}

impl Code {
    /// Whether its access is to be recorded.
    #[must_use]
    #[inline(always)]
    pub const fn is_evidence(self, keep: Keep) -> bool {
        self.is_judged || keep.results && self.is_of_library || keep.unanalyzed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that only accesses of the watched address count, in every phase but one not at all.
    #[test]
    fn an_access_counts_within_its_stall() {
        for phase in phase::IDLE..=phase::CONFIRMED {
            for generation in [0, 1, 1 << 40] {
                let word = phase::word(generation, phase);
                assert_eq!(is_of_stall(word, 64, 64), phase == phase::STALL);
                assert!(!is_of_stall(word, 64, 65));
            }
        }
    }

    /// Check that what is done before a stall counts only from the claim of its thread on, in no other generation, and nowhere if nothing is watched in advance.
    #[test]
    fn an_access_counts_from_the_claim_on() {
        for phase in phase::IDLE..=phase::CONFIRMED {
            let word = phase::word(3, phase);
            let stands = phase == phase::CLAIMED || phase == phase::REACHED;
            assert_eq!(is_early(word, 3), stands, "{phase}");
            assert!(!is_early(word, 2) && !is_early(word, 4));
            assert!(!is_early(phase::word(0, phase), 0));
        }
    }

    /// Check that the bytes of an access are those from its address on, also where addresses end.
    #[test]
    fn bytes_of_an_access() {
        for address in [0, 64, u64::MAX - 3] {
            for size in 0..16 {
                let covers = |distance: u64| covers(address, size, address.wrapping_add(distance));
                assert!((0..size).all(covers));
                assert!(!covers(size) && !covers(u64::MAX));
            }
        }
    }

    /// Check what is recorded of code that was analyzed, of libraries, and of what nothing is known of.
    #[test]
    fn whose_accesses_are_evidence() {
        let analyzed = Code {
            is_judged: true,
            is_of_library: false,
        };
        let routine = Code {
            is_judged: true,
            is_of_library: true,
        };
        let library = Code {
            is_judged: false,
            is_of_library: true,
        };
        let unknown = Code::default();
        // Those that are evidence with neither, with results, with what was not analyzed, with both.
        for (code, expected) in [
            (analyzed, [true; 4]),
            (routine, [true; 4]),
            (library, [false, true, true, true]),
            (unknown, [false, false, true, true]),
        ] {
            let keeps = [(false, false), (true, false), (false, true), (true, true)];
            let found = keeps.map(|(results, unanalyzed)| {
                code.is_evidence(Keep {
                    results,
                    unanalyzed,
                })
            });
            assert_eq!(found, expected, "{code:?}");
        }
    }
}
