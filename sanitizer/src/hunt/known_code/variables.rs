//! Variables that the code itself names: at which address each is, which sites name it, and whether its value changes.
//!
//! The values are looked at from outside, some pages at a time: what changes is written by somebody, maybe by a pointer, and can be watched for who that is.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::hunt::{
    stint::Timekeeper,
    values::{PAGE, Read, Values},
};

/// Addresses remembered; of more than these nothing is learned.
const MEMORY: usize = 1 << 16;
/// Pages of variables that are looked at in one go, at most, and for how long.
const PAGES: usize = 32;
const LOOK: Duration = Duration::from_millis(1);
/// The most bytes that one variable is thought to have.
const BYTES: u64 = 8;
/// Variables that change, of which it is remembered.
const MOST_CHANGING: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub struct Variables {
    /// By address.
    known: BTreeMap<u64, Variable>,
    /// The address that a site names.
    of_sites: HashMap<u64, u64>,
    values: Values,
    /// The variable whose page is looked at next.
    next: u64,
    /// Those that were seen to change lately.
    changing: Vec<u64>,
}

/// What is known of one.
#[derive(Debug, Default)]
struct Variable {
    /// Some site writes it.
    is_written: bool,
    /// It was seen to change.
    changes: bool,
    /// How far from its address the first byte is that did.
    changed_at: u8,
}

impl Variable {
    /// It was looked at its value, of which this byte has changed, if any; whether it is news that it changes.
    fn look(&mut self, changed_at: Option<u8>) -> bool {
        let Some(changed_at) = changed_at else {
            return false;
        };
        self.changed_at = changed_at;
        !std::mem::replace(&mut self.changes, true)
    }
}

impl Variables {
    /// A site names an address.
    pub fn add(&mut self, address: u64, site: u64, writes: bool) {
        if self.known.len() >= MEMORY {
            return;
        }
        self.of_sites.insert(site, address);
        self.known.entry(address).or_default().is_written |= writes;
    }

    /// The variable that a site names.
    #[must_use]
    pub fn of(&self, site: u64) -> Option<u64> {
        self.of_sites.get(&site).copied()
    }

    /// Variables that were seen to change lately.
    #[must_use]
    pub fn changing(&self) -> &[u64] {
        &self.changing
    }

    /// The address of a byte of a variable that was seen to change.
    #[must_use]
    pub fn changed_byte(&self, variable: u64) -> Option<u64> {
        let known = self.known.get(&variable)?;
        variable.checked_add(known.changed_at.into())
    }

    /// Looks at the values of some more of them.
    pub fn look_at_values(&mut self, timekeeper: Timekeeper, read: &Read<'_>) {
        let begun = timekeeper.begin();
        for _ in 0..PAGES {
            if begun.elapsed() > LOOK {
                break;
            }
            let Some((&first, _)) = self.known.range(self.next..).next() else {
                self.next = 0;
                break;
            };
            let page = first & !(PAGE - 1);
            let Some(end) = page.checked_add(PAGE) else {
                self.next = 0;
                break;
            };
            self.next = end;
            self.look_at_page(page, end, read);
        }
    }

    fn look_at_page(&mut self, page: u64, end: u64, read: &Read<'_>) {
        // What no code writes by its name somebody may write by a pointer.
        let mut of_page = self.known.range(page..end);
        if !of_page.any(|(_, variable)| variable.is_written) && !self.values.has_room_for(page) {
            return;
        }
        let Some(changes) = self.values.look(page, read) else {
            return;
        };
        let mut variables = self.known.range_mut(page..end).peekable();
        while let Some((&address, variable)) = variables.next() {
            let next = variables.peek().map_or(end, |(next, _)| **next);
            let bytes = (next - address).min(BYTES);
            let offset = address - page;
            let changed = changes.first_within(offset, bytes);
            let changed = changed.and_then(|at| u8::try_from(at - offset).ok());
            let is_news = variable.look(changed) && !self.changing.contains(&address);
            if is_news && self.changing.len() < MOST_CHANGING {
                self.changing.push(address);
            }
        }
    }

    /// What has changed may not do so any more: those are forgotten that did not since the last time.
    pub fn decay(&mut self) {
        let known = &self.known;
        let changes = |address: &u64| known.get(address).is_some_and(|known| known.changes);
        self.changing.retain(changes);
        for variable in self.known.values_mut() {
            variable.changes = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Check that what changes is known, with a byte that does, whoever names it; that it is forgotten when it does not change any more, and that
    /// what is always the same is never told.
    #[test]
    fn what_changes_is_known() {
        let mut variables = Variables::default();
        let (first, second, calm) = (5 * PAGE + 16, 5 * PAGE + 24, 5 * PAGE + 32);
        for (site, address) in [(1, first), (2, second), (3, calm)] {
            variables.add(address, site, false);
        }
        let value = Cell::new(0);
        let look = |variables: &mut Variables, changes: bool| {
            value.set(value.get() + u8::from(changes));
            variables.look_at_values(Timekeeper::Steps, &|page, bytes| {
                assert_eq!(page, 5 * PAGE);
                bytes[17] = value.get();
                bytes[24] = value.get();
                true
            });
        };
        look(&mut variables, true);
        assert!(variables.changing().is_empty());
        for _ in 0..4 {
            look(&mut variables, true);
        }
        assert_eq!(variables.changing(), [first, second]);
        assert_eq!(variables.changed_byte(first), Some(first + 1));
        assert_eq!(variables.changed_byte(second), Some(second));
        assert_eq!((variables.of(2), variables.of(9)), (Some(second), None));
        variables.decay();
        for _ in 0..4 {
            look(&mut variables, true);
        }
        assert_eq!(variables.changing(), [first, second]);
        variables.decay();
        look(&mut variables, false);
        variables.decay();
        assert!(variables.changing().is_empty());
    }

    /// Check that variables on many pages are all looked at, some at a time.
    #[test]
    fn many_pages_are_looked_at() {
        let mut variables = Variables::default();
        let pages = 3 * PAGES as u64;
        for page in 0..pages {
            variables.add(page * PAGE, page, true);
        }
        let looks = Cell::new(0);
        for _ in 0..8 {
            let before = looks.get();
            variables.look_at_values(Timekeeper::Steps, &|_, _| {
                looks.set(looks.get() + 1);
                true
            });
            assert!(looks.get() - before <= PAGES);
        }
        assert_eq!(variables.values.pages(), pages as usize);
        // At an address that no page holds whole.
        variables.add(u64::MAX, 7, true);
        for _ in 0..8 {
            variables.look_at_values(Timekeeper::Steps, &|_, _| false);
        }
    }

    /// Check that no more than so many that change are remembered.
    #[test]
    fn changing_ones_are_bounded() {
        let mut variables = Variables::default();
        for number in 0..2 * MOST_CHANGING as u64 {
            variables.add(8 * number, number, true);
        }
        let value = Cell::new(0);
        for _ in 0..8 {
            value.set(value.get() + 1);
            variables.look_at_values(Timekeeper::Steps, &|_, bytes| {
                bytes.fill(value.get());
                true
            });
        }
        assert_eq!(variables.changing().len(), MOST_CHANGING);
    }
}
