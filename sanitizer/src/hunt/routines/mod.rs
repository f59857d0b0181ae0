//! The memory routines of a live process. What `memcpy` and its kin access is accessed by their
//! caller, so they must be known exactly: where they are, who has called them, and what with.
//!
//! A C library chooses a variant for the processor when it is loaded (`STT_GNU_IFUNC`), and
//! distributions strip the variants' names. What remains are relocations: this cell of the global
//! offset table is to hold the address of `memcpy`. So the cells are read in the live process.

mod code;

use std::collections::{BTreeSet, HashMap};

pub use crate::routine::{Contract, Range};
pub use code::{Code, EFFORT, LONGEST_FUNCTION};

/// So often it is asked where a cell leads to: dynamic linkers write two or three values into one.
const MOST_VALUES: u8 = 8;

/// A cell of the live process.
#[derive(Clone, Debug)]
struct Cell {
    name: String,
    /// What it held when it was read last; 0 where it was not read yet.
    value: u64,
    /// Values of which it was asked where they lead to.
    values: u8,
    /// The routine that it leads to, once the dynamic linker has filled it.
    entry: Option<u64>,
}

/// A cell that holds something else than when it was read last.
#[derive(Debug, PartialEq, Eq)]
pub struct Filled {
    /// Its address.
    pub cell: u64,
    /// What it holds now.
    pub value: u64,
    /// The name of the routine that it is for.
    pub name: String,
}

/// Where routines begin in a process, and what leads to them; all by run-time address.
#[derive(Clone, Debug, Default)]
pub struct Routines {
    cells: HashMap<u64, Cell>,
    /// The addresses of those that lead nowhere yet, and may do so still.
    unbound: BTreeSet<u64>,
    /// Names, and what the routine does; nothing where two names contradict each other.
    entries: HashMap<u64, (String, Option<Contract>)>,
    /// Cells that lead to functions which write what they return into memory of their own.
    results: HashMap<u64, String>,
}

impl Routines {
    /// A cell leads to a function of this name, which writes what it returns into memory of its own.
    pub fn add_result(&mut self, cell: u64, name: &str) {
        self.results.insert(cell, name.to_owned());
    }

    /// The name of the function to which a cell leads, if it is one of those.
    #[must_use]
    pub fn result(&self, cell: u64) -> Option<&str> {
        self.results.get(&cell).map(String::as_str)
    }

    /// Whether the program calls any of those.
    #[must_use]
    pub fn have_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// A cell is to lead to a routine of this name; it is not known yet where that is.
    pub fn add_cell(&mut self, cell: u64, name: &str) {
        let known = Cell {
            name: name.to_owned(),
            value: 0,
            values: 0,
            entry: None,
        };
        self.cells.insert(cell, known);
        self.unbound.insert(cell);
    }

    /// Reads the cells that lead nowhere yet, those of a page at a time; the result are those that hold something new.
    /// `read` fills its buffer from an address on, or says that it cannot.
    #[must_use]
    pub fn newly_filled(&self, read: impl Fn(u64, &mut [u8]) -> bool) -> Vec<Filled> {
        const PAGE: u64 = 4096;
        const WORD: u64 = 8;
        let mut filled = Vec::new();
        let unbound: Vec<u64> = self.unbound.iter().copied().collect();
        let is_in_page = |cell: u64, page: u64| {
            let last = cell.checked_add(WORD - 1);
            last.is_some_and(|last| last / PAGE == page)
        };
        let pages = unbound.chunk_by(|&a, &b| is_in_page(b, a / PAGE));
        for cells in pages {
            let (Some(&first), Some(&last)) = (cells.first(), cells.last()) else {
                continue;
            };
            let mut words =
                vec![0; usize::try_from(last - first).map_or(0, |len| len + WORD as usize)];
            if !read(first, &mut words) {
                continue;
            }
            for address in cells {
                let offset = usize::try_from(address - first).unwrap_or(usize::MAX);
                let word = words.get(offset..).and_then(|rest| rest.first_chunk());
                let (Some(word), Some(cell)) = (word, self.cells.get(address)) else {
                    continue;
                };
                let value = u64::from_le_bytes(*word);
                if value != cell.value {
                    filled.push(Filled {
                        cell: *address,
                        value,
                        name: cell.name.clone(),
                    });
                }
            }
        }
        filled
    }

    /// Takes note of what a cell holds, and whether a routine begins there. One that leads to none by any of some values is asked no more:
    /// each time, the code there may be gone through.
    pub fn fill(&mut self, cell: u64, value: u64, leads_to_one: bool) {
        let Some(known) = self.cells.get_mut(&cell) else {
            return;
        };
        known.value = value;
        known.values = known.values.saturating_add(1);
        if leads_to_one || known.values >= MOST_VALUES {
            self.unbound.remove(&cell);
        }
        if leads_to_one {
            known.entry = Some(value);
            let name = known.name.clone();
            self.add_entry(value, &name);
        }
    }

