//! What symbols say of the parts of functions: clang and GCC name them after the whole.

use std::collections::HashMap;
use std::ops::Range;

use crate::addr::LinkAddr;
use crate::image::{FunctionSymbol, Image};

/// The symbols of a file's functions and of their parts.
pub(super) struct Names<'image> {
    /// Sorted by address.
    symbols: Vec<FunctionSymbol<'image>>,
    /// Where the functions begin that have a name; none where several have it.
    starts: HashMap<&'image str, Option<LinkAddr>>,
}

impl<'image> Names<'image> {
    /// None at all where a file has more symbols than are kept: of a name that two functions may have nothing follows, and a file
    /// without symbols can be read as well.
    pub(super) fn of(image: &'image Image) -> Self {
        let all = || Some((image.all_functions()?, image.labels()?));
        let (mut symbols, labels) = all().unwrap_or_default();
        symbols.extend((labels.into_iter()).filter(|label| whole_of_symbol(label).is_some()));
        symbols.sort_by_key(|symbol| symbol.address);
        let mut starts = HashMap::with_capacity(symbols.len());
        for symbol in &symbols {
            starts
                .entry(symbol.name)
                .and_modify(|start| *start = None)
                .or_insert(Some(symbol.address));
        }
        Self { symbols, starts }
    }

    fn at(&self, address: LinkAddr) -> impl Iterator<Item = &FunctionSymbol<'image>> {
        let first = (self.symbols).partition_point(|symbol| symbol.address < address);
        let from = self.symbols.get(first..).unwrap_or_default();
        from.iter()
            .take_while(move |symbol| symbol.address == address)
    }

    /// The code that is named as a part and has a size.
    pub(super) fn parts(&self) -> impl Iterator<Item = Range<LinkAddr>> {
        let parts = (self.symbols.iter())
            .filter(|symbol| symbol.size > 0 && whole_of_symbol(symbol).is_some());
        parts.map(|symbol| symbol.address..LinkAddr(symbol.address.0.saturating_add(symbol.size)))
    }

    /// Whether nothing names what begins here as a function of its own.
    pub(super) fn may_be_part(&self, address: LinkAddr) -> bool {
        (self.at(address)).all(|symbol| whole_of_symbol(symbol).is_some())
    }

    /// The function of which all names of the code that begins here say that it is a part; nothing where it has no
    /// name, several functions, or a function whose name another one has too.
    pub(super) fn whole_of(&self, address: LinkAddr) -> Option<LinkAddr> {
        let mut wholes = self.at(address).map(|symbol| {
            let name = whole_of_symbol(symbol)?;
            // Part names are as unique as those of wholes.
            self.starts.get(symbol.name).copied().flatten()?;
            self.starts.get(name).copied().flatten()
        });
        let first = wholes.next()??;
        wholes.all(|whole| whole == Some(first)).then_some(first)
    }

    /// Whether the names of the code that begins at `part`, should it have any, leave it to be a part of the function
    /// at `whole`.
    pub(super) fn allow(&self, part: LinkAddr, whole: LinkAddr) -> bool {
        (self.at(part)).all(|symbol| {
            whole_of_symbol(symbol)
                .is_some_and(|name| self.at(whole).any(|symbol| symbol.name == name))
        })
    }
}

/// Whether a symbol names what begins at an address as a function of its own, not as a part of one.
#[cfg(test)]
#[must_use]
pub fn names_function(image: &Image, address: LinkAddr) -> bool {
    image
        .each_function()
        .any(|symbol| symbol.address == address && is_named_whole(&symbol))
}

/// Whether a symbol names a function of its own, not a part of one.
pub(in crate::symbols) fn is_named_whole(symbol: &FunctionSymbol<'_>) -> bool {
    whole_of_symbol(symbol).is_none()
}

/// The name of the function of which a symbol names a part: such symbols are local.
fn whole_of_symbol<'a>(symbol: &FunctionSymbol<'a>) -> Option<&'a str> {
    symbol.is_local.then(|| whole_name(symbol.name)).flatten()
}

/// The name of the function that is in the name of a part, as LLVM's `MachineBasicBlock::getSymbol` and
/// `HotColdSplitting` make them. (What the latter takes out is called, without metadata of its own; its atomic instructions
/// are marked.)
fn whole_name(name: &str) -> Option<&str> {
    let numbered = |middle| {
        let (whole, number) = name.rsplit_once(middle)?;
        let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then_some(whole)
    };
    (name.strip_suffix(".cold"))
        .or_else(|| name.strip_suffix(".eh"))
        .or_else(|| numbered(".__part."))
        .or_else(|| numbered(".cold."))
        .filter(|whole| !whole.is_empty())
}

#[cfg(test)]
mod tests {
    use super::whole_name;

    /// Check the names that clang gives to parts, and such as look like them.
    #[test]
    fn names_of_parts() {
        for (name, whole) in [
            ("_Z1fv.cold", Some("_Z1fv")),
            ("f.eh", Some("f")),
            ("f.__part.12", Some("f")),
            ("f.__part.1.cold", Some("f.__part.1")),
            ("f.cold.1", Some("f")),
            ("f.cold.", None),
            ("f.__part.", None),
            ("f.__part.x", None),
            (".cold", None),
            ("f", None),
        ] {
            assert_eq!(whole_name(name), whole, "{name}");
        }
    }
}
