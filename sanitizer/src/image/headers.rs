//! The ELF header, the program headers and the section headers: `elf.h`'s `Elf64_Ehdr`,
//! `Elf64_Phdr` and `Elf64_Shdr`.

use std::path::Path;

use super::ImageError;
use super::bytes::{c_string, slice, u16_at, u32_at, u64_at};
use crate::addr::{FileOffset, LinkAddr};

const ELF_MAGIC: &[u8] = b"\x7fELF";
const EI_CLASS: usize = 4;
const EI_DATA: usize = 5;
const ELFCLASS64: u8 = 2;
const ELFDATA2LSB: u8 = 1;
const ET_REL: u16 = 1;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const ET_CORE: u16 = 4;
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;
/// `e_phnum` of a file whose real count is in the first section header's `sh_info`.
const PN_XNUM: u16 = 0xffff;
/// `e_shstrndx` of a file whose real index is in the first section header's `sh_link`.
const SHN_XINDEX: u16 = 0xffff;
const SHT_SYMTAB: u32 = 2;
const SHT_RELA: u32 = 4;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
const SHT_DYNSYM: u32 = 11;
const SHT_SYMTAB_SHNDX: u32 = 18;
const SHF_WRITE: u64 = 1;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
const SHF_COMPRESSED: u64 = 0x800;
/// Where the sections of object files are put. Zero is what an address looks like that is not there.
const FIRST_ADDRESS: u64 = 0x1_0000;
const LEAST_ALIGNMENT: u64 = 16;
const MOST_ALIGNMENT: u64 = 1 << 16;
/// How many times the file's size its sections may have together. Those of compilers and linkers do not
/// share bytes, or only few.
const MOST_OVERLAP: u64 = 4;
/// Where a name is taken to have no end. C++ makes names of some thousand bytes.
const LONGEST_NAME: usize = 1 << 16;
const EHDR_SIZE: usize = 64;
const PHDR_SIZE: u64 = 56;
const SHDR_SIZE: u64 = 64;

/// The instruction set of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// x86-64, which the detector runs on.
    X86_64,
    /// AArch64, which can be inspected.
    Aarch64,
}

/// A part of the file that is loaded into memory (`PT_LOAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
pub(super) enum SectionKind {
    SymbolTable,
    DynamicSymbolTable,
    Relocations,
    Note,
    NoBits,
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SectionFlags {
    pub(super) allocated: bool,
    pub(super) executable: bool,
    pub(super) writable: bool,
    pub(super) compressed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    name: u32,
    pub(super) kind: SectionKind,
    /// `sh_type`, of which `kind` is what matters here.
    pub(super) number: u32,
    pub(super) flags: SectionFlags,
    pub(super) address: LinkAddr,
    pub(super) offset: FileOffset,
    pub(super) size: u64,
    /// Index of the section that holds the names of a symbol table, or the symbols of relocations.
    pub(super) link: u32,
    /// Index of the section that relocations are for.
    pub(super) info: u32,
    pub(super) alignment: u64,
}

impl Section {
    pub(super) fn data<'data>(&self, file: &'data [u8]) -> &'data [u8] {
        if self.kind == SectionKind::NoBits {
            return &[];
        }
        slice(file, self.offset.0, self.size).unwrap_or(&[])
    }
}

/// A range of the file that holds notes (`PT_NOTE`).
#[derive(Clone, Copy, Debug)]
pub(super) struct NoteSegment {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) alignment: u64,
}

pub(super) struct Headers {
    pub(super) machine: Machine,
    pub(super) is_position_independent: bool,
    /// Whether it is an object file (`ET_REL`), whose sections have been given addresses here.
    pub(super) is_object: bool,
    pub(super) is_dynamic: bool,
    pub(super) entry: LinkAddr,
    pub(super) segments: Vec<Segment>,
    pub(super) notes: Vec<NoteSegment>,
    pub(super) sections: Vec<Section>,
    /// Of object files with very many sections: the index of a symbol table, and that of the section
    /// which tells the sections of its symbols. Sorted.
    extended_indices: Vec<(u32, usize)>,
    /// Index of the section with the sections' names.
    names: usize,
}

