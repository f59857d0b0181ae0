//! Tables of relocations in all their forms, one entry after the other.
//!
//! | section type | entries |
//! | --- | --- |
//! | `SHT_RELA`, `SHT_REL` | `Elf64_Rela` and its like; those of `SHT_REL` have their addend in the place itself |
//! | `SHT_CREL` | differences in LEB128 (`--crel`, LLVM 20 and later) |
//! | `SHT_ANDROID_RELA`, `SHT_ANDROID_REL` | groups with what they have in common (`--pack-dyn-relocs=android`) |
//!
//! `SHT_RELR` needs no look: its places hold their addresses already, to which a loader adds the load bias.
//! Source: `elf.h`, LLVM's `decodeCrel` and `ELFFile::android_relas`.

use gimli::leb128::read::{signed, unsigned};
use gimli::{EndianSlice, LittleEndian, Reader as _};

use super::Encoding;
use super::headers::{Headers, RelocationForm, Section, SectionKind};
use super::machine::Machine;

/// The least that a place takes that is filled in.
const LEAST_PLACE: usize = 4;
const ANDROID_MAGIC: &[u8] = b"APS2";
const GROUPED_BY_INFO: i64 = 1;
const GROUPED_BY_OFFSET_DELTA: i64 = 2;
const GROUPED_BY_ADDEND: i64 = 4;
const GROUP_HAS_ADDEND: i64 = 8;

/// One relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relocation {
    /// The place: in object files a distance from its section's start, else an address.
    pub(super) offset: u64,
    /// What is added; nothing where that is in the place.
    pub(super) addend: Option<u64>,
    /// The type, as the machine's ABI numbers it.
    pub(super) kind: u32,
    /// The index of its symbol.
    pub(super) symbol: u32,
}

/// Why a table cannot be read.
pub(super) type Trouble = &'static str;

/// All relocations of a table, in the order of the file; before the first that cannot be read, that is.
pub(super) fn of_table(
    data: &[u8],
    headers: &Headers,
    table: &Section,
) -> (Vec<Relocation>, Result<(), Trouble>) {
    let SectionKind::Relocations(form) = table.kind else {
        return (Vec::new(), Ok(()));
    };
    let mut decoder = Decoder {
        encoding: headers.encoding,
        machine: headers.machine,
        // More than that many places are not in the file.
        most: data.len() / LEAST_PLACE,
        found: Vec::new(),
    };
    let bytes = table.data(data);
    let outcome = match form {
        RelocationForm::Rela => decoder.plain(bytes, true),
        RelocationForm::Rel => decoder.plain(bytes, false),
        RelocationForm::Crel => decoder.crel(bytes),
        RelocationForm::Android => decoder.android(bytes),
    };
    (decoder.found, outcome)
}

struct Decoder {
    encoding: Encoding,
    machine: Machine,
    most: usize,
    found: Vec<Relocation>,
}

type Bytes<'data> = EndianSlice<'data, LittleEndian>;

impl Decoder {
    fn push(&mut self, relocation: Relocation) -> Result<(), Trouble> {
        if self.found.len() >= self.most {
            return Err("it has more entries than the file has places");
        }
        self.found.push(relocation);
        Ok(())
    }

    fn plain(&mut self, bytes: &[u8], has_addend: bool) -> Result<(), Trouble> {
        let encoding = self.encoding;
        let word = encoding.address_size();
        let size = if has_addend { 3 * word } else { 2 * word };
        self.found
            .reserve_exact((bytes.len() / size).min(self.most));
        for entry in bytes.chunks_exact(size) {
            let (kind, symbol) = self.info(encoding.word_at(entry, word).unwrap_or_default());
            let addend = encoding.signed_word_at(entry, 2 * word);
            self.push(Relocation {
                offset: encoding.word_at(entry, 0).unwrap_or_default(),
                addend: addend.map(i64::cast_unsigned),
                kind,
                symbol,
            })?;
        }
        Ok(())
    }

