//! PC-keyed metadata that compilers leave for sanitizers: bytes in, compact tables out.
//!
//! With `-fexperimental-sanitize-metadata=atomics` clang writes down, in sections of their own,
//! which functions it compiled with the flag (*covered* functions) and which of their
//! instructions carry out atomic operations. From the two follows what no look at machine code
//! can tell: whether a `mov` is an atomic load of the source or a plain one.
//!
//! ```no_run
//! # use gwp_race::{image::Image, pcmeta::Metadata};
//! let image = Image::open("a.out".as_ref())?;
//! let metadata = Metadata::load(&image)?;
//! for function in metadata.functions() {
//!     println!("{} is analyzed: {}", function.start, function.is_analyzed());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The format: LLVM's PCSectionsMetadata page and `SanitizerBinaryMetadata.cpp`.

mod atomicity;
mod block_map;
mod builder;
mod coverage;
mod entry;
mod error;
mod fault_map;
mod flat;
mod format;
mod fragment;
mod function_table;
mod layout;
mod pc_section;
mod pc_set;
mod pseudo_probe;
mod raw;
mod reader;
mod stack_args;
mod stack_map;
mod stack_sizes;
#[cfg(test)]
pub(crate) mod testing;
mod text;

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use crate::addr::LinkAddr;
use crate::image::Image;
use crate::image::SectionRef;
use crate::insn::AccessKind;

pub use atomicity::Atomicity;
pub use block_map::{
    Block, BlockAt, BlockFlags, BlockMap, BlockMapFeatures, BlockMapSection, BlockMapSummary,
    BlockProfile, BlockRange, FunctionBlocks, Successor,
};
pub use coverage::{Coverage, CoveragePoint};
pub use error::{MetadataError, OnError, TableError};
pub use fault_map::{Fault, FaultKind, FaultMaps};
pub use format::{Features, Format, SectionKind, is_metadata};
pub use pc_section::{
    DescriptionError, PcConstant, PcConstantForm, PcEntry, PcEntryForm, PcSection,
    PcSectionDescription,
};
pub use pseudo_probe::{InlineSite, ProbeFunction, ProbeKind, PseudoProbe, PseudoProbes};
pub use stack_map::{
    LiveOut, LiveValue, Location, StackMap, StackMapFunction, StackMapHeader, StackMapRecord,
    StackMaps, dwarf_register_name,
};
pub use stack_sizes::{StackSize, StackSizes};

use builder::Builder;
use format::Named;
use function_table::FunctionTable;
use function_table::Unpacked;
use layout::Bytes;
use pc_set::PcSet;
use stack_args::StackArgs;
use text::Text;

pub use fragment::Fragment;

pub use raw::{RawSection, SectionSummary};

/// Bytes of metadata of one file that are read: the entries of some three million functions, kept in about 60 MB.
const MOST_BYTES: u64 = 32 << 20;

/// A function that the compiler wrote metadata for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its first byte.
    pub start: LinkAddr,
    /// The byte after its last.
    pub end: LinkAddr,
    /// What was recorded about it.
    pub features: Features,
    /// The version of the metadata that its compiler wrote: 1 (clang 16) or 2.
    pub version: u8,
    /// Whether its 8- and 16-bit atomic loads may be missing from the atomics (clang 16 to 18).
    pub loses_small_loads: bool,
}

impl Function {
    /// Whether its atomic operations are known, so that all else in it is plain.
    #[must_use]
    pub fn is_analyzed(&self) -> bool {
        self.features.contains(Features::ATOMICS)
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }
}

/// The metadata of one image: which functions were analyzed, and which instructions are atomic.
#[derive(Default)]
pub struct Metadata {
    base: LinkAddr,
    functions: FunctionTable,
    atomics: PcSet,
    stack_args: StackArgs,
    /// The starts of what was added of functions that were split, sorted, with those of the functions.
    fragments: Vec<(u32, u32)>,
    sections: Vec<SectionSummary>,
}

