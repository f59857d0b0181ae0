//! The symbol tables of an ELF file, `.symtab` or else `.dynsym` (gabi, "Symbol Table"),
//! as sorted lists: which symbol covers an address.

use std::cell::{Ref, RefCell};
use std::ops::Range;

use gimli::Reader as _;
use serde::{Deserialize, Serialize};

use super::elf_file::ElfFile;
use super::reader::Reader;
use super::text;

/// `sizeof(Elf64_Sym)`.
const SYMBOL_SIZE: usize = 24;
/// Symbols that are kept at a time. Of a table with more, those around the addresses that are asked for.
const MOST_KEPT: usize = 1 << 17;
/// Those so many bytes to each side, or fewer.
const AROUND: [u64; 4] = [16 << 20, 1 << 20, 1 << 14, 0];
const SHN_UNDEF: u16 = 0;
const STT_NOTYPE: u8 = 0;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const STT_FILE: u8 = 4;
const STT_GNU_IFUNC: u8 = 10;
const STB_LOCAL: u8 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    addr: u64,
    size: u64,
    /// Offset of the name in the string table.
    name: u32,
    /// Among aliases the lowest rank is shown: global before weak before local, typed
    /// before untyped.
    rank: u8,
}

/// A symbol that covers an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// The name, still mangled.
    pub(super) name: String,
    /// Link-time address.
    pub(super) addr: u64,
    /// Size in bytes; 0 where the file does not say.
    pub(super) size: u64,
}

/// The functions and objects of a file.
pub(super) struct SymbolTable {
    symbols: Reader,
    names: Reader,
    kept: RefCell<Kept>,
}

/// Those of some addresses, sorted by address.
#[derive(Debug, Default)]
struct Kept {
    /// What has no byte of these is left out.
    range: Range<u64>,
    /// They are all of the range; otherwise those that come first in the table.
    is_complete: bool,
    functions: Vec<Entry>,
    objects: Vec<Entry>,
}

impl Kept {
    fn read(mut symbols: Reader, range: Range<u64>) -> Self {
        let mut kept = Self {
            range,
            is_complete: true,
            ..Self::default()
        };
        // What stands before a table's end is good, whatever becomes of the rest.
        while let Ok(symbol) = symbols.read_u8_array::<[u8; SYMBOL_SIZE]>() {
            let Some((kind, entry)) = Entry::parse(&symbol) else {
                continue;
            };
            let end = entry.addr.saturating_add(entry.size.max(1));
            if entry.addr >= kept.range.end || end <= kept.range.start {
                continue;
            }
            let list = match kind {
                STT_FUNC | STT_GNU_IFUNC => &mut kept.functions,
                // Assembly without `.type`: better than no name, where it has an extent.
                STT_NOTYPE if entry.size > 0 => &mut kept.functions,
                STT_OBJECT => &mut kept.objects,
                _ => continue,
            };
            list.push(entry);
            if kept.functions.len() + kept.objects.len() >= MOST_KEPT {
                kept.is_complete = false;
                break;
            }
        }
        for list in [&mut kept.functions, &mut kept.objects] {
            list.sort_unstable_by_key(|e| (e.addr, e.rank, e.name));
            list.shrink_to_fit();
        }
        kept
    }
}

impl Entry {
    /// Type and rest of a symbol that is defined here.
    fn parse(symbol: &[u8; SYMBOL_SIZE]) -> Option<(u8, Self)> {
        let [n0, n1, n2, n3, info, _other, s0, s1, rest @ ..] = symbol;
        let (value, size) = rest.split_first_chunk::<8>()?;
        let size = size.first_chunk::<8>()?;
        let bind = info >> 4;
        let kind = info & 0xf;
        let entry = Self {
            addr: u64::from_le_bytes(*value),
            size: u64::from_le_bytes(*size),
            name: u32::from_le_bytes([*n0, *n1, *n2, *n3]),
            rank: u8::from(bind == STB_LOCAL) << 4 | u8::from(kind == STT_NOTYPE) << 5 | bind,
        };
        (u16::from_le_bytes([*s0, *s1]) != SHN_UNDEF).then_some((kind, entry))
    }
}

impl SymbolTable {
    /// Reads `.symtab`, or `.dynsym` of a stripped file.
    pub(super) fn read(file: &ElfFile) -> Option<Self> {
        Self::of_sections(file, ".symtab", ".strtab")
            .or_else(|| Self::of_sections(file, ".dynsym", ".dynstr"))
    }