    /// Type and symbol out of `r_info`.
    fn info(&self, info: u64) -> (u32, u32) {
        if self.encoding.is_32_bit {
            return (info as u32 & 0xff, info as u32 >> 8);
        }
        if self.machine != Machine::Mips {
            return (info as u32, (info >> 32) as u32);
        }
        // The symbol, another symbol, and three types, the first of them last; whatever the byte order.
        let bytes = match self.encoding.is_big_endian {
            true => info.to_be_bytes(),
            false => info.to_le_bytes(),
        };
        let [s0, s1, s2, s3, _, third, second, first] = bytes;
        let symbol = self.encoding.number(&[s0, s1, s2, s3]);
        let kind = u32::from_be_bytes([0, third, second, first]);
        (kind, symbol as u32)
    }

    fn crel(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        const CUT: Trouble = "it ends within an entry";
        let mut bytes = Bytes::new(bytes, LittleEndian);
        let header = unsigned(&mut bytes).map_err(|_| CUT)?;
        let has_addend = header & 4 != 0;
        let (flag_bits, shift) = (if has_addend { 3 } else { 2 }, header & 3);
        let (mut offset, mut addend) = (0u64, 0u64);
        let (mut symbol, mut kind) = (0u32, 0u32);
        for _ in 0..header / 8 {
            let first = bytes.read_u8().map_err(|_| CUT)?;
            let flags = first & ((1 << flag_bits) - 1);
            let mut delta = u64::from(first >> flag_bits);
            if first >= 0x80 {
                let rest = unsigned(&mut bytes).map_err(|_| CUT)?;
                delta = delta
                    .wrapping_add(rest << (7 - flag_bits))
                    .wrapping_sub(0x80 >> flag_bits);
            }
            offset = offset.wrapping_add(delta);
            let mut next = |is_there| match is_there {
                true => signed(&mut bytes).map_err(|_| CUT),
                false => Ok(0),
            };
            symbol = symbol.wrapping_add(next(flags & 1 != 0)? as u32);
            kind = kind.wrapping_add(next(flags & 2 != 0)? as u32);
            addend = addend.wrapping_add(next(flags & 4 != 0)?.cast_unsigned());
            self.push(Relocation {
                offset: offset << shift,
                addend: has_addend.then_some(addend),
                kind,
                symbol,
            })?;
        }
        Ok(())
    }

    fn android(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let bytes = (bytes.strip_prefix(ANDROID_MAGIC)).ok_or("it does not begin with APS2")?;
        let mut bytes = Bytes::new(bytes, LittleEndian);
        let mut next = || signed(&mut bytes).map_err(|_| "it ends within a group");
        let (mut left, mut offset, mut addend) = (next()?, next()?, 0i64);
        while left > 0 {
            let (count, flags) = (next()?, next()?);
            if count <= 0 || count > left {
                return Err("a group has more entries than there are");
            }
            left -= count;
            let has = |flag| flags & flag != 0;
            let has_addend = has(GROUP_HAS_ADDEND);
            let delta = has(GROUPED_BY_OFFSET_DELTA).then(&mut next).transpose()?;
            let info = has(GROUPED_BY_INFO).then(&mut next).transpose()?;
            if !has_addend {
                addend = 0;
            } else if has(GROUPED_BY_ADDEND) {
                addend = addend.wrapping_add(next()?);
            }
            for _ in 0..count {
                offset = offset.wrapping_add(delta.map_or_else(&mut next, Ok)?);
                let info = info.map_or_else(&mut next, Ok)?;
                if has_addend && !has(GROUPED_BY_ADDEND) {
                    addend = addend.wrapping_add(next()?);
                }
                let (kind, symbol) = self.info(info.cast_unsigned());
                self.push(Relocation {
                    offset: offset.cast_unsigned(),
                    addend: has_addend.then_some(addend.cast_unsigned()),
                    kind,
                    symbol,
                })?;
            }
        }
        Ok(())
    }
}
