//! The symbol tables of an ELF file, `.symtab` or else `.dynsym` (gabi, "Symbol Table"),
//! as sorted lists: which symbol covers an address.

use std::sync::Arc;

use super::elf_file::ElfFile;

/// `sizeof(Elf64_Sym)`.
const SYMBOL_SIZE: usize = 24;
const SHN_UNDEF: u16 = 0;
const STT_NOTYPE: u8 = 0;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    /// The name, still mangled.
    pub(super) name: String,
    /// Link-time address.
    pub(super) addr: u64,
    /// Size in bytes; 0 where the file does not say.
    pub(super) size: u64,
}

/// The functions and objects of a file, sorted by address.
#[derive(Debug, Default)]
pub(super) struct SymbolTable {
    functions: Vec<Entry>,
    objects: Vec<Entry>,
    names: Arc<[u8]>,
}

impl SymbolTable {
    /// Reads `.symtab`, or `.dynsym` of a stripped file.
    pub(super) fn read(file: &ElfFile) -> Option<Self> {
        let full = file
            .section_bytes(".symtab")
            .zip(file.section_bytes(".strtab"));
        let (symbols, names) = full.or_else(|| {
            file.section_bytes(".dynsym")
                .zip(file.section_bytes(".dynstr"))
        })?;
        Some(Self::parse(&symbols, names))
    }

    fn parse(symbols: &[u8], names: Arc<[u8]>) -> Self {
        let mut table = Self {
            names,
            ..Self::default()
        };
        for symbol in symbols.chunks_exact(SYMBOL_SIZE) {
            let [n0, n1, n2, n3, info, _other, s0, s1, rest @ ..] = symbol else {
                continue;
            };
            let Some((value, size)) = rest.split_first_chunk::<8>() else {
                continue;
            };
            let Some(size) = size.first_chunk::<8>() else {
                continue;
            };
            let bind = info >> 4;
            let kind = info & 0xf;
            if u16::from_le_bytes([*s0, *s1]) == SHN_UNDEF {
                continue;
            }
            let entry = Entry {
                addr: u64::from_le_bytes(*value),
                size: u64::from_le_bytes(*size),
                name: u32::from_le_bytes([*n0, *n1, *n2, *n3]),
                rank: u8::from(bind == STB_LOCAL) << 4 | u8::from(kind == STT_NOTYPE) << 5 | bind,
            };
            match kind {
                STT_FUNC | STT_GNU_IFUNC => table.functions.push(entry),
                // Assembly without `.type`: better than no name, where it has an extent.
                STT_NOTYPE if entry.size > 0 => table.functions.push(entry),
                STT_OBJECT => table.objects.push(entry),
                _ => {}
            }
        }
        // Of several names for one address the one that is least internal: `clone3`, not `__GI___clone3`.
        let names = Arc::clone(&table.names);
        let underscores = |entry: &Entry| {
            let name = usize::try_from(entry.name)
                .ok()
                .and_then(|at| names.get(at..));
            let name = name.unwrap_or_default();
            name.iter().take_while(|&&byte| byte == b'_').count()
        };
        for list in [&mut table.functions, &mut table.objects] {
            list.sort_by_key(|e| (e.addr, e.rank, underscores(e), e.name));
        }
        table
    }

    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.objects.is_empty()
    }

    fn name(&self, offset: u32) -> Option<String> {
        let bytes = self.names.get(usize::try_from(offset).ok()?..)?;
        let end = bytes.iter().position(|&b| b == 0)?;
        let name = String::from_utf8_lossy(bytes.get(..end)?);
        (!name.is_empty()).then(|| name.into_owned())
    }

    fn find(&self, list: &[Entry], addr: u64, allow_unsized: bool) -> Option<Symbol> {
        /// How many symbols that begin before `addr` and end before it are passed over.
        const MAX_NESTED: usize = 64;
        let after = list.partition_point(|e| e.addr <= addr);
        let before = list.get(..after)?;
        let nearest = before.last()?.addr;
        let covering = before.iter().rev().take(MAX_NESTED).find(|e| {
            let offset = addr - e.addr;
            offset < e.size || (e.size == 0 && allow_unsized && e.addr == nearest)
        })?;
        // The first among equals of the same address that covers as well.
        let first = before.partition_point(|e| e.addr < covering.addr);
        let best = before
            .get(first..)?
            .iter()
            .find(|e| addr - e.addr < e.size || (e.size == 0 && covering.size == 0))?;
        Some(Symbol {
            name: self.name(best.name)?,
            addr: best.addr,
            size: best.size,
        })
    }

    /// The function at a link-time address.
    pub(super) fn function_at(&self, addr: u64) -> Option<Symbol> {
        self.find(&self.functions, addr, true)
    }

    /// The data object at a link-time address.
    pub(super) fn object_at(&self, addr: u64) -> Option<Symbol> {
        self.find(&self.objects, addr, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let names: Arc<[u8]> = (*b"\0f\0g\0local\0obj\0").into();
        let mut bytes = symbol(5, STT_FUNC, 1, 0x1000, 0x10);
        bytes.extend(symbol(1, 0x10 | STT_FUNC, 1, 0x1000, 0x10));
        bytes.extend(symbol(3, 0x10 | STT_FUNC, 1, 0x1020, 0x10));
        bytes.extend(symbol(3, 0x10 | STT_FUNC, 0, 0x1040, 0x10));
        bytes.extend(symbol(11, 0x10 | STT_OBJECT, 2, 0x2000, 8));
        bytes.extend(symbol(0xffff, 0x10 | STT_OBJECT, 2, 0x3000, 8));
        bytes.extend([1, 2, 3]);
        let table = SymbolTable::parse(&bytes, names);
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
}
