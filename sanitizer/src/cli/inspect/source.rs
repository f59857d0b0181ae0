//! The files that tables are read from, and whose functions they name.

use super::symbols::{Symbol, Symbols};
use crate::addr::LinkAddr;
use crate::image::Image;
use crate::pcmeta::{BlockMap, PseudoProbes, StackSizes};

/// A file, and the debug file that has what was stripped from it.
#[derive(Clone, Copy)]
pub(super) struct Files<'data> {
    pub(super) image: &'data Image,
    pub(super) debug: Option<&'data Image>,
}

impl<'data> Files<'data> {
    /// The one that has a table.
    fn having(&self, is_in: fn(&Image) -> bool) -> &'data Image {
        match self.debug {
            Some(debug) if !is_in(self.image) && is_in(debug) => debug,
            _ => self.image,
        }
    }

    /// The file with the block map.
    pub(super) fn blocks(&self) -> &'data Image {
        self.having(BlockMap::is_in)
    }

    /// The file with the pseudo probes.
    pub(super) fn probes(&self) -> &'data Image {
        self.having(PseudoProbes::is_in)
    }

    /// The file with the sizes of stacks.
    pub(super) fn stack_sizes(&self) -> &'data Image {
        self.having(StackSizes::is_in)
    }

    /// The debug file, if anything was taken from it.
    pub(super) fn used_debug(&self) -> Option<&'data Image> {
        let all = [self.blocks(), self.probes(), self.stack_sizes()];
        let is_used = |debug: &Image| all.iter().any(|used| std::ptr::eq(*used, debug));
        self.debug.filter(|debug| is_used(debug))
    }
}

/// The file that tables are of.
pub(super) struct Source<'data> {
    pub(super) name: &'data str,
    pub(super) image: &'data Image,
    pub(super) files: Files<'data>,
    symbols: Symbols<'data>,
}

impl<'data> Source<'data> {
    pub(super) fn new(name: &'data str, files: Files<'data>) -> Self {
        Self {
            name,
            image: files.image,
            files,
            symbols: Symbols::new(files.debug.unwrap_or(files.image)),
        }
    }

    pub(super) fn symbol(&self, address: LinkAddr) -> Option<Symbol<'data>> {
        self.symbols.at(address)
    }
}
