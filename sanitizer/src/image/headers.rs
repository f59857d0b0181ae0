//! The ELF header, the program headers and the section headers: `elf.h`'s `Elf64_Ehdr`,
//! `Elf64_Phdr` and `Elf64_Shdr`, and those of `Elf32`.

mod ident;
mod section;

use std::path::Path;

use super::bytes::{c_string, slice};
use super::descriptors::Descriptors;
use super::machine::Machine;
use super::{Encoding, ImageError};
use crate::addr::{FileOffset, LinkAddr};

use section::{SHT_SYMTAB_SHNDX, section};

pub use section::Segment;
pub(super) use section::{RelocationForm, Section, SectionKind};

use ident::{FileKind, encoding_of, kind_of};

const ELF_MAGIC: &[u8] = b"\x7fELF";

/// What LLVM's bitcode begins with, bare and in its wrapper.
const BITCODE_MAGICS: [&[u8]; 2] = [b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];

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

/// Where the sections of object files are put. Zero is what an address looks like that is not there.
const FIRST_ADDRESS: u64 = 0x1_0000;

const LEAST_ALIGNMENT: u64 = 16;

const MOST_ALIGNMENT: u64 = 1 << 16;

/// How many times the file's size its sections may have together. Those of compilers and linkers do not
/// share bytes, or only few.
const MOST_OVERLAP: u64 = 4;

/// Where a name is taken to have no end. C++ makes names of some thousand bytes.
const LONGEST_NAME: usize = 1 << 16;

/// A range of the file that holds notes (`PT_NOTE`).
#[derive(Clone, Copy, Debug)]
pub(super) struct NoteSegment {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) alignment: u64,
}

pub(super) struct Headers {
    pub(super) machine: Machine,
    pub(super) encoding: Encoding,
    pub(super) is_position_independent: bool,
    /// Whether it is an object file (`ET_REL`), whose sections have been given addresses here.
    pub(super) is_object: bool,
    pub(super) is_dynamic: bool,
    /// Whether it holds only the debug information of a program.
    pub(super) is_debug_only: bool,
    pub(super) entry: LinkAddr,
    pub(super) segments: Vec<Segment>,
    pub(super) notes: Vec<NoteSegment>,
    pub(super) sections: Vec<Section>,
    /// Of object files with very many sections: the index of a symbol table, and that of the section
    /// which tells the sections of its symbols. Sorted.
    extended_indices: Vec<(u32, usize)>,
    /// Index of the section with the sections' names.
    names: usize,
    /// Where the symbols of functions are no code.
    pub(super) descriptors: Descriptors,
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
        if BITCODE_MAGICS.iter().any(|magic| data.starts_with(magic)) {
            return Err(ImageError::Unsupported {
                file: file.into(),
                what: "LLVM bitcode, of which a linker has yet to make code (-flto)".into(),
                mend: "link it, and give the executable or the shared library",
            });
        }
        if !data.starts_with(ELF_MAGIC) {
            return Err(ImageError::NotElf { file: file.into() });
        }
        let encoding = encoding_of(data, file)?;
        let is_32_bit = encoding.is_32_bit;
        let (header_size, phdr_size, shdr_size) = if is_32_bit {
            (52, 32, 40)
        } else {
            (64, 56, 64)
        };
        let header = data
            .get(..header_size)
            .ok_or_else(|| truncated("the ELF header".into(), 0, header_size as u64))?;
        let (machine, kind) = kind_of(header, encoding, file)?;
        let mut fields = Fields::new(header, encoding, 24);
        let entry = LinkAddr(fields.word());
        let (phoff, shoff) = (fields.word(), fields.word());
        let (_flags, _header_size) = (fields.u32(), fields.u16());
        let (phentsize, phnum) = (fields.u16(), fields.u16());
        let (shentsize, shnum, shstrndx) = (fields.u16(), fields.u16(), fields.u16());

