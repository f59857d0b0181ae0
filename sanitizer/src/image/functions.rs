//! The functions, labels and objects of a file.

use std::ops::Range;

use crate::addr::LinkAddr;

use super::{FunctionSymbol, Image, ObjectSymbol, SectionKind, Slot, Symbol, slot, symbol};

impl Image {
    /// Where instructions are, sorted and without overlaps: the executable sections, or where
    /// section headers are gone the executable segments. Of a file with debug information only, where
    /// those of its program are. Functions without instructions may be in ranges without bytes.
    #[must_use]
    pub fn text_ranges(&self) -> Vec<Range<LinkAddr>> {
        let headers = &self.inner.headers;
        let sections = headers
            .sections
            .iter()
            .filter(|s| s.flags.executable && s.flags.allocated)
            .filter(|s| s.kind != SectionKind::NoBits || headers.is_debug_only)
            .map(|s| (s.address.0, s.size));
        let mut ranges: Vec<(u64, u64)> = if headers.sections.is_empty() {
            (self.segments().iter())
                .filter(|s| s.is_executable)
                .map(|s| (s.address.0, s.file_size))
                .collect()
        } else {
            sections.collect()
        };
        ranges.sort_unstable();
        let mut merged: Vec<Range<LinkAddr>> = Vec::with_capacity(ranges.len());
        for (start, size) in ranges {
            let end = LinkAddr(start.saturating_add(size));
            match merged.last_mut() {
                Some(last) if start < last.end.0 => last.end = last.end.max(end),
                _ => merged.push(LinkAddr(start)..end),
            }
        }
        merged
    }

    /// The functions that the symbol table names (`.symtab`, or `.dynsym` where that is
    /// stripped), sorted by address; of several names for one address the most public first. Where there are more of them
    /// than are kept, those that come first in the table.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionSymbol<'_>> {
        symbol::functions(self.data(), &self.inner.headers, |_| true).symbols
    }

    /// The same if it is all of them, for what is concluded of one that is missing.
    #[must_use]
    pub fn all_functions(&self) -> Option<Vec<FunctionSymbol<'_>>> {
        let kept = symbol::functions(self.data(), &self.inner.headers, |_| true);
        kept.are_all.then_some(kept.symbols)
    }

    /// Those of them that are wanted, wherever they are in the table.
    #[must_use]
    pub fn functions_where<'image>(
        &'image self,
        is_wanted: impl Fn(&FunctionSymbol<'image>) -> bool,
    ) -> Vec<FunctionSymbol<'image>> {
        symbol::functions(self.data(), &self.inner.headers, is_wanted).symbols
    }

    /// The same, with whether they are all that there are.
    #[must_use]
    pub fn kept_functions<'image>(
        &'image self,
        is_wanted: impl Fn(&FunctionSymbol<'image>) -> bool,
    ) -> (Vec<FunctionSymbol<'image>>, bool) {
        let kept = symbol::functions(self.data(), &self.inner.headers, is_wanted);
        (kept.symbols, kept.are_all)
    }

    /// All of them in the order of the table, where nothing need be kept.
    pub fn each_function(&self) -> impl Iterator<Item = FunctionSymbol<'_>> {
        symbol::each_function(self.data(), &self.inner.headers)
    }

    /// The one that begins at an address or next before it: of several there, the one that [`Image::functions`] has last.
    #[cfg(test)]
    #[must_use]
    pub fn function_before(&self, address: LinkAddr) -> Option<FunctionSymbol<'_>> {
        symbol::function_before(self.data(), &self.inner.headers, address)
    }

    /// What the symbol table names with a size and without saying what it is, sorted as [`Image::functions`]: so clang
    /// names the parts of functions that it lays out apart. Nothing where there are more than are kept.
    #[must_use]
    pub fn labels(&self) -> Option<Vec<Symbol<'_>>> {
        let kept = symbol::labels(self.data(), &self.inner.headers);
        kept.are_all.then_some(kept.symbols)
    }

    /// The variables that the symbol table names, thread-local ones apart; sorted as
    /// [`Image::functions`].
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectSymbol<'_>> {
        symbol::objects(self.data(), &self.inner.headers).symbols
    }

    /// The cells that the dynamic linker fills with the addresses of functions, as far as a
    /// section header leads to the relocations.
    #[must_use]
    pub fn slots(&self) -> Vec<Slot<'_>> {
        slot::slots(self.data(), &self.inner.headers)
    }
}
