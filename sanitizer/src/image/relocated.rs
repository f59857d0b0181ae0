//! The bytes of a section as they are once its relocations are applied, without a load bias.
//!
//! In position-independent files the addresses in a table are left to the dynamic linker, and the
//! file has zeros in their place; in object files most of what refers to code is left to the linker.
//! Source: the System V ABI for x86-64 (table 4.9) and the ELF ABI for the Arm 64-bit
//! architecture (5.7.3 and 5.7.16).

use std::borrow::Cow;
use std::path::Path;

use super::ImageError;
use super::bytes::{u16_at, u32_at, u64_at};
use super::headers::{Headers, Machine, Section, SectionKind};

/// `sizeof(Elf64_Rela)`.
const RELA_SIZE: usize = 24;
/// `sizeof(Elf64_Sym)`.
const SYM_SIZE: usize = 24;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
/// Relocations in a packed form that LLVM 20 brought, as an experiment.
const SHT_CREL: u32 = 0x4000_0014;

/// What a relocation puts where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `S + A`, of that many bytes.
    Address(usize),
    /// `S + A - P`, of that many bytes.
    Distance(usize),
    /// `B + A`.
    Relative,
}

impl Form {
    fn of(machine: Machine, number: u32) -> Option<Self> {
        Some(match (machine, number) {
            // R_X86_64_64, PC32, PLT32, RELATIVE, 32, 32S, PC64.
            (Machine::X86_64, 1) => Self::Address(8),
            (Machine::X86_64, 2 | 4) => Self::Distance(4),
            (Machine::X86_64, 8) => Self::Relative,
            (Machine::X86_64, 10 | 11) => Self::Address(4),
            (Machine::X86_64, 24) => Self::Distance(8),
            // R_AARCH64_ABS64, ABS32, PREL64, PREL32, RELATIVE.
            (Machine::Aarch64, 257) => Self::Address(8),
            (Machine::Aarch64, 258) => Self::Address(4),
            (Machine::Aarch64, 260) => Self::Distance(8),
            (Machine::Aarch64, 261) => Self::Distance(4),
            (Machine::Aarch64, 1027) => Self::Relative,
            _ => return None,
        })
    }

    fn size(self) -> usize {
        match self {
            Self::Address(size) | Self::Distance(size) => size,
            Self::Relative => 8,
        }
    }
}

/// Which relocations belong to which section, found out once for a file: object files have hundreds of
/// thousands of sections.
pub(super) struct Index {
    /// Of object files: the index of a section and that of a table of relocations for it. Sorted.
    tables: Vec<(u32, usize)>,
    /// Of linked files: the address of a place, the index of a table and that of the entry in it.
    /// Sorted, and one for each place.
    places: Vec<(u64, usize, usize)>,
}

impl Index {
    pub(super) fn new(data: &[u8], headers: &Headers) -> Self {
        let tables = headers.sections.iter().enumerate();
        if headers.is_object {
            let is_table = |s: &Section| s.kind == SectionKind::Relocations || s.number == SHT_CREL;
            let mut tables: Vec<(u32, usize)> = tables
                .filter(|(_, table)| is_table(table))
                .map(|(index, table)| (table.info, index))
                .collect();
            tables.sort_unstable();
            return Self {
                tables,
                places: Vec::new(),
            };
        }
        let mut places: Vec<(u64, usize, usize)> = tables
            .filter(|(_, table)| table.kind == SectionKind::Relocations && table.flags.allocated)
            .flat_map(|(index, table)| {
                let entries = table.data(data).chunks_exact(RELA_SIZE).enumerate();
                entries
                    .map(move |(entry, rela)| (u64_at(rela, 0).unwrap_or_default(), index, entry))
            })
            .collect();
        places.sort_unstable();
        // What is written last stays.
        places.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                *kept = *next;
            }
            is_same
        });
        Self {
            tables: Vec::new(),
            places,
        }
    }
}