    fn of_sections(file: &ElfFile, symbols: &str, names: &str) -> Option<Self> {
        let contents = |name| file.section_reader(name).ok().flatten();
        Some(Self::new(contents(symbols)?, contents(names)?))
    }

    fn new(symbols: Reader, names: Reader) -> Self {
        Self {
            symbols,
            names,
            kept: RefCell::default(),
        }
    }

    /// Whether all source files of this name have a local function of that name; false where there is no such file, or not all could be read.
    pub(super) fn locals_of(&self, file: &str, function: &str) -> bool {
        let mut symbols = self.symbols.clone();
        // Whether it was seen in the file in hand, if that is one of these.
        let mut within = None;
        let mut files = 0_u32;
        while !symbols.is_empty() {
            let Ok([n0, n1, n2, n3, info, ..]) = symbols.read_u8_array::<[u8; SYMBOL_SIZE]>()
            else {
                // What was not read may be of such a file.
                return false;
            };
            // Local ones come first.
            if info >> 4 != STB_LOCAL {
                break;
            }
            let is = |name| {
                let at = u32::from_le_bytes([n0, n1, n2, n3]);
                self.name_at(at).as_deref() == Some(name)
            };
            match info & 0xf {
                STT_FILE => {
                    if within == Some(false) {
                        return false;
                    }
                    within = is(file).then_some(false);
                    files = files.saturating_add(within.is_some().into());
                }
                STT_FUNC if within == Some(false) && is(function) => within = Some(true),
                _ => {}
            }
        }
        files > 0 && within != Some(false)
    }