        // The first section header has the counts that are too large for their fields.
        let first = if shoff == 0 {
            None
        } else {
            let first = slice(data, shoff, shdr_size)
                .ok_or_else(|| truncated("the section header table".into(), shoff, shdr_size))?;
            Some(section(first, encoding))
        };
        let section_count = match first {
            None => 0,
            Some(first) if shnum == 0 => first.size,
            Some(_) => u64::from(shnum),
        };
        let names = match first {
            Some(first) if shstrndx == SHN_XINDEX => first.link as usize,
            _ => usize::from(shstrndx),
        };
        let segment_count = match first {
            Some(first) if phnum == PN_XNUM => u64::from(first.info),
            _ => u64::from(phnum),
        };

        let phdrs = table(data, phoff, segment_count, phentsize, phdr_size).ok_or_else(|| {
            let size = segment_count.saturating_mul(phdr_size);
            truncated("the program header table".into(), phoff, size)
        })?;
        let shdrs = table(data, shoff, section_count, shentsize, shdr_size).ok_or_else(|| {
            let size = section_count.saturating_mul(shdr_size);
            truncated("the section header table".into(), shoff, size)
        })?;

        let mut headers = Self {
            machine,
            encoding,
            is_position_independent: kind == FileKind::PositionIndependent,
            is_object: kind == FileKind::Object,
            is_dynamic: false,
            is_debug_only: false,
            entry,
            segments: Vec::new(),
            notes: Vec::new(),
            sections: shdrs
                .chunks_exact(shdr_size as usize)
                .map(|header| section(header, encoding))
                .collect(),
            extended_indices: Vec::new(),
            names,
            descriptors: Descriptors::default(),
        };
        for phdr in phdrs.chunks_exact(phdr_size as usize) {
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
        headers.is_debug_only = (headers.sections.iter())
            .any(|s| s.flags.executable && s.kind == SectionKind::NoBits && s.size > 0);
        if !headers.is_debug_only {
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
    /// would: without them all of its functions would be at the same place. What refers to an empty section
    /// must not be taken for the next one's.
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
            next = next.saturating_add(section.size.max(1));
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
        let index = symbol.checked_mul(size_of::<u32>())?;
        let index = self.encoding.u32_at(indices, index)?;
        self.sections.get(index as usize)
    }

    fn add_segment(&mut self, phdr: &[u8]) {
        let mut fields = Fields::new(phdr, self.encoding, 0);
        let kind = fields.u32();
        // Where the flags are is the only difference but widths.
        let wide_flags = if self.encoding.is_32_bit {
            0
        } else {
            fields.u32()
        };
        let (offset, address, _physical) = (fields.word(), fields.word(), fields.word());
        let (file_size, memory_size) = (fields.word(), fields.word());
        let flags = match self.encoding.is_32_bit {
            true => fields.u32(),
            false => wide_flags,
        };
        let alignment = fields.word();
        match kind {
            PT_LOAD => self.segments.push(Segment {
                address: LinkAddr(address),
                offset: FileOffset(offset),
                file_size,
                memory_size,
                is_readable: flags & PF_R != 0,
                is_writable: flags & PF_W != 0,
                is_executable: flags & PF_X != 0,
            }),
            PT_DYNAMIC => self.is_dynamic = true,
            PT_NOTE => self.notes.push(NoteSegment {
                offset,
                size: file_size,
                alignment,
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

/// The fields of a header, one behind the other; zeros where it is cut short.
struct Fields<'data> {
    data: &'data [u8],
    encoding: Encoding,
    at: usize,
}

impl<'data> Fields<'data> {
    fn new(data: &'data [u8], encoding: Encoding, at: usize) -> Self {
        Self { data, encoding, at }
    }

    fn next(&mut self, size: usize) -> u64 {
        let start = self.at;
        self.at += size;
        let bytes = self.data.get(start..self.at).unwrap_or_default();
        self.encoding.number(bytes)
    }

    fn u16(&mut self) -> u16 {
        self.next(2) as u16
    }

    fn u32(&mut self) -> u32 {
        self.next(4) as u32
    }

    /// A number of the size of an address.
    fn word(&mut self) -> u64 {
        self.next(self.encoding.address_size())
    }
}