impl Headers {
    pub(super) fn parse(data: &[u8], file: &Path) -> Result<Self, ImageError> {
        let truncated = |part: String, offset: u64, size: u64| ImageError::Truncated {
            file: file.into(),
            part,
            offset,
            size,
            file_size: data.len() as u64,
        };
        if !data.starts_with(ELF_MAGIC) {
            return Err(ImageError::NotElf { file: file.into() });
        }
        let header = data
            .get(..EHDR_SIZE)
            .ok_or_else(|| truncated("the ELF header".into(), 0, EHDR_SIZE as u64))?;
        let (machine, kind) = kind_of(header, file)?;
        let half = |at| u16_at(header, at).unwrap_or_default();
        let word = |at| u64_at(header, at).unwrap_or_default();
        let entry = LinkAddr(word(24));
        let (phoff, shoff) = (word(32), word(40));
        let (phentsize, phnum) = (half(54), half(56));
        let (shentsize, shnum, shstrndx) = (half(58), half(60), half(62));

        // The first section header has the counts that are too large for their fields.
        let first = if shoff == 0 {
            None
        } else {
            let first = slice(data, shoff, SHDR_SIZE)
                .ok_or_else(|| truncated("the section header table".into(), shoff, SHDR_SIZE))?;
            Some(first)
        };
        let section_count = match first {
            None => 0,
            Some(first) if shnum == 0 => u64_at(first, 32).unwrap_or_default(),
            Some(_) => u64::from(shnum),
        };
        let names = match first {
            Some(first) if shstrndx == SHN_XINDEX => u32_at(first, 40).unwrap_or_default() as usize,
            _ => usize::from(shstrndx),
        };
        let segment_count = match first {
            Some(first) if phnum == PN_XNUM => u64::from(u32_at(first, 44).unwrap_or_default()),
            _ => u64::from(phnum),
        };

        let phdrs = table(data, phoff, segment_count, phentsize, PHDR_SIZE).ok_or_else(|| {
            let size = segment_count.saturating_mul(PHDR_SIZE);
            truncated("the program header table".into(), phoff, size)
        })?;
        let shdrs = table(data, shoff, section_count, shentsize, SHDR_SIZE).ok_or_else(|| {
            let size = section_count.saturating_mul(SHDR_SIZE);
            truncated("the section header table".into(), shoff, size)
        })?;

        let mut headers = Self {
            machine,
            is_position_independent: kind == FileKind::PositionIndependent,
            is_object: kind == FileKind::Object,
            is_dynamic: false,
            entry,
            segments: Vec::new(),
            notes: Vec::new(),
            sections: shdrs
                .chunks_exact(SHDR_SIZE as usize)
                .map(section)
                .collect(),
            extended_indices: Vec::new(),
            names,
        };
        for phdr in phdrs.chunks_exact(PHDR_SIZE as usize) {
            headers.add_segment(phdr);
        }
        for section in &headers.sections {
            if section.kind != SectionKind::NoBits
                && slice(data, section.offset.0, section.size).is_none()
            {
                let part = format!("section {:?}", headers.section_name(data, section));
                return Err(truncated(part, section.offset.0, section.size));
            }
        }
        // Where sections share bytes without end, reading each takes time without end.
        let sizes = headers
            .sections
            .iter()
            .filter(|s| s.kind != SectionKind::NoBits);
        let sum = sizes.fold(0u64, |sum, section| sum.saturating_add(section.size));
        if sum > (data.len() as u64).saturating_mul(MOST_OVERLAP) {
            return Err(ImageError::Unsupported {
                file: file.into(),
                what: format!("its sections overlap: they have {sum:#x} bytes together"),
                mend: "the file is damaged: build it or copy it again",
            });
        }
        // Files with nothing but debug information keep the program headers of the program that
        // they were taken from; its bytes are not there, and its sections are `SHT_NOBITS`.
        let debug_only = (headers.sections.iter())
            .any(|s| s.flags.executable && s.kind == SectionKind::NoBits && s.size > 0);
        if !debug_only {
            for segment in &headers.segments {
                if slice(data, segment.offset.0, segment.file_size).is_none() {
                    let part = format!("the segment for address {}", segment.address);
                    return Err(truncated(part, segment.offset.0, segment.file_size));
                }
            }
        }
        if headers.is_object {
            headers.lay_out();
        }
        Ok(headers)
    }

    /// Gives the sections of an object file addresses of their own, one behind the other, as a linker
    /// would: without them all of its functions would be at the same place.
    fn lay_out(&mut self) {
        let mut next = FIRST_ADDRESS;
        for section in self
            .sections
            .iter_mut()
            .filter(|section| section.flags.allocated)
        {
            let alignment = section.alignment.clamp(LEAST_ALIGNMENT, MOST_ALIGNMENT);
            next = next.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
            section.address = LinkAddr(next);
            next = next.saturating_add(section.size);
        }
        self.extended_indices = (self.sections.iter().enumerate())
            .filter(|(_, section)| section.number == SHT_SYMTAB_SHNDX)
            .map(|(index, section)| (section.link, index))
            .collect();
        self.extended_indices.sort_unstable();
    }

