//! What the program's memory holds, page by page, and what of it is another value than at the last look. It is read
//! from outside: no thread stops, and nothing is armed.

use std::collections::HashMap;

/// Bytes that are looked at together.
pub const PAGE: u64 = 4096;
/// Pages remembered: four mebibytes. More are not looked at.
const MEMORY: usize = 1024;

/// Reads memory of the program from an address on; whether all that was wanted could be read.
pub type Read<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;

/// See the module.
#[derive(Debug, Default)]
pub struct Values {
    pages: HashMap<u64, Vec<u8>>,
}

/// Which bytes of a page have changed: their offsets, in order.
#[derive(Debug)]
pub struct Changes(Vec<u16>);

impl Changes {
    /// The offset of the first one that has among so many bytes from an offset on.
    #[must_use]
    pub fn first_within(&self, offset: u64, bytes: u64) -> Option<u64> {
        let first = self
            .0
            .partition_point(|&changed| u64::from(changed) < offset);
        let first = self.0.get(first).copied().map(u64::from)?;
        (first < offset + bytes).then_some(first)
    }
}

impl Values {
    /// How many pages are remembered.
    #[cfg(test)]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Whether a page may be looked at that is of less interest: it is known, or there is room for many more.
    #[must_use]
    pub fn has_room_for(&self, page: u64) -> bool {
        self.pages.len() < MEMORY / 2 || self.pages.contains_key(&page)
    }

    /// Looks at the page that begins there; what has changed since the last time. `None` at the first time, and where it
    /// cannot be read.
    pub fn look(&mut self, page: u64, read: &Read<'_>) -> Option<Changes> {
        let mut bytes = vec![0; PAGE as usize];
        let is_known = self.pages.contains_key(&page);
        if !is_known && self.pages.len() >= MEMORY || !read(page, &mut bytes) {
            self.pages.remove(&page);
            return None;
        }
        let Some(before) = self.pages.get_mut(&page) else {
            self.pages.insert(page, bytes);
            return None;
        };
        let offsets = before.iter().zip(&bytes).zip(0..);
        let changed =
            offsets.filter_map(|((before, now), offset)| (before != now).then_some(offset));
        let changed = Changes(changed.collect());
        *before = bytes;
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Check that a change is told once, where it is, and nothing of what was not looked at before or cannot be read.
    #[test]
    fn changes_are_told() {
        let values = &mut Values::default();
        let (value, is_mapped) = (Cell::new(0), Cell::new(true));
        let mut look = || {
            values.look(PAGE, &|address, bytes| {
                assert_eq!((address, bytes.len() as u64), (PAGE, PAGE));
                bytes[16] = value.get();
                is_mapped.get()
            })
        };
        assert!(look().is_none());
        value.set(1);
        let changes = look().expect("it is known");
        assert_eq!(changes.first_within(16, 1), Some(16));
        assert_eq!(changes.first_within(12, 8), Some(16));
        assert_eq!(changes.first_within(8, 8), None);
        assert_eq!(changes.first_within(17, 8), None);
        let changes = look().expect("it is known");
        assert_eq!(changes.first_within(0, PAGE), None);
        is_mapped.set(false);
        assert!(look().is_none());
        is_mapped.set(true);
        assert!(look().is_none() && look().is_some());
    }

    /// Check that no more than so many pages are remembered.
    #[test]
    fn pages_are_bounded() {
        let mut values = Values::default();
        for page in 0..2 * MEMORY as u64 {
            assert!(values.look(page * PAGE, &|_, _| true).is_none());
        }
        assert_eq!(values.pages.len(), MEMORY);
        assert!(values.look(0, &|_, _| true).is_some());
        assert!(values.has_room_for(0) && !values.has_room_for(MEMORY as u64 * PAGE));
    }
}