    /// What is kept of the table once the symbols around an address are.
    fn around(&self, addr: u64) -> Ref<'_, Kept> {
        let is_known = self.kept.borrow().range.contains(&addr);
        if !is_known {
            let near = |bytes| addr.saturating_sub(bytes)..addr.saturating_add(bytes.max(1));
            let ranges = std::iter::once(0..u64::MAX).chain(AROUND.into_iter().map(near));
            let mut kept = Kept::default();
            for range in ranges {
                kept = Kept::read(self.symbols.clone(), range);
                if kept.is_complete {
                    break;
                }
            }
            self.kept.replace(kept);
        }
        self.kept.borrow()
    }

    /// Whether there are neither functions nor objects.
    pub(super) fn is_empty(&self) -> bool {
        let kept = self.around(0);
        kept.is_complete
            && kept.range.end == u64::MAX
            && kept.functions.is_empty()
            && kept.objects.is_empty()
    }

    /// What is kept in memory.
    pub(super) fn bytes(&self) -> usize {
        let kept = self.kept.borrow();
        (kept.functions.capacity() + kept.objects.capacity()) * size_of::<Entry>()
    }

    fn name(&self, entry: &Entry) -> Option<String> {
        self.name_at(entry.name)
    }

    /// The name at an offset of the string table.
    fn name_at(&self, offset: u32) -> Option<String> {
        let names = self.names.behind(usize::try_from(offset).ok()?);
        text::to_nul(&names).filter(|name| !name.is_empty())
    }

    /// How many underscores a name begins with: of several for one address the one that is least internal is told,
    /// `clone3`, not `__GI___clone3`.
    fn underscores(&self, entry: &Entry) -> usize {
        const MOST: usize = 8;
        let Ok(at) = usize::try_from(entry.name) else {
            return MOST;
        };
        let start = self.names.behind(at).first(MOST);
        let start = start.to_slice().unwrap_or_default();
        start.iter().take_while(|&&byte| byte == b'_').count()
    }

    fn find(&self, list: &[Entry], addr: u64, allow_unsized: bool) -> Option<Symbol> {
        /// How many symbols that begin before `addr` and end before it are passed over, and how many names of one
        /// address are compared.
        const MOST_PASSED: usize = 64;
        let after = list.partition_point(|e| e.addr <= addr);
        let before = list.get(..after)?;
        let nearest = before.last()?.addr;
        let covering = before.iter().rev().take(MOST_PASSED).find(|e| {
            let offset = addr - e.addr;
            offset < e.size || (e.size == 0 && allow_unsized && e.addr == nearest)
        })?;
        // The best among equals of the same address that covers as well.
        let first = before.partition_point(|e| e.addr < covering.addr);
        let covers = |e: &&Entry| addr - e.addr < e.size || (e.size == 0 && covering.size == 0);
        let best = (before.get(first..)?.iter())
            .filter(covers)
            .take(MOST_PASSED)
            .min_by_key(|e| (e.rank, self.underscores(e), e.name))?;
        Some(Symbol {
            name: self.name(best)?,
            addr: best.addr,
            size: best.size,
        })
    }

    /// The function at a link-time address.
    pub(super) fn function_at(&self, addr: u64) -> Option<Symbol> {
        self.find(&self.around(addr).functions, addr, true)
    }

    /// The data object at a link-time address.
    pub(super) fn object_at(&self, addr: u64) -> Option<Symbol> {
        self.find(&self.around(addr).objects, addr, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::effort;

    fn symbol(name: u32, info: u8, shndx: u16, value: u64, size: u64) -> Vec<u8> {
        let mut bytes = name.to_le_bytes().to_vec();
        bytes.extend([info, 0]);
        bytes.extend(shndx.to_le_bytes());
        bytes.extend(value.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes
    }

    /// Check extents, gaps, aliases, undefined symbols and a name out of bounds.
    #[test]
    fn finds_the_covering_symbol() {
        let names = Reader::of_bytes((*b"\0f\0g\0local\0obj\0").into());
        let mut bytes = symbol(5, STT_FUNC, 1, 0x1000, 0x10);
        bytes.extend(symbol(1, 0x10 | STT_FUNC, 1, 0x1000, 0x10));
        bytes.extend(symbol(3, 0x10 | STT_FUNC, 1, 0x1020, 0x10));
        bytes.extend(symbol(3, 0x10 | STT_FUNC, 0, 0x1040, 0x10));
        bytes.extend(symbol(11, 0x10 | STT_OBJECT, 2, 0x2000, 8));
        bytes.extend(symbol(0xffff, 0x10 | STT_OBJECT, 2, 0x3000, 8));
        bytes.extend([1, 2, 3]);
        let table = SymbolTable::new(Reader::of_bytes(bytes.into()), names);
        assert_eq!(
            table.function_at(0x100f).map(|s| s.name).as_deref(),
            Some("f")
        );
        assert_eq!(table.function_at(0x1010), None);
        assert_eq!(
            table.function_at(0x1020).map(|s| s.name).as_deref(),
            Some("g")
        );
        assert_eq!(table.function_at(0x1041), None);
        let object = table.object_at(0x2007).expect("inside obj");
        assert_eq!(
            (object.name.as_str(), object.addr, object.size),
            ("obj", 0x2000, 8)
        );
        assert_eq!(table.object_at(0x2008), None);
        assert_eq!(table.object_at(0x3000), None);
        assert_eq!(table.function_at(0), None);
    }
    /// Check that of a table with too many symbols those around an address are found, wherever it is, that no more
    /// are kept than may be, and that a name of 200 MB is cut.
    #[test]
    fn many_symbols_and_long_names() {
        effort::begin();
        let mut names = vec![b'n'; 200 << 20];
        names[0] = 0;
        let count = 4 * MOST_KEPT as u64;
        let symbols = (0..count).flat_map(|index| symbol(1, STT_FUNC, 1, index << 12, 0x10));
        let symbols: Vec<u8> = symbols.collect();
        let table = SymbolTable::new(
            Reader::of_bytes(symbols.into()),
            Reader::of_bytes(names.into()),
        );
        for index in [0, 1, count / 2, count - 1] {
            let found = table.function_at((index << 12) + 0xf).expect("it is there");
            assert_eq!((found.addr, found.size), (index << 12, 0x10));
            assert_eq!(found.name.len(), text::LONGEST);
            assert_eq!(table.function_at((index << 12) + 0x10), None);
            assert!(table.bytes() <= MOST_KEPT * size_of::<Entry>());
        }
        // All at one address: those that come first.
        let symbols = (0..count).flat_map(|_| symbol(1, STT_FUNC, 1, 0x1000, 0x10));
        let symbols: Vec<u8> = symbols.collect();
        let table = SymbolTable::new(
            Reader::of_bytes(symbols.into()),
            Reader::of_bytes((*b"\0f\0").into()),
        );
        assert_eq!(
            table.function_at(0x1008).map(|s| s.name).as_deref(),
            Some("f")
        );
        assert!(table.bytes() <= MOST_KEPT * size_of::<Entry>());
    }
}
