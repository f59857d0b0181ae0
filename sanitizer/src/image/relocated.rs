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
    let mut bytes = Cow::Borrowed(section.data(data));
    for table in headers.sections.iter().filter(|table| {
        table.kind == SectionKind::Relocations && table.flags.allocated && section.flags.allocated
    }) {
        for rela in table.data(data).chunks_exact(RELA_SIZE) {
            let word = |at| u64_at(rela, at).unwrap_or_default();
            let place = word(0);
            let Some(at) = place.checked_sub(section.address.0) else {
                continue;
            };
            if at >= section.size {
                continue;
            }
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
                value = value.wrapping_sub(place);
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
    let start = (symbol as usize).checked_mul(SYM_SIZE)?;
    let entry = symbols.get(start..start.checked_add(SYM_SIZE)?)?;
    (u16_at(entry, 6)? != SHN_UNDEF).then(|| u64_at(entry, 8))?
}