impl Metadata {
    /// Decodes the metadata of an image. An image without any gives an empty table.
    ///
    /// # Errors
    /// A section is damaged or of an unknown version, or the code is larger than 4 GiB.
    pub fn load(image: &Image) -> Result<Self, MetadataError> {
        let named: Vec<SectionRef<'_>> = (image.sections())
            .filter(|section| section.is_allocated && is_metadata(section.name))
            .collect();
        let bytes = named.iter().map(|section| section.data.len() as u64).sum();
        if bytes > MOST_BYTES {
            return Err(MetadataError::TooLarge {
                file: image.name().into(),
                bytes,
                limit: MOST_BYTES,
            });
        }
        let mut data: Vec<Cow<'_, [u8]>> = Vec::with_capacity(named.len());
        for section in &named {
            // A linker has left nothing to relocate in them.
            if image.is_object() && section.size > 0 && !image.has_relocations(section) {
                return Err(MetadataError::NoRelocations {
                    file: image.name().into(),
                    section: section.name.into(),
                });
            }
            data.push(match image.is_object() {
                true => image.relocated(section)?,
                false => Cow::Borrowed(section.data),
            });
        }
        let sections: Vec<RawSection<'_>> = (named.iter().zip(&data))
            .map(|(section, data)| RawSection {
                name: section.name,
                address: section.address,
                data,
                encoding: image.encoding(),
            })
            .collect();
        Self::decode(&sections, &image.text_ranges(), image.name())
    }

    /// Whether a file carries any, of whatever version: cheap, since nothing is decoded.
    #[must_use]
    pub fn is_carried_by(image: &Image) -> bool {
        image
            .sections()
            .any(|section| section.is_allocated && section.size > 0 && is_metadata(section.name))
    }

    /// Decodes the metadata among `sections`; `text` is where the code is, sorted and without
    /// overlaps, and `file` is what messages call it.
    ///
    /// # Errors
    /// As [`Metadata::load`].
    pub fn decode(
        sections: &[RawSection<'_>],
        text: &[Range<LinkAddr>],
        file: &Path,
    ) -> Result<Self, MetadataError> {
        let mut builder = Builder::default();
        let mut summaries = Vec::new();
        let mut sections = sections
            .iter()
            .filter(|section| !section.data.is_empty())
            .peekable();
        if sections.peek().is_none() {
            return Ok(Self::default());
        }
        let mut text = Text::new(text).map_err(|span| MetadataError::TextTooLarge {
            file: file.into(),
            span,
        })?;
        for section in sections {
            let (kind, formats, is_numbered) = match format::of_name(section.name) {
                Named::Other => continue,
                Named::Metadata {
                    kind,
                    formats,
                    is_numbered,
                } => (kind, formats, is_numbered),
                Named::Unknown(version) => {
                    return Err(MetadataError::UnknownVersion {
                        file: file.into(),
                        section: section.name.into(),
                        version,
                    });
                }
            };
            let bytes = Bytes {
                kind,
                address: section.address,
                data: section.data,
                encoding: section.encoding,
            };
            let malformed = |(offset, what)| MetadataError::Malformed {
                file: file.into(),
                section: section.name.into(),
                offset,
                what,
            };
            let mut summary = SectionSummary {
                name: section.name.into(),
                kind,
                formats: Vec::new(),
                bytes: section.data.len() as u64,
                entries: 0,
                discarded: 0,
                empty: 0,
            };
            builder.section_is_numbered = is_numbered;
            builder
                .add_section(&bytes, &mut text, &formats, &mut summary)
                .map_err(malformed)?;
            summaries.push(summary);
        }
        Ok(Self {
            base: text.base(),
            functions: FunctionTable::new(builder.functions),
            atomics: PcSet::new(builder.atomics),
            stack_args: builder.stack_args.sorted(),
            fragments: Vec::new(),
            sections: summaries,
        })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.len() == 0 && self.atomics.len() == 0
    }

    /// The sections that it came from, in file order.
    #[must_use]
    pub fn sections(&self) -> &[SectionSummary] {
        &self.sections
    }

    /// The covered function that `pc` is in.
    #[inline]
    #[must_use]
    pub fn function_at(&self, pc: LinkAddr) -> Option<Function> {
        let found = self.functions.at(self.offset(pc)?)?;
        Some(self.with_addresses(found))
    }

    /// Whether the instruction that starts at `pc` (prefixes included) carries out an atomic
    /// operation.
    #[inline]
    #[must_use]
    pub fn is_atomic(&self, pc: LinkAddr) -> bool {
        self.offset(pc)
            .is_some_and(|offset| self.atomics.contains(offset))
    }

    /// Whether the access of `size` bytes by the instruction at `pc` was atomic in the source.
    ///
    /// Outside of analyzed functions nothing is known. Within them what is not marked is plain,
    /// except what the compiler is known or feared to lose the mark of: 8- and 16-bit loads of
    /// clang 16 to 18. Inline assembly is never marked and counts as plain. What the instruction
    /// itself tells (x86 `lock` prefixes, `xchg` with memory) is not looked at here.
    #[must_use]
    pub fn atomicity(&self, pc: LinkAddr, size: u64, kind: AccessKind) -> Atomicity {
        if self.is_atomic(pc) {
            return Atomicity::Atomic;
        }
        match self.function_at(pc) {
            Some(function)
                if function.is_analyzed()
                    && !(function.loses_small_loads && atomicity::is_small_load(size, kind)) =>
            {
                Atomicity::Plain
            }
            _ => Atomicity::Unknown,
        }
    }

    /// How many bytes of arguments the function that starts at `start` takes on the stack, where
    /// its compiler wrote that down (`-fexperimental-sanitize-metadata=uar`); a stack that is
    /// rewound for use-after-return must keep them.
    #[must_use]
    pub fn stack_args_size(&self, start: LinkAddr) -> Option<u32> {
        self.stack_args.of(self.offset(start)?)
    }

    /// The covered functions, and the parts that were added to them, sorted by address and without overlaps.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = Function> {
        self.functions
            .iter()
            .map(|function| self.with_addresses(function))
    }