    /// The section that a symbol is in: `shndx` of the entry `symbol` of the table `table`.
    pub(super) fn section_of_symbol(
        &self,
        data: &[u8],
        table: usize,
        symbol: usize,
        shndx: u16,
    ) -> Option<&Section> {
        if shndx != SHN_XINDEX {
            return self.sections.get(usize::from(shndx));
        }
        // Object files with more sections than fit the field have a table of the indices.
        let found =
            (self.extended_indices).binary_search_by_key(&table, |(table, _)| *table as usize);
        let (_, indices) = self.extended_indices.get(found.ok()?)?;
        let indices = self.sections.get(*indices)?.data(data);
        let index = u32_at(indices, symbol.checked_mul(size_of::<u32>())?)?;
        self.sections.get(index as usize)
    }

    fn add_segment(&mut self, phdr: &[u8]) {
        let word = |at| u64_at(phdr, at).unwrap_or_default();
        let flags = u32_at(phdr, 4).unwrap_or_default();
        match u32_at(phdr, 0).unwrap_or_default() {
            PT_LOAD => self.segments.push(Segment {
                address: LinkAddr(word(16)),
                offset: FileOffset(word(8)),
                file_size: word(32),
                memory_size: word(40),
                is_readable: flags & PF_R != 0,
                is_writable: flags & PF_W != 0,
                is_executable: flags & PF_X != 0,
            }),
            PT_DYNAMIC => self.is_dynamic = true,
            PT_NOTE => self.notes.push(NoteSegment {
                offset: word(8),
                size: word(32),
                alignment: word(48),
            }),
            _ => {}
        }
    }

    /// The section's name; empty where it has none or one that is no text.
    pub(super) fn section_name<'data>(&self, data: &'data [u8], section: &Section) -> &'data str {
        (self.sections.get(self.names))
            .and_then(|names| {
                let start = section.name as usize;
                let names = names.data(data).get(start..)?;
                // Names without an end, one for each section, would take time without end.
                c_string(names.get(..LONGEST_NAME).unwrap_or(names), 0)
            })
            .and_then(|name| str::from_utf8(name).ok())
            .unwrap_or_default()
    }
}

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileKind {
    FixedAddress,
    PositionIndependent,
    Object,
}

fn kind_of(header: &[u8], file: &Path) -> Result<(Machine, FileKind), ImageError> {
    let unsupported = |what: String, mend| ImageError::Unsupported {
        file: file.into(),
        what,
        mend,
    };
    if header.get(EI_CLASS) != Some(&ELFCLASS64) || header.get(EI_DATA) != Some(&ELFDATA2LSB) {
        return Err(unsupported(
            "not a 64-bit little-endian ELF file".into(),
            "build the program for x86-64",
        ));
    }
    let machine = match u16_at(header, 18).unwrap_or_default() {
        EM_X86_64 => Machine::X86_64,
        EM_AARCH64 => Machine::Aarch64,
        other => {
            return Err(unsupported(
                format!("built for ELF machine {other}"),
                "build the program for x86-64",
            ));
        }
    };
    match u16_at(header, 16).unwrap_or_default() {
        ET_EXEC => Ok((machine, FileKind::FixedAddress)),
        ET_DYN => Ok((machine, FileKind::PositionIndependent)),
        ET_REL => Ok((machine, FileKind::Object)),
        ET_CORE => Err(unsupported(
            "a core dump".into(),
            "give the executable that dumped it",
        )),
        other => Err(unsupported(
            format!("ELF type {other}"),
            "give an executable or a shared library",
        )),
    }
}

/// A table of `count` entries, which must have the size that this code reads.
fn table(data: &[u8], offset: u64, count: u64, entry: u16, expected: u64) -> Option<&[u8]> {
    if count == 0 {
        return Some(&[]);
    }
    if u64::from(entry) != expected {
        return None;
    }
    slice(data, offset, count.checked_mul(expected)?)
}

fn section(shdr: &[u8]) -> Section {
    let word = |at| u64_at(shdr, at).unwrap_or_default();
    let half = |at| u32_at(shdr, at).unwrap_or_default();
    let flags = word(8);
    Section {
        name: half(0),
        number: half(4),
        kind: match half(4) {
            SHT_SYMTAB => SectionKind::SymbolTable,
            SHT_DYNSYM => SectionKind::DynamicSymbolTable,
            SHT_RELA => SectionKind::Relocations,
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
        address: LinkAddr(word(16)),
        offset: FileOffset(word(24)),
        size: word(32),
        link: half(40),
        info: half(44),
        alignment: word(48),
    }
}