    /// A routine begins here.
    pub fn add_entry(&mut self, entry: u64, name: &str) {
        let contract = Contract::of(name);
        match self.entries.get_mut(&entry) {
            Some((_, known)) if *known != contract => *known = None,
            Some(_) => {}
            None => drop(self.entries.insert(entry, (name.to_owned(), contract))),
        }
    }

    /// Whether some cell did not yet lead anywhere when it was read.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        !self.unbound.is_empty()
    }

    /// The routine that begins at an address.
    #[must_use]
    pub fn entry(&self, address: u64) -> Option<&str> {
        let (name, _) = self.entries.get(&address)?;
        Some(name)
    }

    /// What the routine does that begins at an address.
    #[must_use]
    pub fn contract(&self, address: u64) -> Option<Contract> {
        self.entries.get(&address)?.1
    }

    /// The name by which a cell calls a routine, and where that begins.
    #[must_use]
    pub fn through(&self, cell: u64) -> Option<(&str, Option<u64>)> {
        let cell = self.cells.get(&cell)?;
        Some((&cell.name, cell.entry))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Check that only cells are read that lead nowhere yet, those of a page at once, and that one is told of only when it
    /// holds something new.
    #[test]
    fn unbound_cells_are_read_again() {
        let mut routines = Routines::default();
        let cells = [0x3_0010, 0x1_0008, 0x1_0040, 0x1_0000, 0x1_0ffc, 0x2_0000];
        for cell in cells {
            routines.add_cell(cell, "memcpy");
        }
        routines.add_cell(0x1_0008, "memcpy");
        let reads = RefCell::new(Vec::new());
        let read = |address: u64, words: &mut [u8]| {
            reads.borrow_mut().push((address, words.len()));
            for (offset, byte) in words.iter_mut().enumerate() {
                *byte = if (address + offset as u64).is_multiple_of(8) {
                    7
                } else {
                    0
                };
            }
            address < 0x3_0000
        };
        let filled = routines.newly_filled(read);
        // The last one is not within one page.
        let expected = [
            (0x1_0000, 0x48),
            (0x1_0ffc, 8),
            (0x2_0000, 8),
            (0x3_0010, 8),
        ];
        assert_eq!(reads.take(), expected);
        let told: Vec<_> = filled.iter().map(|filled| filled.cell).collect();
        assert_eq!(told, [0x1_0000, 0x1_0008, 0x1_0040, 0x1_0ffc, 0x2_0000]);
        for Filled { cell, value, .. } in filled {
            routines.fill(cell, value, cell < 0x1_0040);
        }
        assert!(routines.is_incomplete());
        assert_eq!(routines.through(0x1_0008), Some(("memcpy", Some(7))));
        assert_eq!(routines.through(0x1_0040), Some(("memcpy", None)));
        assert_eq!(routines.newly_filled(read), []);
        let expected = [(0x1_0040, 8), (0x1_0ffc, 8), (0x2_0000, 8), (0x3_0010, 8)];
        assert_eq!(reads.take(), expected);
    }

    /// Check that cells at both ends of the address space are not taken for those of a page.
    #[test]
    fn cells_at_the_ends_of_memory() {
        let mut routines = Routines::default();
        for cell in [0x10, 0xffff_ffff_ffff_fffc, 0x18, u64::MAX] {
            routines.add_cell(cell, "memcpy");
        }
        let reads = RefCell::new(Vec::new());
        let read = |address: u64, words: &mut [u8]| {
            reads.borrow_mut().push((address, words.len()));
            false
        };
        assert_eq!(routines.newly_filled(read), []);
        let expected = [(0x10, 16), (0xffff_ffff_ffff_fffc, 8), (u64::MAX, 8)];
        assert_eq!(reads.take(), expected);
    }

    /// Check that a cell whose value changes all the time is let alone in the end, and that one which the linker fills late is not.
    #[test]
    fn cells_that_change_all_the_time() {
        let mut routines = Routines::default();
        routines.add_cell(0x1000, "memcpy");
        routines.add_cell(0x1008, "memset");
        let mut asked = [0, 0];
        for look in 1..100_u64 {
            let read = |_: u64, words: &mut [u8]| {
                let values = [look, if look < 50 { 1 } else { 2 }];
                let values: Vec<u8> = values.into_iter().flat_map(u64::to_le_bytes).collect();
                let len = words.len();
                words.copy_from_slice(&values[values.len() - len..]);
                true
            };
            for Filled { cell, value, .. } in routines.newly_filled(read) {
                asked[usize::from(cell == 0x1008)] += 1;
                routines.fill(cell, value, cell == 0x1008 && value == 2);
            }
        }
        assert_eq!(asked, [MOST_VALUES, 2]);
        assert_eq!(routines.through(0x1000), Some(("memcpy", None)));
        assert_eq!(routines.through(0x1008), Some(("memset", Some(2))));
        assert!(!routines.is_incomplete());
    }
}
