//! The memory routines of a live process. What `memcpy` and its kin access is accessed by their
//! caller, so they must be known exactly: where they are, who has called them, and what with.
//!
//! A C library chooses a variant for the processor when it is loaded (`STT_GNU_IFUNC`), and
//! distributions strip the variants' names. What remains are relocations: this cell of the global
//! offset table is to hold the address of `memcpy`. So the cells are read in the live process.

mod code;
mod contract;

use std::collections::HashMap;

use crate::{
    addr::LinkAddr,
    image::{Image, SlotTarget},
};

pub use code::Code;
pub use contract::{Contract, Range};

/// What a file says of routines.
#[derive(Debug, Default)]
pub struct Declared {
    /// Cells that are filled with the address of one, by the name of what fills them.
    cells: Vec<(LinkAddr, String)>,
    /// Functions of the file that are one.
    functions: Vec<(LinkAddr, String)>,
    /// Functions that only answer where one is.
    resolvers: Vec<LinkAddr>,
}

impl Declared {
    /// Reads symbols and relocations of a file.
    #[must_use]
    pub fn by(image: &Image) -> Self {
        let symbols = image.functions();
        let routines = || {
            symbols
                .iter()
                .filter(|symbol| Contract::of(symbol.name).is_some())
        };
        let resolvers: HashMap<LinkAddr, &str> = routines()
            .filter(|symbol| symbol.indirect)
            .map(|symbol| (symbol.address, symbol.name))
            .collect();
        let cells = image.slots().into_iter().filter_map(|slot| {
            let name = match slot.target {
                SlotTarget::Symbol(name) => Contract::of(name).map(|_| name)?,
                SlotTarget::Resolver(address) => resolvers.get(&address)?,
            };
            Some((slot.address, name.to_owned()))
        });
        Self {
            cells: cells.collect(),
            functions: routines()
                .filter(|symbol| !symbol.indirect)
                .map(|symbol| (symbol.address, symbol.name.to_owned()))
                .collect(),
            resolvers: symbols
                .iter()
                .filter(|symbol| symbol.indirect)
                .map(|symbol| symbol.address)
                .collect(),
        }
    }

    /// Cells with their names.
    pub fn cells(&self) -> impl Iterator<Item = (LinkAddr, &str)> {
        self.cells.iter().map(|(cell, name)| (*cell, name.as_str()))
    }

    /// Functions with their names.
    pub fn functions(&self) -> impl Iterator<Item = (LinkAddr, &str)> {
        let functions = self.functions.iter();
        functions.map(|(start, name)| (*start, name.as_str()))
    }

    /// Whether the function at an address only answers where another one is.
    #[must_use]
    pub fn is_resolver(&self, address: LinkAddr) -> bool {
        self.resolvers.contains(&address)
    }
}

/// A cell of the live process.
#[derive(Clone, Debug)]
struct Cell {
    name: String,
    /// The routine that it leads to, once the dynamic linker has filled it.
    entry: Option<u64>,
}

/// Where routines begin in a process, and what leads to them; all by run-time address.
#[derive(Debug, Default)]
pub struct Routines {
    cells: HashMap<u64, Cell>,
    /// Names, and what the routine does; nothing where two names contradict each other.
    entries: HashMap<u64, (String, Option<Contract>)>,
}

impl Routines {
    /// A cell is to lead to a routine of this name, and does so once `entry` is known.
    pub fn add_cell(&mut self, cell: u64, name: &str, entry: Option<u64>) {
        let name = name.to_owned();
        self.cells.insert(cell, Cell { name, entry });
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
        self.cells.values().any(|cell| cell.entry.is_none())
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
