//! The code of a process by address: its bytes, and what is a function.

use std::{ops::Range, sync::Arc};

use super::{ModuleSet, Place};
use crate::{
    addr::{LinkAddr, RuntimeAddr},
    hunt::strategy::CodeView,
    insn::Transfer,
    reader::CodeReader,
    symbols::Outlined,
    tracee::modules::Modules,
};

/// Bytes of code that one look needs at most.
const CODE_WINDOW: usize = 64;
/// Modules whose tables are kept, as far as they were asked about.
const MOST_TABLES: usize = 32;
/// The longest function whose code is gone through, in bytes. Compilers make none that is nearly as long; a file can say so of all of its code.
const LONGEST_FUNCTION: usize = 1 << 20;
/// Bytes of a function that are looked at while a thread stands, from its beginning.
const CODE_AT_ONCE: usize = 4 << 10;

impl ModuleSet {
    /// The code of a covered function, a known `mem*` routine, or (in code without metadata) what
    /// the unwind tables or the symbol table say is a function; with its run-time start. Nothing where it is longer than `LONGEST_FUNCTION`:
    /// of a part, nobody could say what else leads there.
    #[must_use]
    pub fn function_code(&self, pc: u64) -> Option<(u64, &[u8])> {
        let place = self.place(pc)?;
        let known = known_function(&place);
        let function = known
            .or_else(|| place.described())
            .or_else(|| place.symbol())?;
        let length = function.1.0.checked_sub(function.0.0)?;
        let is_short = length <= LONGEST_FUNCTION as u64;
        is_short.then(|| code_of(&place, function, LONGEST_FUNCTION))?
    }

    /// The same of covered functions and `mem*` routines alone, `CODE_AT_ONCE` bytes at most: no table of a file is gone through, for a thread that stands waits.
    #[must_use]
    pub fn known_function_code(&self, pc: u64) -> Option<(u64, &[u8])> {
        let place = self.place(pc)?;
        code_of(&place, known_function(&place)?, CODE_AT_ONCE)
    }

    /// Whether a function begins at `pc`, and not a part of one that was laid out elsewhere.
    #[must_use]
    pub fn is_entry(&self, pc: u64) -> bool {
        let Some(place) = self.place(pc) else {
            return false;
        };
        let image = &place.module.module.image;
        let by_metadata = || {
            let metadata = place.module.metadata.as_ref()?;
            let function = metadata.function_at(place.link)?;
            let is_first = function.start == place.link;
            Some(is_first && metadata.whole_of(place.link).is_none())
        };
        // A stub of the linker jumps to a function of another module.
        image.is_stub(place.link)
            || by_metadata().unwrap_or_else(|| image.functions().begins_at(place.link))
    }

    /// The code of the function around `pc` from the beginning of the basic block there on, where that is told. Whoever has told it may be a file's by now.
    #[must_use]
    pub fn code_from_block<'a>(
        &self,
        pc: u64,
        (start, code): (u64, &'a [u8]),
    ) -> Option<(u64, &'a [u8])> {
        let place = self.place(pc)?;
        let block = place.code_tables().block_at(place.link)?;
        let begin = block.start.0.wrapping_add(place.module.module.bias);
        let offset = begin.checked_sub(start)?;
        let rest = code.get(usize::try_from(offset).ok()?..)?;
        Some((begin, rest))
    }

