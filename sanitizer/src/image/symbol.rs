//! The names that the symbol tables give to functions and variables: `elf.h`'s `Elf64_Sym` and `Elf32_Sym`.

use std::cmp::Reverse;

use super::Encoding;
use super::bytes::c_string;
use super::headers::{Headers, Section, SectionKind};
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

/// Entries of a table that are looked at: some 100 MB. A program of hundreds of megabytes has a million or two.
const MOST_LOOKED_AT: usize = 1 << 22;
/// Symbols that are kept in one list, with their names some 25 MB.
const MOST_KEPT: usize = 1 << 19;

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

const FUNCTIONS: &[u8] = &[STT_FUNC, STT_GNU_IFUNC];

/// Those of a table that are kept, sorted, and whether they are all.
pub(super) struct Kept<'data> {
    pub(super) symbols: Vec<Symbol<'data>>,
    pub(super) are_all: bool,
}

/// The functions that are wanted.
pub(super) fn functions<'data>(
    data: &'data [u8],
    headers: &Headers,
    is_wanted: impl Fn(&Symbol<'data>) -> bool,
) -> Kept<'data> {
    let all = each(data, headers, FUNCTIONS);
    keep(
        all.filter(|ranked| is_wanted(&ranked.symbol)),
        is_whole(headers),
    )
}

/// Functions in the order of the table, nothing being kept.
pub(super) fn each_function<'data>(
    data: &'data [u8],
    headers: &Headers,
) -> impl Iterator<Item = Symbol<'data>> {
    each(data, headers, FUNCTIONS).map(|ranked| ranked.symbol)
}

/// The last of all functions, as they are sorted, that begins at an address or before it.
#[cfg(test)]
pub(super) fn function_before<'data>(
    data: &'data [u8],
    headers: &Headers,
    address: LinkAddr,
) -> Option<Symbol<'data>> {
    let all = each(data, headers, FUNCTIONS);
    let before = all.filter(|ranked| ranked.symbol.address <= address);
    before.max_by_key(Ranked::order).map(|ranked| ranked.symbol)
}

/// Those that are labels with a size.
pub(super) fn labels<'data>(data: &'data [u8], headers: &Headers) -> Kept<'data> {
    let all = of_tables(data, headers, SectionKind::SymbolTable, &[STT_NOTYPE]);
    keep(
        all.filter(|ranked| ranked.symbol.size > 0),
        is_whole(headers),
    )
}

pub(super) fn objects<'data>(data: &'data [u8], headers: &Headers) -> Kept<'data> {
    keep(
        each(data, headers, &[STT_OBJECT, STT_COMMON]),
        is_whole(headers),
    )
}

/// A symbol, and how public it is: 0 is the most.
struct Ranked<'data> {
    rank: u8,
    symbol: Symbol<'data>,
}

impl<'data> Ranked<'data> {
    const fn order(&self) -> (LinkAddr, u8, Reverse<u64>, &'data str) {
        let symbol = &self.symbol;
        (symbol.address, self.rank, Reverse(symbol.size), symbol.name)
    }
}

/// The first of them, as many as are kept.
fn keep<'data>(mut found: impl Iterator<Item = Ranked<'data>>, is_whole: bool) -> Kept<'data> {
    let mut kept: Vec<Ranked<'data>> = found.by_ref().take(MOST_KEPT).collect();
    let are_all = is_whole && (kept.len() < MOST_KEPT || found.next().is_none());
    kept.sort_unstable_by_key(Ranked::order);
    Kept {
        symbols: kept.into_iter().map(|ranked| ranked.symbol).collect(),
        are_all,
    }
}

/// Whether no table has more entries than are looked at.
fn is_whole(headers: &Headers) -> bool {
    let size = Entry::bytes(headers.encoding) as u64;
    let is_table = |section: &&Section| {
        matches!(
            section.kind,
            SectionKind::SymbolTable | SectionKind::DynamicSymbolTable
        )
    };
    let mut tables = headers.sections.iter().filter(is_table);
    tables.all(|table| table.size / size <= MOST_LOOKED_AT as u64)
}

/// The symbols of these types: of `.symtab`, or where that has none of `.dynsym`.
fn each<'data>(
    data: &'data [u8],
    headers: &Headers,
    types: &'static [u8],
) -> impl Iterator<Item = Ranked<'data>> {
    let of = |kind| of_tables(data, headers, kind, types);
    let mut full = of(SectionKind::SymbolTable).peekable();
    let dynamic = match full.peek() {
        Some(_) => None,
        None => Some(of(SectionKind::DynamicSymbolTable)),
    };
    full.chain(dynamic.into_iter().flatten())
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

/// The symbols of these types in the tables of this kind, in their order. A symbol without a name in the
/// string table, or with one that is no text, is of no use and left out.
fn of_tables<'data>(
    data: &'data [u8],
    headers: &Headers,
    kind: SectionKind,
    types: &'static [u8],
) -> impl Iterator<Item = Ranked<'data>> {
    let tables = headers.sections.iter().enumerate();
    let tables = tables.filter(move |(_, section)| section.kind == kind);
    tables
        .filter_map(move |(index, table)| {
            // No loader or linker reads a symbol table that is compressed.
            let names = headers.sections.get(table.link as usize)?;
            (!table.flags.compressed && !names.flags.compressed).then_some((index, table, names))
        })
        .flat_map(move |(index, table, names)| {
            let names = names.data(data);
            let encoding = headers.encoding;
            let entries = table.data(data).chunks_exact(Entry::bytes(encoding));
            let entries = entries.enumerate().take(MOST_LOOKED_AT);
            entries.filter_map(move |(number, entry)| {
                let entry = Entry::read(entry, encoding)?;
                ranked(data, headers, names, &entry, (index, number), types)
            })
        })
}

/// What the entry of a table tells, by the numbers of both, if it is of one of these types.
fn ranked<'data>(
    data: &'data [u8],
    headers: &Headers,
    names: &'data [u8],
    entry: &Entry,
    (table, number): (usize, usize),
    types: &[u8],
) -> Option<Ranked<'data>> {
    let &Entry { info, section, .. } = entry;
    if !types.contains(&(info & 0xf)) || section == SHN_UNDEF || section == SHN_ABS {
        return None;
    }
    let name = name_at(names, entry.name as usize)?;
    // In object files a value is a distance from the section's start.
    let base = if headers.is_object {
        headers
            .section_of_symbol(data, table, number, section)?
            .address
            .0
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
    Some(Ranked {
        rank,
        symbol: Symbol {
            address: LinkAddr(address),
            size: entry.size,
            name,
            indirect: info & 0xf == STT_GNU_IFUNC,
            is_local: info >> 4 == STB_LOCAL,
        },
    })
}
