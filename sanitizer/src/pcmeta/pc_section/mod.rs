//! PC sections of any name: what `!pcsections` metadata in LLVM's IR makes the compiler write down
//! of instructions and functions.
//!
//! ```no_run
//! # use gwp_race::{image::Image, pcmeta::PcSection};
//! let image = Image::open("a.out".as_ref())?;
//! let section = PcSection::load(&image, &"my_calls!C=instruction,4".parse()?)?;
//! for entry in section.entries() {
//!     println!("{}: {:?}", entry.pc, entry.constants);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The section's bytes are kept, and an index of 8 bytes an entry. The format: LLVM's
//! PCSectionsMetadata page.

mod description;

use std::ops::Range;
use std::path::Path;

use super::RawSection;
use super::entry::Trouble;
use super::error::TableError;
use super::reader::Reader;
use super::text::Text;
use crate::addr::LinkAddr;
use crate::image::Image;

pub use description::{DescriptionError, PcSectionDescription};

/// One entry of a PC section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcEntry {
    /// The instruction, or the first byte of the function.
    pub pc: LinkAddr,
    /// The size of the function in bytes.
    pub size: Option<u64>,
    /// The constants that were written behind it.
    pub constants: Vec<u64>,
}

/// The entries of all sections of one name in an image.
pub struct PcSection {
    description: PcSectionDescription,
    sections: Vec<(LinkAddr, Vec<u8>)>,
    base: LinkAddr,
    /// Sorted by PC.
    index: Vec<Indexed>,
    entries: usize,
    discarded: usize,
}

#[derive(Clone, Copy)]
struct Indexed {
    /// The PC, as an offset from the base.
    pc: u32,
    /// Where the entry starts, counted through the bytes of all sections.
    at: u32,
}

impl PcSection {
    /// Reads the sections of an image that the description names. There may be none.
    ///
    /// # Errors
    /// A section is not laid out as the description says, or the code is larger than 4 GiB.
    pub fn load(image: &Image, description: &PcSectionDescription) -> Result<Self, TableError> {
        let mut sections = Vec::new();
        for section in image
            .sections()
            .filter(|section| section.name == description.name)
        {
            sections.push((section.address, image.relocated(&section)?.into_owned()));
        }
        Self::new(description, sections, &image.text_ranges(), image.name())
    }

    /// Reads `sections`, all of them as the description says; `text` is where the code is, sorted
    /// and without overlaps, and `file` is what messages call it.
    ///
    /// # Errors
    /// As [`PcSection::load`].
    pub fn decode(
        description: &PcSectionDescription,
        sections: &[RawSection<'_>],
        text: &[Range<LinkAddr>],
        file: &Path,
    ) -> Result<Self, TableError> {
        let sections = sections.iter();
        let sections = sections.map(|s| (s.address, s.data.to_vec())).collect();
        Self::new(description, sections, text, file)
    }

    fn new(
        description: &PcSectionDescription,
        sections: Vec<(LinkAddr, Vec<u8>)>,
        text: &[Range<LinkAddr>],
        file: &Path,
    ) -> Result<Self, TableError> {
        let mut text = Text::new(text).map_err(|span| TableError::TextTooLarge {
            file: file.into(),
            span,
        })?;
        let name = &description.name;
        let (mut index, mut entries, mut discarded) = (Vec::new(), 0, 0);
        let mut before = 0u32;
        for (address, data) in &sections {
            let mut reader = Reader::new(data, 0);
            while !reader.is_at_end() {
                let at = reader.at();
                let entry = read(description, *address, &mut reader, |_| {})
                    .map_err(|what| TableError::malformed(file, name, reader.at(), what))?;
                let Some((pc, size)) = entry else { continue };
                entries += 1;
                match text.offset_of(pc, size.unwrap_or(0)) {
                    Some(pc) => index.push(Indexed {
                        pc,
                        at: before.saturating_add(at as u32),
                    }),
                    None => discarded += 1,
                }
            }
            before = (u32::try_from(data.len()).ok())
                .and_then(|size| before.checked_add(size))
                .ok_or_else(|| TableError::malformed(file, name, 0, "it has more than 4 GiB"))?;
        }
        if !index.is_sorted_by_key(|entry: &Indexed| entry.pc) {
            index.sort_by_key(|entry| entry.pc);
        }
        index.shrink_to_fit();
        Ok(Self {
            description: description.clone(),
            sections,
            base: text.base(),
            index,
            entries,
            discarded,
        })
    }

    /// What it was read as.
    #[must_use]
    pub fn description(&self) -> &PcSectionDescription {
        &self.description
    }

    /// Whether the file has no section of this name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// How many bytes the sections have.
    #[must_use]
    pub fn section_bytes(&self) -> usize {
        self.sections.iter().map(|(_, data)| data.len()).sum()
    }

    /// How many entries there are, padding not counted.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        self.entries
    }