    /// The covered function of this index, in the order of addresses.
    #[must_use]
    pub fn function(&self, index: usize) -> Option<Function> {
        let function = self.functions.nth(index)?;
        Some(self.with_addresses(function))
    }

    /// The addresses of atomic instructions, sorted and without duplicates.
    pub fn atomics(&self) -> impl Iterator<Item = LinkAddr> {
        self.atomics.iter().map(|offset| self.address(offset))
    }

    /// How many covered functions there are.
    #[must_use]
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// How many atomic instructions there are.
    #[must_use]
    pub fn atomic_count(&self) -> usize {
        self.atomics.len()
    }

    /// How many bytes of memory the tables of functions (without the sizes of their stack arguments) and of
    /// atomics take.
    #[must_use]
    pub fn memory_size(&self) -> (usize, usize) {
        (self.functions.memory_size(), self.atomics.memory_size())
    }

    /// How many bytes of memory these take together with the parts of functions that were added.
    #[must_use]
    pub fn kept(&self) -> usize {
        let (functions, atomics) = self.memory_size();
        functions + atomics + self.fragments.capacity() * size_of::<(u32, u32)>()
    }

    #[inline]
    fn offset(&self, pc: LinkAddr) -> Option<u32> {
        u32::try_from(pc.0.checked_sub(self.base.0)?).ok()
    }

    fn address(&self, offset: u32) -> LinkAddr {
        LinkAddr(self.base.0.wrapping_add(offset.into()))
    }

    fn with_addresses(&self, found: Unpacked) -> Function {
        let start = self.address(found.start);
        Function {
            start,
            end: LinkAddr(start.0.wrapping_add(found.size.into())),
            features: found.features,
            version: found.version,
            loses_small_loads: found.loses_small_loads,
        }
    }
}

#[cfg(test)]
mod tests;
