//! The bytes of a section as they are once its relocations are applied, without a load bias.
//!
//! In position-independent files the addresses in a table are left to the dynamic linker, and the
//! file has zeros in their place; in object files most of what refers to code is left to the linker.
//! Source: the System V ABI and its supplements for each machine.

use std::borrow::Cow;
use std::path::Path;

use super::ImageError;
use super::headers::{Headers, Section, SectionKind};
use super::machine::Form;
use super::relocations::{self, Relocation, Trouble};
use super::symbol::{Entry, SHN_ABS, SHN_UNDEF};

/// Which relocations belong to which section, found out once for a file: object files have hundreds of
/// thousands of sections.
pub(super) struct Index {
    /// Of object files: the index of a section and that of a table of relocations for it. Sorted.
    tables: Vec<(u32, usize)>,
    /// Of linked files: the relocations sorted by their places, one for each, and the index of the symbol
    /// table of each.
    places: Vec<(Relocation, u32)>,
    /// Of linked files: the tables that cannot be read whole, and why.
    damaged: Vec<(usize, Trouble)>,
}

impl Index {
    pub(super) fn new(data: &[u8], headers: &Headers) -> Self {
        let tables = (headers.sections.iter().enumerate())
            .filter(|(_, table)| matches!(table.kind, SectionKind::Relocations(_)));
        let mut index = Self {
            tables: Vec::new(),
            places: Vec::new(),
            damaged: Vec::new(),
        };
        if headers.is_object {
            index.tables = tables.map(|(index, table)| (table.info, index)).collect();
            index.tables.sort_unstable();
            return index;
        }
        for (number, table) in tables.filter(|(_, table)| table.flags.allocated) {
            let (found, outcome) = relocations::of_table(data, headers, table);
            let found = found.into_iter();
            index
                .places
                .extend(found.map(|relocation| (relocation, table.link)));
            if let Err(what) = outcome {
                index.damaged.push((number, what));
            }
        }
        index
            .places
            .sort_by_key(|(relocation, _)| relocation.offset);
        // What is written last stays.
        index.places.dedup_by(|next, kept| {
            let is_same = next.0.offset == kept.0.offset;
            if is_same {
                *kept = *next;
            }
            is_same
        });
        index.places.shrink_to_fit();
        index
    }

    /// The tables for a section of an object file.
    fn tables_of(&self, section: usize) -> impl Iterator<Item = usize> {
        let of_section = |(info, _): &(u32, usize)| *info as usize;
        let first = self
            .tables
            .partition_point(|table| of_section(table) < section);
        let tables = self.tables.get(first..).unwrap_or_default().iter();
        let tables = tables.take_while(move |table| of_section(table) == section);
        tables.map(|&(_, table)| table)
    }

    /// Whether a section of an object file has one.
    pub(super) fn has_table(&self, section: usize) -> bool {
        self.tables_of(section).next().is_some()
    }
}

/// `bytes`, those of the section of this index, relocated where anything in it has to be. A place that
/// refers to a symbol of another file stays as it is.
pub(super) fn relocated<'data>(
    data: &'data [u8],
    headers: &Headers,
    relocations: &Index,
    index: usize,
    bytes: Cow<'data, [u8]>,
    file: &Path,
) -> Result<Cow<'data, [u8]>, ImageError> {
    let Some(section) = headers.sections.get(index) else {
        return Ok(Cow::Borrowed(&[]));
    };
    let mut place = Place {
        data,
        headers,
        section,
        file,
        bytes,
    };
    if headers.is_object {
        for table in relocations.tables_of(index) {
            let Some(section) = headers.sections.get(table) else {
                continue;
            };
            let (found, outcome) = relocations::of_table(data, headers, section);
            outcome.map_err(|what| place.damaged(table, what))?;
            for relocation in found {
                place.relocate(relocation, section.link, relocation.offset)?;
            }
        }
    } else if section.flags.allocated {
        if let Some(&(table, what)) = relocations.damaged.first() {
            return Err(place.damaged(table, what));
        }
        let end = section.address.0.saturating_add(section.size);
        let first = relocations
            .places
            .partition_point(|(relocation, _)| relocation.offset < section.address.0);
        let places = relocations.places.get(first..).unwrap_or_default().iter();
        for &(relocation, symbols) in places.take_while(|(place, _)| place.offset < end) {
            place.relocate(relocation, symbols, relocation.offset - section.address.0)?;
        }
    }
    Ok(place.bytes)
}

