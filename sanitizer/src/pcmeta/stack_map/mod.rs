//! Stack maps: where the live values are at the PCs that `llvm.experimental.stackmap`,
//! `patchpoint` and `gc.statepoint` name, from the section `.llvm_stackmaps`.
//!
//! ```no_run
//! # use gwp_race::{addr::LinkAddr, image::Image, pcmeta::StackMaps};
//! let image = Image::open("a.out".as_ref())?;
//! for record in StackMaps::load(&image)?.records_at(LinkAddr(0x1234)) {
//!     println!("{} live values", record.locations.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A linker lays the sections of its inputs one behind the other, so a section holds several
//! maps, each with a header of its own. The section's bytes are kept, and an index of 16 bytes a
//! record; a record is taken apart when it is asked for.
//!
//! How many bytes may be patched at a PC (the *shadow* of a stack map, the size of a patch point) is
//! not in the section. The format: LLVM's StackMaps page, versions 1 to 3.

mod map;
mod record;
mod register;

use std::path::Path;

use super::RawSection;
use super::entry::Trouble;
use super::error::{OnError, TableError, strictly};
use super::reader::Reader;
use crate::addr::LinkAddr;
use crate::image::{Encoding, Image};

pub use record::{LiveOut, LiveValue, Location, StackMapRecord};
pub use register::dwarf_register_name;

use record::ALIGNMENT;
use record::Head;

pub use map::{StackMap, StackMapHeader};

/// The section's name in ELF files.
const SECTION: &str = ".llvm_stackmaps";

const NEWEST: u8 = 3;

const HEADER_SIZE: usize = 16;

const CONSTANT_SIZE: usize = 8;

/// The stack size of a function whose frame grows while it runs.
const NOT_STATIC: u64 = u64::MAX;

/// A function that has records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackMapFunction {
    /// Its first byte.
    pub address: LinkAddr,
    /// The size of its frame in bytes, where that does not change while it runs.
    pub stack_size: Option<u64>,
    /// How many records it has; version 1 does not say.
    pub record_count: Option<u64>,
}

/// The stack maps of one image, and the records by their PCs.
#[derive(Default)]
pub struct StackMaps {
    /// The bytes of each section, and how numbers are written in it.
    sections: Vec<(Vec<u8>, Encoding)>,
    /// The maps of all sections, and the index of the section that each is in.
    maps: Vec<(usize, StackMapHeader)>,
    /// Sorted by PC.
    index: Vec<Indexed>,
}

#[derive(Clone, Copy)]
struct Indexed {
    pc: LinkAddr,
    /// Where the record starts within its section.
    at: u32,
    /// The index of its map.
    map: u32,
}

impl StackMaps {
    /// Reads the stack maps of an image. An image without any gives none.
    ///
    /// # Errors
    /// The section is damaged, or of an unknown version.
    pub fn load(image: &Image) -> Result<Self, TableError> {
        strictly(|on_error| Self::load_readable(image, on_error))
    }

    /// Reads as many maps as can be read; `on_error` is told what is left out.
    pub fn load_readable(image: &Image, on_error: OnError<'_>) -> Self {
        let mut maps = Self::default();
        for section in image.sections().filter(|section| section.name == SECTION) {
            let data = image.relocated(&section).map_err(TableError::from);
            let added = data.and_then(|data| {
                let (name, encoding) = (section.name, image.encoding());
                maps.add(name, data.into_owned(), encoding, image.name())
            });
            if let Err(error) = added {
                on_error(error);
            }
        }
        let functions = maps.maps().flat_map(StackMap::functions);
        let functions = functions.map(|function| function.address);
        if let Err(error) = TableError::check_places(image, SECTION, functions) {
            on_error(error);
            return Self::default();
        }
        maps.finish();
        maps
    }

    /// Reads the stack maps in `sections`; `file` is what messages call their file.
    ///
    /// # Errors
    /// As [`StackMaps::load`].
    pub fn decode(sections: &[RawSection<'_>], file: &Path) -> Result<Self, TableError> {
        let mut maps = Self::default();
        for section in sections {
            maps.add(section.name, section.data.to_vec(), section.encoding, file)?;
        }
        maps.finish();
        Ok(maps)
    }

    /// Whether sections of this name are stack maps.
    #[must_use]
    pub fn is_name(section: &[u8]) -> bool {
        section == SECTION.as_bytes()
    }

    /// Whether an image has a section of this kind.
    #[must_use]
    pub fn is_in(image: &Image) -> bool {
        image.section(SECTION).is_some()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// How many bytes the sections have.
    #[must_use]
    pub fn section_bytes(&self) -> usize {
        self.sections.iter().map(|(data, _)| data.len()).sum()
    }

    /// The maps, in the order of the file.
    pub fn maps(&self) -> impl Iterator<Item = StackMap<'_>> {
        (0..self.maps.len()).filter_map(|index| self.map(index))
    }

    fn map(&self, index: usize) -> Option<StackMap<'_>> {
        let &(section, header) = self.maps.get(index)?;
        let (data, encoding) = self.sections.get(section)?;
        Some(StackMap {
            header,
            data,
            encoding: *encoding,
        })
    }

