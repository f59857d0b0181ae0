//! Basic blocks by address: the sections that `-fbasic-block-address-map` makes
//! (`SHT_LLVM_BB_ADDR_MAP`), for any question of the form "which block is this PC in?".
//!
//! ```no_run
//! # use gwp_race::{addr::LinkAddr, image::Image, pcmeta::BlockMap};
//! let image = Image::open("a.out".as_ref())?;
//! let map = BlockMap::load(&image)?;
//! if let Some(block) = map.block_at(LinkAddr(0x1234)) {
//!     println!("block {} of the function at {}", block.id, block.function);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`BlockMap`] keeps what the look-up needs. All that the sections hold, profiles included, is
//! read one function at a time by [`BlockMap::for_each`]. The format: `entry.rs`.

mod around;
mod entry;
mod feature;
mod sections;
mod table;

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::RawSection;
use super::error::{OnError, TableError, strictly};
use super::text::Text;
use crate::addr::LinkAddr;
use crate::image::Image;

pub use entry::{Block, BlockProfile, BlockRange, FunctionBlocks, Successor};
pub use feature::{BlockFlags, BlockMapFeatures};

use table::{MOST_FUNCTIONS, Packed, Table};

use sections::{Found, is_old, read_section, sections};

/// `SHT_LLVM_BB_ADDR_MAP`: entries with their versions.
const SHT_LLVM_BB_ADDR_MAP: u32 = 0x6fff_4c0a;

/// One section of a block map, as bytes.
#[derive(Clone, Copy, Debug)]
pub struct BlockMapSection<'data> {
    /// Its name and bytes. Where it is does not matter: its addresses are whole.
    pub raw: RawSection<'data>,
    /// Whether it is of the old type, whose entries have no versions.
    pub is_old: bool,
}

/// A basic block of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockAt {
    /// Its first byte.
    pub start: LinkAddr,
    /// The byte after its last.
    pub end: LinkAddr,
    /// Its number within the function.
    pub id: u32,
    /// What is known of it.
    pub flags: BlockFlags,
    /// The first byte of its function.
    pub function: LinkAddr,
}

/// What a section of a block map turned out to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMapSummary {
    /// Its name.
    pub name: String,
    /// Its size in the file in bytes.
    pub bytes: u64,
    /// The versions of its entries, sorted.
    pub versions: Vec<u8>,
    /// The features that any of its entries has.
    pub features: BlockMapFeatures,
    /// How many entries it has.
    pub functions: usize,
    /// How many blocks they list.
    pub blocks: usize,
    /// How many blocks are in no code of this file: leftovers of what the linker discarded.
    pub discarded: usize,
}

/// The basic blocks of one image, found by address.
#[derive(Default)]
pub struct BlockMap {
    base: LinkAddr,
    /// The addresses of the functions, as offsets from the base.
    functions: Vec<u32>,
    table: Table,
    sections: Vec<BlockMapSummary>,
}

impl BlockMap {
    /// Reads the block map of an image. An image without one gives an empty map.
    ///
    /// # Errors
    /// A section is damaged or of an unknown version, or the code is larger than 4 GiB.
    pub fn load(image: &Image) -> Result<Self, TableError> {
        strictly(|on_error| Self::load_readable(image, &image.text_ranges(), on_error))
    }

    /// Reads as much as can be read, of code that is in `text` (sorted and without overlaps);
    /// `on_error` is told what is left out.
    pub fn load_readable(image: &Image, text: &[Range<LinkAddr>], on_error: OnError<'_>) -> Self {
        let mut found = Vec::new();
        for section in sections(image) {
            match section {
                Ok(section) => found.push(section),
                Err(error) => on_error(error),
            }
        }
        let sections: Vec<BlockMapSection<'_>> = found.iter().map(Found::section).collect();
        let mut map = Self::decode_readable(&sections, text, image.name(), &mut *on_error);
        leave_out_nowhere(&mut map.sections, image.name(), on_error);
        map
    }

