//! The phase word of the control block: which sample is in hand, and how far it is. Gates move it on, and in user space this alone does.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use gwp_race_abi::{Control, phase};

/// The word, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase(u64);

impl Phase {
    /// The number of the sample.
    #[must_use]
    pub const fn generation(self) -> u64 {
        phase::generation(self.0)
    }

    /// One of [`gwp_race_abi::phase`].
    #[must_use]
    pub const fn phase(self) -> u64 {
        phase::of(self.0)
    }

    /// The phase after the owner has come to the instruction at which it is waited for; nothing where it is waited for at none.
    #[must_use]
    pub fn after_arrival(self) -> Option<u64> {
        phase::after_arrival(self.0).map(phase::of)
    }

    /// Both, as gates read them.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }
}

/// The word. Gates may move it on at any moment between two calls.
#[derive(Clone, Copy, Debug)]
pub struct PhaseWord<'a>(&'a AtomicU64);

impl<'a> PhaseWord<'a> {
    /// That of a control block.
    #[must_use]
    pub const fn of(control: &'a Control) -> Self {
        Self(&control.phase)
    }

    /// What it is now.
    #[must_use]
    pub fn read(self) -> Phase {
        Phase(self.0.load(SeqCst))
    }

    /// Whether it is in this phase now.
    #[must_use]
    pub fn is(self, phase: u64) -> bool {
        self.read().phase() == phase
    }

    /// Begins the next sample, in a phase, if nobody has begun one since; its number, where that is so.
    #[must_use]
    pub fn begin(self, idle: Phase, phase: u64) -> Option<u64> {
        let generation = idle.generation() + 1;
        let next = phase::word(generation, phase);
        let begun = (self.0).compare_exchange(idle.0, next, SeqCst, SeqCst);
        begun.is_ok().then_some(generation)
    }

    /// Puts a sample into a phase, whatever it was before.
    pub fn enter(self, generation: u64, phase: u64) {
        self.0.store(phase::word(generation, phase), SeqCst);
    }

    /// Closes whichever sample is in hand.
    pub fn close(self) {
        self.enter(self.read().generation(), phase::CLOSED);
    }

    /// Puts the sample into a phase if nobody has moved it on since; whether that is so.
    #[must_use]
    pub fn advance(self, from: Phase, phase: u64) -> bool {
        let next = phase::word(from.generation(), phase);
        (self.0)
            .compare_exchange(from.0, next, SeqCst, SeqCst)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a phase which somebody else has left meanwhile is not entered over it.
    #[test]
    fn nobody_is_overwritten() {
        let word = AtomicU64::new(phase::word(7, phase::CLAIMED));
        let phase = PhaseWord(&word);
        let read = phase.read();
        assert_eq!((read.generation(), read.phase()), (7, phase::CLAIMED));
        assert!(phase.advance(read, phase::REACHED) && phase.is(phase::REACHED));
        assert!(!phase.advance(read, phase::CLOSED) && phase.is(phase::REACHED));
        assert_eq!(phase.begin(read, phase::REACHED), None);
        phase.close();
        assert_eq!(word.load(SeqCst), phase::word(7, phase::CLOSED));
        phase.enter(8, phase::SEEK);
        assert_eq!(phase.read(), Phase(phase::word(8, phase::SEEK)));
        assert_eq!(phase.begin(phase.read(), phase::REACHED), Some(9));
        assert_eq!(phase.read(), Phase(phase::word(9, phase::REACHED)));
    }
}
