//! The names that the symbol tables give to functions and variables: `elf.h`'s `Elf64_Sym`.

use std::cmp::Reverse;

use super::bytes::{c_string, u16_at, u32_at, u64_at};
use super::headers::{Headers, SectionKind};
use crate::addr::LinkAddr;

const SYM_SIZE: usize = 24;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const STT_COMMON: u8 = 5;
const STT_GNU_IFUNC: u8 = 10;
const STB_LOCAL: u8 = 0;
const STB_WEAK: u8 = 2;

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
}

/// The name of a function.
pub type FunctionSymbol<'image> = Symbol<'image>;

/// The name of a variable.
pub type ObjectSymbol<'image> = Symbol<'image>;

pub(super) fn functions<'data>(data: &'data [u8], headers: &Headers) -> Vec<Symbol<'data>> {
    symbols(data, headers, &[STT_FUNC, STT_GNU_IFUNC])
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
        let Some(names) = headers.sections.get(table.link as usize) else {
            continue;
        };
        let names = names.data(data);
        for (number, symbol) in table.data(data).chunks_exact(SYM_SIZE).enumerate() {
            let info = symbol.get(4).copied().unwrap_or_default();
            let section = u16_at(symbol, 6).unwrap_or(SHN_UNDEF);
            if !types.contains(&(info & 0xf)) || section == SHN_UNDEF || section == SHN_ABS {
                continue;
            }
            let name = u32_at(symbol, 0).and_then(|name| c_string(names, name as usize));
            let Some(name) = name.and_then(|name| str::from_utf8(name).ok()) else {
                continue;
            };
            if name.is_empty() {
                continue;
            }
            // In object files a value is a distance from the section's start.
            let base = if headers.is_object {
                let Some(section) = headers.section_of_symbol(data, index, number, section) else {
                    continue;
                };
                section.address.0
            } else {
                0
            };
            let rank = match info >> 4 {
                STB_LOCAL => 2,
                STB_WEAK => 1,
                _ => 0,
            };
            found.push((
                rank,
                Symbol {
                    address: LinkAddr(u64_at(symbol, 8).unwrap_or_default().wrapping_add(base)),
                    size: u64_at(symbol, 16).unwrap_or_default(),
                    name,
                    indirect: info & 0xf == STT_GNU_IFUNC,
                },
            ));
        }
    }
    found.sort_unstable_by_key(|&(rank, symbol)| {
        (symbol.address, rank, Reverse(symbol.size), symbol.name)
    });
    found.into_iter().map(|(_, symbol)| symbol).collect()
}
