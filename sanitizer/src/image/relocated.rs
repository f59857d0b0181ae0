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

/// The bytes of the section of this index, relocated where anything in it has to be. A place that
/// refers to a symbol of another file stays as it is.
pub(super) fn relocated<'data>(
    data: &'data [u8],
    headers: &Headers,
    index: usize,
    file: &Path,
) -> Result<Cow<'data, [u8]>, ImageError> {
    let Some(section) = headers.sections.get(index) else {
        return Ok(Cow::Borrowed(&[]));
    };
    let is_for_section = |table: &Section| {
        if headers.is_object {
            table.info as usize == index
        } else {
            table.flags.allocated && section.flags.allocated
        }
    };
    if (headers.sections.iter()).any(|table| table.number == SHT_CREL && is_for_section(table)) {
        return Err(ImageError::Unsupported {
            file: file.into(),
            what: format!(
                "the relocations of section {} are in CREL form",
                headers.section_name(data, section)
            ),
            mend: "assemble it without --crel, or link it",
        });
    }
    let start = if headers.is_object {
        0
    } else {
        section.address.0
    };
    let mut bytes = Cow::Borrowed(section.data(data));
    for table in (headers.sections.iter())
        .filter(|table| table.kind == SectionKind::Relocations && is_for_section(table))
    {
        for rela in table.data(data).chunks_exact(RELA_SIZE) {
            let word = |at| u64_at(rela, at).unwrap_or_default();
            let at = word(0).checked_sub(start);
            let Some(at) = at.filter(|&at| at < section.size) else {
                continue;
            };
            let number = u32_at(rela, 8).unwrap_or_default();
            let unknown = || ImageError::Relocation {
                file: file.into(),
                section: headers.section_name(data, section).into(),
                offset: at,
                number,
            };
            let form = Form::of(headers.machine, number).ok_or_else(unknown)?;
            let symbol = u32_at(rela, 12).unwrap_or_default();
            let target = match form {
                Form::Relative => Some(0),
                _ => symbol_value(data, headers, table, symbol),
            };
            let Some(target) = target else { continue };
            let mut value = target.wrapping_add(word(16));
            if matches!(form, Form::Distance(_)) {
                value = value.wrapping_sub(section.address.0.wrapping_add(at));
            }
            let value = value.to_le_bytes();
            let end = (at as usize).checked_add(form.size());
            let range = end.and_then(|end| bytes.to_mut().get_mut(at as usize..end));
            let range = range.ok_or_else(unknown)?;
            range.copy_from_slice(value.get(..form.size()).ok_or_else(unknown)?);
        }
    }
    Ok(bytes)
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
