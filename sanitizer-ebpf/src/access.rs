//! An access of watched bytes: is it evidence?

use crate::phase;

/// Whether it counts for the stall in hand, if there is one: the address is the one that is watched in it.
#[must_use]
#[inline(always)]
pub const fn is_of_stall(word: u64, address: u64, watched: u64) -> bool {
    phase::of(word) == phase::STALL && address == watched
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
