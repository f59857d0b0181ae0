//! Addresses at which nobody came while a thread was stalled. What an allocator hands from thread to thread is in use by several, but by one at a time.

use std::collections::VecDeque;

/// Addresses remembered.
const MOST: usize = 16;

/// The last ones, the last one first.
#[derive(Debug, Default)]
pub struct Quiet(VecDeque<u64>);

impl Quiet {
    /// Nobody came while a thread was stalled that was about to access this address.
    pub fn note(&mut self, address: u64) {
        if self.0.contains(&address) {
            return;
        }
        self.0.truncate(MOST - 1);
        self.0.push_front(address);
    }

    /// Somebody uses it after all.
    pub fn forget(&mut self, address: u64) {
        self.0.retain(|quiet| *quiet != address);
    }

    /// Something else may be there by now.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// All of them.
    pub fn all(&self) -> impl ExactSizeIterator<Item = u64> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the last addresses are remembered, each once.
    #[test]
    fn quiet_addresses_are_remembered() {
        let mut quiet = Quiet::default();
        for address in 0..3 * MOST as u64 {
            quiet.note(address);
            quiet.note(address);
        }
        assert_eq!(quiet.all().len(), MOST);
        assert!(quiet.all().all(|address| address >= 2 * MOST as u64));
        quiet.forget(3 * MOST as u64 - 1);
        assert_eq!(quiet.all().len(), MOST - 1);
        quiet.clear();
        assert_eq!(quiet.all().len(), 0);
    }
}
