//! Places in code from which nothing is certain to be accessed that others could access too, whatever is in the registers: that follows from the code alone, and
//! threads are taken from their processors at the same places again and again. So each is decoded once.

use std::collections::HashSet;

/// No more are remembered.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Barren(HashSet<u64>);

impl Barren {
    pub(super) fn has(&self, pc: u64) -> bool {
        self.0.contains(&pc)
    }

    pub(super) fn add(&mut self, pc: u64) {
        if self.0.len() >= MOST {
            self.forget();
        }
        self.0.insert(pc);
    }

    /// Other code may stand there now.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that places are remembered until there are too many, or the code has changed.
    #[test]
    fn places_are_remembered() {
        let mut barren = Barren::default();
        for pc in 0..MOST as u64 {
            barren.add(pc);
        }
        assert!(barren.has(0) && !barren.has(MOST as u64));
        barren.add(MOST as u64);
        assert!(barren.has(MOST as u64) && !barren.has(0));
        barren.forget();
        assert!(!barren.has(MOST as u64));
    }
}