    /// Reads the block map in `sections`; `text` is where the code is, sorted and without
    /// overlaps, and `file` is what messages call it.
    ///
    /// # Errors
    /// As [`BlockMap::load`].
    pub fn decode(
        sections: &[BlockMapSection<'_>],
        text: &[Range<LinkAddr>],
        file: &Path,
    ) -> Result<Self, TableError> {
        strictly(|on_error| Self::decode_readable(sections, text, file, on_error))
    }

    fn decode_readable(
        sections: &[BlockMapSection<'_>],
        text: &[Range<LinkAddr>],
        file: &Path,
        on_error: OnError<'_>,
    ) -> Self {
        if sections.is_empty() {
            return Self::default();
        }
        let mut text = match text_of(text, file) {
            Ok(text) => text,
            Err(error) => {
                on_error(error);
                return Self::default();
            }
        };
        let mut map = Self {
            base: text.base(),
            ..Self::default()
        };
        let mut packed = Vec::new();
        for section in sections {
            let mut sections = std::mem::take(&mut map.sections);
            let outcome = summarize(section, file, &mut sections, |function| {
                map.add(function, &mut text, &mut packed)
            });
            map.sections = sections;
            outcome.unwrap_or_else(&mut *on_error);
        }
        map.functions.shrink_to_fit();
        map.table = Table::new(packed);
        map
    }

    /// What the block maps of an image hold, read one function at a time: this takes no memory that
    /// grows with them. `on_error` is told what is left out.
    pub fn summaries(image: &Image, on_error: OnError<'_>) -> Vec<BlockMapSummary> {
        let mut summaries = Vec::new();
        let file = image.name();
        let mut found = sections(image).peekable();
        if found.peek().is_none() {
            return summaries;
        }
        let mut text = match text_of(&image.text_ranges(), file) {
            Ok(text) => text,
            Err(error) => {
                on_error(error);
                return summaries;
            }
        };
        for section in found {
            let outcome = section.and_then(|section| {
                summarize(&section.section(), file, &mut summaries, |function| {
                    Ok(match entry_of(function, &mut text) {
                        Some(_) => place_blocks(function, &mut text, |_, _| ()),
                        None => function.block_count(),
                    })
                })
            });
            outcome.unwrap_or_else(&mut *on_error);
        }
        leave_out_nowhere(&mut summaries, file, on_error);
        summaries
    }

    /// Reads all block maps of an image one function at a time, in the order of the file. What
    /// `visit` is given is filled anew for the next.
    ///
    /// # Errors
    /// A section is damaged or of an unknown version; what can be read is visited all the same.
    pub fn for_each(
        image: &Image,
        mut visit: impl FnMut(&FunctionBlocks),
    ) -> Result<(), TableError> {
        strictly(|on_error| {
            for section in sections(image) {
                let outcome = section.and_then(|section| {
                    read_section(&section.section(), image.name(), |function| {
                        visit(function);
                        Ok(())
                    })
                });
                outcome.unwrap_or_else(&mut *on_error);
            }
        })
    }

    /// Whether an image has a section of this kind.
    #[must_use]
    pub fn is_in(image: &Image) -> bool {
        let mut sections = image.sections();
        sections.any(|section| is_old(section.kind).is_some())
    }

    /// Whether there is no section of this kind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// The sections that it came from, in file order.
    #[must_use]
    pub fn sections(&self) -> &[BlockMapSummary] {
        &self.sections
    }

    /// The basic block that `pc` is in.
    #[must_use]
    pub fn block_at(&self, pc: LinkAddr) -> Option<BlockAt> {
        let offset = u32::try_from(pc.0.checked_sub(self.base.0)?).ok()?;
        self.table
            .at(offset)
            .map(|block| self.with_addresses(block))
    }

    /// All blocks that can be found by address: sorted, without overlaps, none empty.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = BlockAt> {
        (self.table.blocks().iter()).map(|&block| self.with_addresses(block))
    }

    /// How many bytes of memory the look-up takes.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.table.memory_size() + self.functions.capacity() * size_of::<u32>()
    }