/// The bytes of the section of this index, relocated where anything in it has to be. A place that
/// refers to a symbol of another file stays as it is.
pub(super) fn relocated<'data>(
    data: &'data [u8],
    headers: &Headers,
    relocations: &Index,
    index: usize,
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
        bytes: Cow::Borrowed(section.data(data)),
    };
    if headers.is_object {
        let of_section = |(info, _): &(u32, usize)| *info as usize;
        let first = relocations
            .tables
            .partition_point(|table| of_section(table) < index);
        let tables = relocations.tables.get(first..).unwrap_or_default().iter();
        for &(_, table) in tables.take_while(|table| of_section(table) == index) {
            let Some(table) = headers.sections.get(table) else {
                continue;
            };
            if table.number == SHT_CREL {
                return Err(place.packed());
            }
            for rela in table.data(data).chunks_exact(RELA_SIZE) {
                place.relocate(table, rela, u64_at(rela, 0).unwrap_or_default())?;
            }
        }
    } else if section.flags.allocated {
        let end = section.address.0.saturating_add(section.size);
        let first = (relocations.places).partition_point(|place| place.0 < section.address.0);
        let places = relocations.places.get(first..).unwrap_or_default().iter();
        for &(address, table, entry) in places.take_while(|place| place.0 < end) {
            let Some(table) = headers.sections.get(table) else {
                continue;
            };
            let rela = table.data(data).chunks_exact(RELA_SIZE).nth(entry);
            if let Some(rela) = rela {
                place.relocate(table, rela, address - section.address.0)?;
            }
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
    /// Carries out an entry of `table` for the place `at` within the section.
    fn relocate(&mut self, table: &Section, rela: &[u8], at: u64) -> Result<(), ImageError> {
        let number = u32_at(rela, 8).unwrap_or_default();
        let symbol = u32_at(rela, 12).unwrap_or_default();
        let addend = u64_at(rela, 16).unwrap_or_default();
        let unknown = || ImageError::Relocation {
            file: self.file.into(),
            section: self.headers.section_name(self.data, self.section).into(),
            offset: at,
            number,
        };
        let form = Form::of(self.headers.machine, number).ok_or_else(unknown)?;
        let target = match form {
            Form::Relative => Some(0),
            _ => symbol_value(self.data, self.headers, table, symbol),
        };
        let Some(target) = target else { return Ok(()) };
        let mut value = target.wrapping_add(addend);
        if matches!(form, Form::Distance(_)) {
            value = value.wrapping_sub(self.section.address.0.wrapping_add(at));
        }
        let value = value.to_le_bytes();
        let value = value.get(..form.size()).unwrap_or_default();
        let start = usize::try_from(at).ok();
        let end = start.and_then(|start| start.checked_add(value.len()));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.bytes.len() => {
                if let Some(range) = self.bytes.to_mut().get_mut(start..end) {
                    range.copy_from_slice(value);
                }
                Ok(())
            }
            _ => Err(unknown()),
        }
    }

    fn packed(&self) -> ImageError {
        let name = self.headers.section_name(self.data, self.section);
        ImageError::Unsupported {
            file: self.file.into(),
            what: format!("the relocations of section {name} are in CREL form"),
            mend: "assemble it without --crel, or link it",
        }
    }
}

/// The address of a symbol that the file defines itself.
fn symbol_value(data: &[u8], headers: &Headers, table: &Section, symbol: u32) -> Option<u64> {
    if symbol == 0 {
        return Some(0);
    }
    let symbols = headers.sections.get(table.link as usize)?.data(data);
    let symbol = symbol as usize;
    let start = symbol.checked_mul(SYM_SIZE)?;
    let entry = symbols.get(start..start.checked_add(SYM_SIZE)?)?;
    let (shndx, value) = (u16_at(entry, 6)?, u64_at(entry, 8)?);
    match shndx {
        SHN_UNDEF => None,
        SHN_ABS => Some(value),
        _ if headers.is_object => {
            let table = table.link as usize;
            let section = headers.section_of_symbol(data, table, symbol, shndx)?;
            Some(section.address.0.wrapping_add(value))
        }
        _ => Some(value),
    }
}