    /// Asks what else compilers tell of the code around these addresses, until it is past or has taken too long. Not for a thread that anybody waits for.
    pub fn read_code_tables(
        &mut self,
        pcs: &[u64],
        reader: &mut CodeReader,
        mut is_past: impl FnMut() -> bool,
    ) {
        let known = self.loaded.iter();
        let known = known.filter(|loaded| !loaded.code_tables.are_unknown());
        let are_many = known.count() > MOST_TABLES;
        for loaded in &mut self.loaded {
            if are_many || loaded.code_tables.are_full() {
                Arc::make_mut(loaded).code_tables = Arc::default();
            }
        }
        reader.begin();
        for &pc in pcs {
            let Some(index) = self.index_of(pc) else {
                continue;
            };
            let Some(loaded) = self.loaded.get_mut(index) else {
                continue;
            };
            let link = LinkAddr(pc.wrapping_sub(loaded.module.bias));
            // Whoever has made an access stands behind it, which may be in another block.
            let before = link.offset(-1);
            for link in [link, before] {
                if is_past() || reader.is_late() {
                    return;
                }
                if link == before && loaded.code_tables.block_at(before).is_some() {
                    continue;
                }
                loaded.read_code_tables(link, reader);
            }
        }
    }
}

/// Where a covered function or a known routine begins and ends.
fn known_function(place: &Place<'_>) -> Option<(LinkAddr, LinkAddr)> {
    let covered = place.function();
    let covered = covered.map(|function| (function.start, function.end));
    covered.or_else(|| place.routine())
}

/// The code of a function in the module of a place, `most` bytes of it at most, with its run-time start.
fn code_of<'a>(
    place: &Place<'a>,
    (start, end): (LinkAddr, LinkAddr),
    most: usize,
) -> Option<(u64, &'a [u8])> {
    let len = usize::try_from(end.0.checked_sub(start.0)?).ok()?;
    let module = &place.module.module;
    let code = module.image.bytes_at(start, len.min(most))?;
    Some((start.0.wrapping_add(module.bias), code))
}

impl CodeView for ModuleSet {
    fn code(&self, pc: u64) -> &[u8] {
        // Near the end of a segment there is less than a window.
        let bytes = self.place(pc).and_then(|place| {
            let image = &place.module.module.image;
            image.bytes_from(place.link, CODE_WINDOW)
        });
        bytes.unwrap_or_default()
    }

    fn is_analyzed(&self, pc: u64) -> bool {
        self.place(pc).is_some_and(|place| {
            place
                .function()
                .is_some_and(|function| function.is_analyzed())
        })
    }

    fn is_routine(&self, pc: u64) -> bool {
        self.place(pc).is_some_and(|place| place.is_mem_routine())
    }

    fn routine(&self, transfer: Transfer) -> Option<u64> {
        let (_, entry) = self.routine_behind(transfer)?;
        entry.filter(|&entry| self.routines.contract(entry).is_some())
    }

    fn function(&self, pc: u64) -> Option<(u64, &[u8])> {
        let is_analyzed = self.is_analyzed(pc);
        is_analyzed.then(|| self.function_code(pc)).flatten()
    }

    fn some_function(&self, number: u64) -> Option<u64> {
        let mut index = number.checked_rem(self.function_count())?;
        for loaded in &self.loaded {
            let Some(left) = index.checked_sub(loaded.function_count()) else {
                let index = usize::try_from(index).ok()?;
                let function = loaded.metadata.as_ref()?.function(index)?;
                return Some(function.start.0.wrapping_add(loaded.module.bias));
            };
            index = left;
        }
        None
    }

    fn function_count(&self) -> u64 {
        self.loaded
            .iter()
            .map(|loaded| loaded.function_count())
            .sum()
    }

    fn module_of(&self, pc: u64) -> Option<(Range<u64>, Range<u64>)> {
        let loaded = self.place(pc)?.module;
        let module = &loaded.module;
        Some((module.start.0..module.end.0, loaded.data()))
    }

    fn is_constant(&self, address: u64) -> bool {
        let maps = self.last.as_ref().map(Modules::<Outlined>::maps);
        let mapping = maps.and_then(|maps| maps.find(RuntimeAddr(address)));
        mapping.is_some_and(|mapping| !mapping.perms.write)
    }

    fn is_atomic(&self, pc: u64) -> bool {
        self.place(pc).is_some_and(|place| {
            place
                .module
                .metadata
                .as_ref()
                .is_some_and(|metadata| metadata.is_atomic(place.link))
        })
    }
}
