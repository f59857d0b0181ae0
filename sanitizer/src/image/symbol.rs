//! The names that the symbol tables give to functions and variables: `elf.h`'s `Elf64_Sym` and `Elf32_Sym`.

use std::cmp::Reverse;

use super::Encoding;
use super::bytes::c_string;
use super::headers::{Headers, SectionKind};
use crate::addr::LinkAddr;

pub(super) const SHN_UNDEF: u16 = 0;
pub(super) const SHN_ABS: u16 = 0xfff1;
const STT_NOTYPE: u8 = 0;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const STT_COMMON: u8 = 5;
const STT_GNU_IFUNC: u8 = 10;
const STB_LOCAL: u8 = 0;
const STB_WEAK: u8 = 2;

/// Bytes of the longest name: more are cut off, or each of thousands of symbols could have megabytes.
const LONGEST_NAME: usize = 4096;

/// A name for a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'image> {
    /// Where it starts.
    pub address: LinkAddr,
    /// How many bytes it has; zero where the table does not say (hand-written assembly).
    pub size: u64,
    /// The linker's name for it, mangled as the compiler left it.
    pub name: &'image str,
    /// It stands for what the function here answers when the program is loaded
    /// (`STT_GNU_IFUNC`), not for that function.
    pub indirect: bool,
    /// Other files cannot mean it by this name (`STB_LOCAL`).
    pub is_local: bool,
}

/// An entry of a symbol table.
pub(super) struct Entry {
    /// Where its name is among the names.
    pub(super) name: u32,
    info: u8,
    pub(super) section: u16,
    pub(super) value: u64,
    size: u64,
}

impl Entry {
    /// How many bytes it has.
    fn bytes(encoding: Encoding) -> usize {
        if encoding.is_32_bit { 16 } else { 24 }
    }

    fn read(entry: &[u8], encoding: Encoding) -> Option<Self> {
        let (info, section) = if encoding.is_32_bit { (12, 14) } else { (4, 6) };
        let (value, size) = if encoding.is_32_bit { (4, 8) } else { (8, 16) };
        Some(Self {
            name: encoding.u32_at(entry, 0)?,
            info: entry.get(info).copied()?,
            section: encoding.u16_at(entry, section)?,
            value: encoding.word_at(entry, value)?,
            size: encoding.word_at(entry, size)?,
        })
    }

    pub(super) fn is_function(&self) -> bool {
        matches!(self.info & 0xf, STT_FUNC | STT_GNU_IFUNC)
    }

    /// The entry of this number in a table.
    pub(super) fn nth(table: &[u8], encoding: Encoding, number: u32) -> Option<Self> {
        let size = Self::bytes(encoding);
        let start = (number as usize).checked_mul(size)?;
        Self::read(table.get(start..start.checked_add(size)?)?, encoding)
    }
}

/// The name of a function.
pub type FunctionSymbol<'image> = Symbol<'image>;

/// The name of a variable.
pub type ObjectSymbol<'image> = Symbol<'image>;

pub(super) fn functions<'data>(data: &'data [u8], headers: &Headers) -> Vec<Symbol<'data>> {
    symbols(data, headers, &[STT_FUNC, STT_GNU_IFUNC])
}

/// Those that are labels with a size.
pub(super) fn labels<'data>(data: &'data [u8], headers: &Headers) -> Vec<Symbol<'data>> {
    let mut labels = symbols_of(data, headers, SectionKind::SymbolTable, &[STT_NOTYPE]);
    labels.retain(|symbol| symbol.size > 0);
    labels
}

pub(super) fn objects<'data>(data: &'data [u8], headers: &Headers) -> Vec<Symbol<'data>> {
    symbols(data, headers, &[STT_OBJECT, STT_COMMON])
}

fn symbols<'data>(data: &'data [u8], headers: &Headers, types: &[u8]) -> Vec<Symbol<'data>> {
    let found = symbols_of(data, headers, SectionKind::SymbolTable, types);
    if found.is_empty() {
        return symbols_of(data, headers, SectionKind::DynamicSymbolTable, types);
    }
    found
}

/// The name at an offset, if it is a text and not empty; cut where it is longer than any name.
fn name_at(names: &[u8], at: usize) -> Option<&str> {
    let near = names.get(at..)?;
    let near = near.get(..=LONGEST_NAME).unwrap_or(near);
    let name = match c_string(near, 0) {
        Some(name) => str::from_utf8(name).ok()?,
        None if near.len() > LONGEST_NAME => {
            let cut = near.get(..LONGEST_NAME)?;
            // The cut may go through a character.
            str::from_utf8(cut)
                .or_else(|error| str::from_utf8(cut.get(..error.valid_up_to()).unwrap_or_default()))
                .ok()?
        }
        None => return None,
    };
    (!name.is_empty()).then_some(name)
}

/// The symbols of these types in the tables of this kind. A symbol without a name in the
/// string table, or with one that is no text, is of no use and left out.
fn symbols_of<'data>(
    data: &'data [u8],
    headers: &Headers,
    kind: SectionKind,
    types: &[u8],
) -> Vec<Symbol<'data>> {
    let mut found: Vec<(u8, Symbol<'data>)> = Vec::new();
    for (index, table) in
        (headers.sections.iter().enumerate()).filter(|(_, section)| section.kind == kind)
    {
        // No loader or linker reads a symbol table that is compressed.
        if table.flags.compressed {
            continue;
        }
        let names = headers.sections.get(table.link as usize);
        let Some(names) = names.filter(|names| !names.flags.compressed) else {
            continue;
        };
        let names = names.data(data);
        let encoding = headers.encoding;
        let entries = table.data(data).chunks_exact(Entry::bytes(encoding));
        for (number, entry) in entries.enumerate() {
            let Some(entry) = Entry::read(entry, encoding) else {
                continue;
            };
            let Entry { info, section, .. } = entry;
            if !types.contains(&(info & 0xf)) || section == SHN_UNDEF || section == SHN_ABS {
                continue;
            }
            let Some(name) = name_at(names, entry.name as usize) else {
                continue;
            };
            // In object files a value is a distance from the section's start.
            let base = if headers.is_object {
                let Some(section) = headers.section_of_symbol(data, index, number, section) else {
                    continue;
                };
                section.address.0
            } else {
                0
            };
            let mask = match entry.is_function() {
                true => headers.machine.address_mask(),
                false => !0,
            };
            let address = (entry.value & mask).wrapping_add(base);
            let address = match entry.is_function() {
                true => headers.descriptors.code(address),
                false => address,
            };
            let rank = match info >> 4 {
                STB_LOCAL => 2,
                STB_WEAK => 1,
                _ => 0,
            };
            found.push((
                rank,
                Symbol {
                    address: LinkAddr(address),
                    size: entry.size,
                    name,
                    indirect: info & 0xf == STT_GNU_IFUNC,
                    is_local: info >> 4 == STB_LOCAL,
                },
            ));
        }
    }
    found.sort_unstable_by_key(|&(rank, symbol)| {
        (symbol.address, rank, Reverse(symbol.size), symbol.name)
    });
    found.into_iter().map(|(_, symbol)| symbol).collect()
}