/// A section that is being relocated.
struct Place<'data, 'file> {
    data: &'data [u8],
    headers: &'file Headers,
    section: &'file Section,
    file: &'file Path,
    bytes: Cow<'data, [u8]>,
}

impl Place<'_, '_> {
    /// Carries out a relocation, whose symbol is in the table `symbols`, for the place `at` within the section.
    fn relocate(
        &mut self,
        relocation: Relocation,
        symbols: u32,
        at: u64,
    ) -> Result<(), ImageError> {
        let unknown = || ImageError::Relocation {
            file: self.file.into(),
            section: self.headers.section_name(self.data, self.section).into(),
            offset: at,
            number: relocation.kind,
        };
        let encoding = self.headers.encoding;
        let form = Form::of(self.headers.machine, relocation.kind).ok_or_else(unknown)?;
        let size = form.size(encoding);
        let start = usize::try_from(at).ok();
        let range = start.and_then(|start| Some(start..start.checked_add(size)?));
        let range = range.filter(|range| range.end <= self.bytes.len());
        let range = range.ok_or_else(unknown)?;
        let there = encoding.number(self.bytes.get(range.clone()).unwrap_or_default());
        // Where the sign is lost, it is beyond what the place can hold.
        let addend = relocation.addend.unwrap_or(there);
        let target = match form {
            Form::Nothing => None,
            Form::Relative => Some(0),
            _ => symbol_value(self.data, self.headers, symbols, relocation.symbol),
        };
        let Some(target) = target else { return Ok(()) };
        let sum = target.wrapping_add(addend);
        let value = match form {
            Form::Distance(_) => sum.wrapping_sub(self.section.address.0.wrapping_add(at)),
            Form::Added(_) => there.wrapping_add(sum),
            Form::Subtracted(_) => there.wrapping_sub(sum),
            _ => sum,
        };
        if let Some(place) = self.bytes.to_mut().get_mut(range) {
            let value = value.to_le_bytes();
            place.copy_from_slice(value.get(..size).unwrap_or_default());
            if encoding.is_big_endian {
                place.reverse();
            }
        }
        Ok(())
    }

    fn damaged(&self, table: usize, what: Trouble) -> ImageError {
        let table = self.headers.sections.get(table);
        let table = table.map_or("", |table| self.headers.section_name(self.data, table));
        let name = self.headers.section_name(self.data, self.section);
        ImageError::Unsupported {
            file: self.file.into(),
            what: format!("the relocations of section {name} cannot be read ({table}: {what})"),
            mend: "the file is damaged: build it or copy it again, or link it without packed relocations \
                   (--pack-dyn-relocs=none)",
        }
    }
}

/// The address of a symbol that the file defines itself.
fn symbol_value(data: &[u8], headers: &Headers, symbols: u32, symbol: u32) -> Option<u64> {
    if symbol == 0 {
        return Some(0);
    }
    let table = symbols as usize;
    let entries = headers.sections.get(table)?.data(data);
    let entry = Entry::nth(entries, headers.encoding, symbol)?;
    let is_function = entry.is_function();
    let value = match is_function {
        true => entry.value & headers.machine.address_mask(),
        false => entry.value,
    };
    let address = match entry.section {
        SHN_UNDEF => return None,
        SHN_ABS => return Some(value),
        shndx if headers.is_object => {
            let section = headers.section_of_symbol(data, table, symbol as usize, shndx)?;
            section.address.0.wrapping_add(value)
        }
        _ => value,
    };
    // A table about code means the code, whatever stands for it.
    Some(match is_function {
        true => headers.descriptors.code(address),
        false => address,
    })
}
