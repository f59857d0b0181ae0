//! The functions of a file, by address.

use std::cell::Cell;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::addr::LinkAddr;
use crate::image::{FunctionSymbol, Image};
use crate::report::clean::clean;

/// The functions that a file names. Tables are sorted as a rule, so that the next function sought is often the one
/// that was found last, or the one behind it.
pub(super) struct Symbols<'data> {
    /// Sorted by address; of several names for one address the most public first.
    functions: Vec<FunctionSymbol<'data>>,
    /// How many functions start at the address that was sought last, or before it.
    last: Cell<usize>,
}

/// A place in a function: its name, and the distance from its start in bytes. Empty by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Symbol<'data> {
    name: &'data str,
    distance: u64,
}

impl<'data> Symbols<'data> {
    pub(super) fn new(image: &'data Image) -> Self {
        Self {
            functions: image.functions(),
            last: Cell::new(0),
        }
    }

    /// The function that this address is in.
    pub(super) fn at(&self, address: LinkAddr) -> Option<Symbol<'data>> {
        let before = self.functions.get(..self.count_up_to(address))?;
        let nearest = before.last()?.address;
        let first = before.partition_point(|symbol| symbol.address < nearest);
        let symbol = before.get(first)?;
        let distance = address.0 - nearest.0;
        (distance == 0 || distance < symbol.size).then_some(Symbol {
            name: symbol.name,
            distance,
        })
    }

    /// How many functions start at this address or before it.
    fn count_up_to(&self, address: LinkAddr) -> usize {
        let starts_before = |index: usize| {
            (self.functions.get(index)).is_some_and(|symbol| symbol.address <= address)
        };
        let last = self.last.get();
        let near = (last..=last + 1)
            .find(|&count| (count == 0 || starts_before(count - 1)) && !starts_before(count));
        let count = near.unwrap_or_else(|| {
            (self.functions).partition_point(|symbol| symbol.address <= address)
        });
        self.last.set(count);
        count
    }
}

impl fmt::Display for Symbol<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clean(self.name))?;
        match self.distance {
            0 => Ok(()),
            distance => write!(f, "+{distance:#x}"),
        }
    }
}

impl Serialize for Symbol<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Symbol<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Symbol".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A function's name as the linker has it, and `+0x` with the distance from its start in hexadecimal where there is one.",
            "type": "string"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that it does not matter what was sought before.
    #[test]
    fn any_order() {
        let function = |name, address, size| FunctionSymbol {
            name,
            address: LinkAddr(address),
            size,
            indirect: false,
            is_local: false,
        };
        let functions = vec![
            function("first", 0x10, 8),
            function("public", 0x20, 8),
            function("alias", 0x20, 4),
            function("last", 0x30, 0),
        ];
        let expected = |address| match address {
            0x10..0x18 => Some(("first", address - 0x10)),
            0x20..0x28 => Some(("public", address - 0x20)),
            0x30 => Some(("last", 0)),
            _ => None,
        };
        let symbols = Symbols {
            functions,
            last: Cell::new(0),
        };
        for first in 0..0x40 {
            for second in 0..0x40 {
                for address in [first, second] {
                    let found = symbols.at(LinkAddr(address));
                    let found = found.map(|symbol| (symbol.name, symbol.distance));
                    assert_eq!(found, expected(address), "{first:#x}, {second:#x}");
                }
            }
        }
        assert_eq!(
            symbols.at(LinkAddr(0x23)).unwrap().to_string(),
            "public+0x3"
        );
        assert_eq!(symbols.at(LinkAddr(0x20)).unwrap().to_string(), "public");
    }
}