    /// How many entries point at no code of the file: leftovers of what the linker discarded.
    #[must_use]
    pub fn discarded(&self) -> usize {
        self.discarded
    }

    /// All entries, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = PcEntry> {
        self.sections.iter().flat_map(move |(address, data)| {
            let mut reader = Reader::new(data, 0);
            std::iter::from_fn(move || {
                while !reader.is_at_end() {
                    if let Some(entry) = self.entry(*address, &mut reader)? {
                        return Some(entry);
                    }
                }
                None
            })
        })
    }

    /// The entries for the instruction at `pc`, or for the function that `pc` is in: found by a
    /// binary search.
    pub fn entries_at(&self, pc: LinkAddr) -> impl Iterator<Item = PcEntry> {
        let offset = pc.0.checked_sub(self.base.0);
        let offset = offset.and_then(|offset| u32::try_from(offset).ok());
        // Functions do not overlap: the nearest start below is the one.
        let after = offset.map_or(0, |offset| self.index.partition_point(|e| e.pc <= offset));
        let nearest = after.checked_sub(1).and_then(|last| self.index.get(last));
        let start = nearest.map_or(0, |nearest| {
            self.index.partition_point(|entry| entry.pc < nearest.pc)
        });
        (self.index.get(start..after).unwrap_or_default().iter())
            .filter_map(|entry| self.read_at(entry.at))
            .filter(move |entry| match entry.size {
                Some(size) => pc.0.wrapping_sub(entry.pc.0) < size,
                None => entry.pc == pc,
            })
    }

    fn read_at(&self, at: u32) -> Option<PcEntry> {
        let mut at = at as usize;
        for (address, data) in &self.sections {
            if at < data.len() {
                return self.entry(*address, &mut Reader::new(data, at))?;
            }
            at -= data.len();
        }
        None
    }

    /// The entry where the reader is; `Some(None)` for padding.
    fn entry(&self, address: LinkAddr, reader: &mut Reader<'_>) -> Option<Option<PcEntry>> {
        let mut constants = Vec::with_capacity(self.description.constants.len());
        let entry = read(&self.description, address, reader, |value| {
            constants.push(value)
        })
        .ok()?;
        Some(entry.map(|(pc, size)| PcEntry {
            pc,
            size,
            constants,
        }))
    }
}

/// Reads one entry: the code, and the size of a function. Nothing for padding.
#[inline]
fn read(
    description: &PcSectionDescription,
    section: LinkAddr,
    reader: &mut Reader<'_>,
    mut constant: impl FnMut(u64),
) -> Result<Option<(LinkAddr, Option<u64>)>, Trouble> {
    let at = reader.at();
    let tail = reader.remaining();
    let width = if description.pointer_sized { 8 } else { 4 };
    if tail < width {
        // Alignment at the section's end.
        let before = *reader;
        if reader.bytes(tail)?.iter().any(|&byte| byte != 0) {
            *reader = before;
            return Err("the section ends within a code offset");
        }
        return Ok(None);
    }
    let distance = if description.pointer_sized {
        reader.u64()?.cast_signed()
    } else {
        reader.u32()?.cast_signed().into()
    };
    if distance == 0 {
        return Ok(None);
    }
    let pc = section.offset(at as i64).offset(distance);
    let size = match (description.has_size, description.compressed) {
        (false, _) => None,
        (true, false) => Some(reader.u32()?.into()),
        (true, true) => Some(reader.uleb128()?),
    };
    for &bytes in &description.constants {
        constant(match bytes {
            1 => reader.u8()?.into(),
            _ if description.compressed => reader.uleb128()?,
            2 => reader.u16()?.into(),
            4 => reader.u32()?.into(),
            _ => reader.u64()?,
        });
    }
    Ok(Some((pc, size)))
}

#[cfg(test)]
mod tests;
