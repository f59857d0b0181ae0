//! What the symbols and relocations of a file say of memory routines.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::addr::LinkAddr;
use crate::bounded;
use crate::image::{FunctionSymbol, Image, SlotTarget};
use crate::routine::Contract;
use crate::routine_results::writes_results;

/// Cells and functions of each kind that are kept: C libraries have some dozens under all of their names.
const MOST: usize = 1 << 12;
/// The longest name of one, in bytes: those of C libraries have some thirty.
const LONGEST_NAME: usize = 64;
/// Functions of a file that only answer where others are.
const MOST_RESOLVERS: usize = 1 << 14;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// Cells that are filled with the address of one, by the name of what fills them.
    #[serde(deserialize_with = "bounded::list::<_, _, MOST>")]
    cells: Vec<(LinkAddr, String)>,
    /// The same for functions that write what they return into memory of their own.
    #[serde(deserialize_with = "bounded::list::<_, _, MOST>")]
    results: Vec<(LinkAddr, String)>,
    /// Functions of the file that are one.
    #[serde(deserialize_with = "bounded::list::<_, _, MOST>")]
    functions: Vec<(LinkAddr, String)>,
    /// Functions that only answer where one is, sorted.
    #[serde(deserialize_with = "bounded::list::<_, _, MOST_RESOLVERS>")]
    resolvers: Vec<LinkAddr>,
}

impl Declared {
    /// Reads symbols and relocations of a file.
    #[must_use]
    pub fn by(image: &Image) -> Self {
        let is_one = |symbol: &FunctionSymbol<'_>| is_routine(symbol.name);
        let symbols = image.functions_where(|symbol| symbol.indirect || is_one(symbol));
        let routines = || symbols.iter().filter(|symbol| is_one(symbol));
        let resolvers: HashMap<LinkAddr, &str> = routines()
            .filter(|symbol| symbol.indirect)
            .map(|symbol| (symbol.address, symbol.name))
            .collect();
        let mut results = Vec::new();
        let cells = image.slots().into_iter().filter_map(|slot| {
            let name = match slot.target {
                SlotTarget::Symbol(name) if writes_results(name) => {
                    if results.len() < MOST {
                        results.push((slot.address, name.to_owned()));
                    }
                    return None;
                }
                SlotTarget::Symbol(name) => is_routine(name).then_some(name)?,
                SlotTarget::Resolver(address) => resolvers.get(&address)?,
            };
            Some((slot.address, name.to_owned()))
        });
        let indirect = symbols.iter().filter(|symbol| symbol.indirect);
        let mut addresses: Vec<LinkAddr> = indirect.map(|symbol| symbol.address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(MOST_RESOLVERS);
        Self {
            cells: cells.take(MOST).collect(),
            results,
            functions: routines()
                .filter(|symbol| !symbol.indirect)
                .take(MOST)
                .map(|symbol| (symbol.address, symbol.name.to_owned()))
                .collect(),
            resolvers: addresses,
        }
    }

    /// Whether it can be so: whoever has read the file may be the file's by now.
    pub(super) fn is_sound(&self) -> bool {
        let routines = self.cells.iter().chain(&self.functions);
        routines.map(|(_, name)| name).all(|name| is_routine(name))
            && self.results.iter().all(|(_, name)| writes_results(name))
            && self.resolvers.is_sorted()
    }

    /// What they keep in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let named = [&self.cells, &self.results, &self.functions];
        let lists = named.iter().map(|list| {
            let names: usize = list.iter().map(|(_, name)| name.capacity()).sum();
            list.capacity() * size_of::<(LinkAddr, String)>() + names
        });
        lists.sum::<usize>() + self.resolvers.capacity() * size_of::<LinkAddr>()
    }

    /// Where functions that are one begin, sorted.
    pub(super) fn starts(&self) -> Vec<LinkAddr> {
        let mut starts: Vec<LinkAddr> = self.functions.iter().map(|&(start, _)| start).collect();
        starts.sort_unstable();
        starts
    }

    /// Cells with their names.
    pub fn cells(&self) -> impl Iterator<Item = (LinkAddr, &str)> {
        self.cells.iter().map(|(cell, name)| (*cell, name.as_str()))
    }

    /// Cells that lead to functions which write what they return into memory of their own, with their names.
    pub fn results(&self) -> impl Iterator<Item = (LinkAddr, &str)> {
        let results = self.results.iter();
        results.map(|(cell, name)| (*cell, name.as_str()))
    }

    /// Functions with their names.
    pub fn functions(&self) -> impl Iterator<Item = (LinkAddr, &str)> {
        let functions = self.functions.iter();
        functions.map(|(start, name)| (*start, name.as_str()))
    }

    /// Whether the function at an address only answers where another one is.
    #[must_use]
    pub fn is_resolver(&self, address: LinkAddr) -> bool {
        self.resolvers.binary_search(&address).is_ok()
    }
}

/// Whether a routine may have this name.
fn is_routine(name: &str) -> bool {
    name.len() <= LONGEST_NAME && Contract::of(name).is_some()
}
