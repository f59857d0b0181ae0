//! What becomes of what the loads of a module load, as far as it was asked for: to follow it takes long, and a place
//! at which nothing is found to be wrong may be hit again and again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::{addr::LinkAddr, insn::ByteUse};

/// How many loads are remembered.
const MOST: usize = 1024;

/// The answers for one module's loads, by their addresses.
#[derive(Debug, Default)]
pub struct ByteUses(Mutex<HashMap<LinkAddr, ByteUse>>);

impl ByteUses {
    /// What becomes of what the instruction at `load` loads; `find` finds it out where that is not known yet.
    pub fn of(&self, load: LinkAddr, find: impl FnOnce() -> ByteUse) -> ByteUse {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = lock().get(&load) {
            return known;
        }
        let found = find();
        let mut known = lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(load, found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each load is followed once, and that no more than so many are remembered.
    #[test]
    fn remembered() {
        let uses = ByteUses::default();
        let mut followed = 0;
        for turn in 0..3u64 {
            for load in 0..8u64 {
                let found = uses.of(LinkAddr(load), || {
                    followed += 1;
                    ByteUse {
                        used: 1 << load,
                        ..ByteUse::default()
                    }
                });
                assert_eq!(found.used, 1 << load, "{turn}");
            }
        }
        assert_eq!(followed, 8);
        for load in 0..10 * MOST as u64 {
            uses.of(LinkAddr(load), ByteUse::default);
        }
        assert!(uses.0.lock().expect("nobody panicked").len() <= MOST);
    }
}