    /// Adds the blocks of a function and says how many of them are in no code.
    fn add(
        &mut self,
        function: &FunctionBlocks,
        text: &mut Text,
        packed: &mut Vec<Packed>,
    ) -> Result<usize, &'static str> {
        let Some(entry) = entry_of(function, text) else {
            return Ok(function.block_count());
        };
        let index = self.functions.len();
        if index >= MOST_FUNCTIONS {
            return Err("there are more functions than the table has room for");
        }
        self.functions.push(entry);
        Ok(place_blocks(function, text, |start, block| {
            packed.push(Packed::new(
                start,
                block.size,
                block.id,
                index as u32,
                block.flags.0,
            ));
        }))
    }

    fn with_addresses(&self, block: Packed) -> BlockAt {
        let address = |offset: u32| LinkAddr(self.base.0.wrapping_add(offset.into()));
        let start = address(block.start);
        let function = self.functions.get(block.function()).copied();
        BlockAt {
            start,
            end: start.offset(block.size.into()),
            id: block.id,
            flags: BlockFlags(block.flags()),
            function: address(function.unwrap_or(block.start)),
        }
    }
}

impl BlockMapSummary {
    fn count(&mut self, function: &FunctionBlocks) {
        self.functions += 1;
        self.blocks += function.block_count();
        self.features = self.features | function.features;
        if let Err(place) = self.versions.binary_search(&function.version) {
            self.versions.insert(place, function.version);
        }
    }
}

fn text_of(ranges: &[Range<LinkAddr>], file: &Path) -> Result<Text, TableError> {
    Text::new(ranges).map_err(|span| TableError::TextTooLarge {
        file: file.into(),
        span,
    })
}

/// Reads a section and adds its summary, which goes as far as the section can be read; `place` is given
/// each function, and says how many of its blocks are in no code.
fn summarize(
    section: &BlockMapSection<'_>,
    file: &Path,
    summaries: &mut Vec<BlockMapSummary>,
    mut place: impl FnMut(&FunctionBlocks) -> Result<usize, &'static str>,
) -> Result<(), TableError> {
    let mut summary = BlockMapSummary {
        name: section.raw.name.into(),
        bytes: section.raw.data.len() as u64,
        versions: Vec::new(),
        features: BlockMapFeatures::default(),
        functions: 0,
        blocks: 0,
        discarded: 0,
    };
    let outcome = read_section(section, file, |function| {
        summary.count(function);
        summary.discarded += place(function)?;
        Ok(())
    });
    if outcome.is_ok() || summary.functions > 0 {
        summaries.push(summary);
    }
    outcome
}

/// Leaves out the sections of which no block is in code, and tells of them.
fn leave_out_nowhere(summaries: &mut Vec<BlockMapSummary>, file: &Path, on_error: OnError<'_>) {
    summaries.retain(|summary| {
        let is_nowhere = summary.blocks > 0 && summary.discarded == summary.blocks;
        if is_nowhere {
            on_error(TableError::Nowhere {
                file: file.into(),
                section: summary.name.clone(),
            });
        }
        !is_nowhere
    });
}

/// Where the function is entered, as an offset; nothing for one that is in no code of the file.
fn entry_of(function: &FunctionBlocks, text: &mut Text) -> Option<u32> {
    text.offset_of(function.ranges().first()?.base, 0)
}

/// Gives `keep` each block that is not empty with its offset, and says how many blocks are in no code.
fn place_blocks(
    function: &FunctionBlocks,
    text: &mut Text,
    mut keep: impl FnMut(u32, &Block),
) -> usize {
    let mut discarded = 0;
    for range in function.ranges() {
        for block in function.blocks(range).iter().filter(|block| block.size > 0) {
            let start = range.base.offset(block.offset.into());
            match text.offset_of(start, block.size.into()) {
                Some(start) => keep(start, block),
                None => discarded += 1,
            }
        }
    }
    discarded
}

#[cfg(test)]
mod tests;