    /// The records for the instruction at `pc`: found by a binary search; several where several
    /// calls of the source met at one address.
    pub fn records_at(&self, pc: LinkAddr) -> impl Iterator<Item = StackMapRecord> {
        let first = self.index.partition_point(|entry| entry.pc < pc);
        let found = self.index.get(first..).unwrap_or_default();
        (found.iter().take_while(move |entry| entry.pc == pc)).filter_map(|entry| self.read(*entry))
    }

    /// The PCs that have records, sorted; one that has several comes several times.
    pub fn pcs(&self) -> impl ExactSizeIterator<Item = LinkAddr> {
        self.index.iter().map(|entry| entry.pc)
    }

    /// How many bytes of memory the maps take.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        let sections = self.sections.iter().map(|(data, _)| data.capacity());
        let sections: usize = sections.sum();
        sections
            + self.maps.capacity() * size_of::<(usize, StackMapHeader)>()
            + self.index.capacity() * size_of::<Indexed>()
    }

    fn read(&self, entry: Indexed) -> Option<StackMapRecord> {
        let map = self.map(entry.map as usize)?;
        let mut reader = Reader::new(map.data, entry.at as usize, map.encoding);
        let head = Head::read(&mut reader).ok()?;
        let function = entry.pc.offset(-i64::from(head.offset));
        map.record(head, &mut reader, Some(function)).ok()
    }

    fn add(
        &mut self,
        name: &str,
        data: Vec<u8>,
        encoding: Encoding,
        file: &Path,
    ) -> Result<(), TableError> {
        if u32::try_from(data.len()).is_err() {
            return Err(TableError::malformed(
                file,
                name,
                0,
                "it has more than 4 GiB",
            ));
        }
        let before = self.maps.len();
        let outcome = self.add_maps(name, &data, encoding, file);
        if self.maps.len() > before || (outcome.is_ok() && !data.is_empty()) {
            self.sections.push((data, encoding));
        }
        outcome
    }

    /// Adds the maps of the next section up to the first that cannot be read.
    fn add_maps(
        &mut self,
        name: &str,
        data: &[u8],
        encoding: Encoding,
        file: &Path,
    ) -> Result<(), TableError> {
        let section = self.sections.len();
        let mut reader = Reader::new(data, 0, encoding);
        while !is_padding(&mut reader) {
            TableError::check_version(&reader, NEWEST, file, name)?;
            let records = self.index.len();
            match self.add_map(data, encoding, &mut reader) {
                Ok(header) => self.maps.push((section, header)),
                Err(what) => {
                    self.index.truncate(records);
                    return Err(TableError::malformed(file, name, reader.at(), what));
                }
            }
        }
        Ok(())
    }

    /// Reads a map, checks all its records and puts those whose PC is known into the index.
    fn add_map(
        &mut self,
        data: &[u8],
        encoding: Encoding,
        reader: &mut Reader<'_>,
    ) -> Result<StackMapHeader, Trouble> {
        let header = StackMapHeader::read(reader)?;
        let map = StackMap {
            header,
            data,
            encoding,
        };
        self.index.reserve(header.records);
        for _ in 0..header.records {
            // Where the function is not known, the head tells the record's length all the same.
            let at = reader.at();
            Head::read(reader)?.check(reader, header.version, |index| map.constant(index))?;
            self.index.push(Indexed {
                pc: LinkAddr(0),
                at: at as u32,
                map: self.maps.len() as u32,
            });
        }
        // The functions' own counts lead from the records to the functions.
        let first = self.index.len() - header.records;
        let mut functions = map.functions_of_records();
        let mut known = 0;
        for place in first..first + header.records {
            let Some(entry) = self.index.get_mut(place) else {
                break;
            };
            let mut reader = reader.at_offset(entry.at as usize);
            if let Some(function) = functions.next() {
                entry.pc = function.offset(Head::read(&mut reader)?.offset.into());
                known += 1;
            }
        }
        self.index.truncate(first + known);
        Ok(header)
    }

    fn finish(&mut self) {
        if !self.index.is_sorted_by_key(|entry| entry.pc) {
            self.index.sort_by_key(|entry| entry.pc);
        }
        self.index.shrink_to_fit();
        self.maps.shrink_to_fit();
    }
}

fn function_size(version: u8) -> usize {
    if version >= 2 { 24 } else { 16 }
}

/// Goes on behind zeros that a linker put between maps; says whether the section ends there.
fn is_padding(reader: &mut Reader<'_>) -> bool {
    loop {
        let before = *reader;
        let word = reader
            .bytes(reader.remaining().min(ALIGNMENT))
            .unwrap_or_default();
        if word.is_empty() {
            return true;
        }
        if word.iter().any(|&byte| byte != 0) {
            *reader = before;
            return false;
        }
    }
}

#[cfg(test)]
mod tests;
