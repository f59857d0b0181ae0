//! Segments and sections, as their headers have them.

use serde::{Deserialize, Serialize};

use crate::addr::{FileOffset, LinkAddr};
use crate::image::Encoding;
use crate::image::bytes::slice;

use super::Fields;

const SHT_SYMTAB: u32 = 2;

const SHT_RELA: u32 = 4;

const SHT_NOTE: u32 = 7;

const SHT_NOBITS: u32 = 8;

const SHT_REL: u32 = 9;

const SHT_DYNSYM: u32 = 11;

pub(in crate::image) const SHT_SYMTAB_SHNDX: u32 = 18;

const SHT_CREL: u32 = 0x4000_0014;

const SHT_ANDROID_REL: u32 = 0x6000_0001;

const SHT_ANDROID_RELA: u32 = 0x6000_0002;

const SHF_WRITE: u64 = 1;

const SHF_ALLOC: u64 = 2;

const SHF_EXECINSTR: u64 = 4;

const SHF_COMPRESSED: u64 = 0x800;

/// A part of the file that is loaded into memory (`PT_LOAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Where the linker put it.
    pub address: LinkAddr,
    /// Where its bytes are in the file.
    pub offset: FileOffset,
    /// How many bytes come from the file.
    pub file_size: u64,
    /// How many bytes it has in memory; those beyond `file_size` start as zeros.
    pub memory_size: u64,
    /// Whether it may be read.
    pub is_readable: bool,
    /// Whether it may be written.
    pub is_writable: bool,
    /// Whether it may be executed.
    pub is_executable: bool,
}

/// What a section's content is, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::image) enum SectionKind {
    SymbolTable,
    DynamicSymbolTable,
    Relocations(RelocationForm),
    Note,
    NoBits,
    Other,
}

/// How a table of relocations is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::image) enum RelocationForm {
    Rela,
    Rel,
    Crel,
    Android,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::image) struct SectionFlags {
    pub(in crate::image) allocated: bool,
    pub(in crate::image) executable: bool,
    pub(in crate::image) writable: bool,
    pub(in crate::image) compressed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::image) struct Section {
    pub(super) name: u32,
    pub(in crate::image) kind: SectionKind,
    /// `sh_type`, of which `kind` is what matters here.
    pub(in crate::image) number: u32,
    pub(in crate::image) flags: SectionFlags,
    pub(in crate::image) address: LinkAddr,
    pub(in crate::image) offset: FileOffset,
    pub(in crate::image) size: u64,
    /// Index of the section that holds the names of a symbol table, or the symbols of relocations.
    pub(in crate::image) link: u32,
    /// Index of the section that relocations are for.
    pub(in crate::image) info: u32,
    pub(in crate::image) alignment: u64,
}

impl Section {
    pub(in crate::image) fn data<'data>(&self, file: &'data [u8]) -> &'data [u8] {
        if self.kind == SectionKind::NoBits {
            return &[];
        }
        slice(file, self.offset.0, self.size).unwrap_or(&[])
    }
}

pub(in crate::image) fn section(shdr: &[u8], encoding: Encoding) -> Section {
    let mut fields = Fields::new(shdr, encoding, 0);
    let (name, number) = (fields.u32(), fields.u32());
    let (flags, address) = (fields.word(), fields.word());
    let (offset, size) = (fields.word(), fields.word());
    let (link, info) = (fields.u32(), fields.u32());
    let alignment = fields.word();
    Section {
        name,
        number,
        kind: match number {
            SHT_SYMTAB => SectionKind::SymbolTable,
            SHT_DYNSYM => SectionKind::DynamicSymbolTable,
            SHT_RELA => SectionKind::Relocations(RelocationForm::Rela),
            SHT_REL => SectionKind::Relocations(RelocationForm::Rel),
            SHT_CREL => SectionKind::Relocations(RelocationForm::Crel),
            SHT_ANDROID_RELA | SHT_ANDROID_REL => SectionKind::Relocations(RelocationForm::Android),
            SHT_NOTE => SectionKind::Note,
            SHT_NOBITS => SectionKind::NoBits,
            // SHT_NULL's size field may hold the section count.
            0 => SectionKind::NoBits,
            _ => SectionKind::Other,
        },
        flags: SectionFlags {
            allocated: flags & SHF_ALLOC != 0,
            executable: flags & SHF_EXECINSTR != 0,
            writable: flags & SHF_WRITE != 0,
            compressed: flags & SHF_COMPRESSED != 0,
        },
        address: LinkAddr(address),
        offset: FileOffset(offset),
        size,
        link,
        info,
        alignment,
    }
}
