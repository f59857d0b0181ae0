//! The parts of an ELF file (gabi, elf(5)) that symbols and unwinding need.
//!
//! Files are read with pread, not mapped: somebody may truncate a library or a debug file
//! while we hold it, and that must cost a symbol, not a SIGBUS. Section contents are read
//! when first asked for, and so far as they are asked for.

use std::io;
use std::sync::Arc;

use gimli::Reader as _;

use super::beside::{Beside, FileIdentity, Opened};
use super::elf_headers::{Headers, SHF_COMPRESSED, SHT_NOBITS, Section, Segment};
use super::facts::Facts;
use super::inflate::Packed;
use super::mini_debug_info;
use super::pages::PagedFile;
use super::reader::Reader;
use super::too_much::TooMuch;
use crate::image::{Form, Image};
use crate::pcmeta::{BlockMap, StackMaps};

/// An open ELF file: its headers, and its sections on demand.
pub(super) struct ElfFile {
    file: Arc<PagedFile>,
    /// What is wanted beside it.
    beside: Arc<dyn Beside>,
    identity: FileIdentity,
    sections: Vec<Section>,
    segments: Vec<Segment>,
    build_id: Vec<u8>,
}

/// The header that SHF_COMPRESSED sections begin with: `Elf64_Chdr`.
const COMPRESSION_HEADER_SIZE: usize = 24;
/// What `.zdebug_*` sections begin with, before a big-endian size.
const ZDEBUG_MAGIC: &[u8; 4] = b"ZLIB";
/// The sections that lead to other files have a name and a checksum or a build id.
const LONGEST_LINK: usize = 1 << 13;
/// The largest file that is read through for its checksum. (GDB's is a debug file of such a size, too.)
const MOST_SUMMED: u64 = 4 << 30;

impl ElfFile {
    /// Reads the headers of a file.
    pub(super) fn new(opened: Opened, beside: Arc<dyn Beside>) -> io::Result<Self> {
        let file = PagedFile::new(opened.file);
        let headers = Headers::read(&file)?;
        Ok(Self {
            file: Arc::new(file),
            beside,
            identity: opened.identity,
            sections: headers.sections,
            segments: headers.segments,
            build_id: headers.build_id,
        })
    }

    /// Opens a file that a test names.
    #[cfg(test)]
    pub(super) fn open(path: &std::path::Path) -> io::Result<Self> {
        let opened = Opened::elf(std::fs::File::open(path)?)?;
        Self::new(opened, Arc::new(super::beside::NothingBeside))
    }

    pub(super) const fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Its size in bytes.
    pub(super) const fn len(&self) -> u64 {
        self.identity.size
    }

    /// What is known of it at first.
    pub(super) fn facts(&self) -> Facts {
        let end = |s: &Segment| s.addr.saturating_add(s.mem_size);
        let code = self.segments.iter().filter(|s| s.executable);
        Facts {
            build_id: self.build_id.clone(),
            range: self.link_range(),
            code: code.map(|s| (s.addr, end(s))).collect(),
        }
    }

    /// The GNU build id; empty where there is none.
    pub(super) fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// The lowest and the first-past-highest link-time address of the loadable segments.
    fn link_range(&self) -> Option<(u64, u64)> {
        let start = self.segments.iter().map(|s| s.addr).min()?;
        let end = self
            .segments
            .iter()
            .map(|s| s.addr.saturating_add(s.mem_size))
            .max()?;
        Some((start, end))
    }

    /// The section of that name, if it has contents in this file.
    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.sections
            .iter()
            .find(|s| s.name == name.as_bytes() && s.kind != SHT_NOBITS && s.size > 0)
    }

    /// All of it, mapped; `name` is what messages call it. Nothing of one that is no whole ELF file.
    pub(super) fn image(&self, name: &str) -> Option<Image> {
        Image::from_file_of_size(self.file.file(), self.len(), name.as_ref()).ok()
    }

    /// Whether it has tables of basic blocks or live values.
    pub(super) fn has_tables(&self) -> bool {
        let mut sections = self.sections.iter();
        sections.any(|s| BlockMap::is_kind(s.kind) || StackMaps::is_name(&s.name))
    }

    /// Whether the file has DWARF of its own.
    pub(super) fn has_debug_info(&self) -> bool {
        self.section(".debug_info").is_some() || self.section(".zdebug_info").is_some()
    }

    /// Bytes of the file; nothing unless all of them are there.
    fn read(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        if offset.checked_add(size)? > self.len() {
            return None;
        }
        let size = usize::try_from(size).ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).ok()?;
        bytes.resize(size, 0);
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    /// Where a section's contents are; None unless all of them are there.
    fn contents(&self, section: &Section) -> Option<Reader> {
        if section.offset.checked_add(section.size)? > self.len() {
            return None;
        }
        let size = usize::try_from(section.size).ok()?;
        Some(Reader::of_file(
            Arc::clone(&self.file),
            section.offset,
            size,
        ))
    }

    /// A section's contents, decompressed; None where there are none, or they are damaged.
    pub(super) fn section_reader(&self, name: &str) -> Result<Option<Reader>, TooMuch> {
        let packed = match self.section(name) {
            Some(section) if !section.has(SHF_COMPRESSED) => return Ok(self.contents(section)),
            Some(section) => self.contents(section).and_then(compressed),
            None => {
                let old = name.strip_prefix('.').map(|name| format!(".z{name}"));
                let section = old.and_then(|name| self.section(&name));
                (section.and_then(|section| self.contents(section))).and_then(compressed_before)
            }
        };
        let Some((form, size, contents)) = packed else {
            return Ok(None);
        };
        let packed = Packed {
            name,
            form,
            contents,
            size,
        };
        packed.inflate(&*self.beside)
    }

    /// A section of a few bytes; more of them are left out.
    fn link(&self, name: &str) -> Option<Vec<u8>> {
        let contents = self.section_reader(name).ok()??.first(LONGEST_LINK);
        Some(contents.to_slice().ok()?.into_owned())
    }

    /// Up to `len` bytes as the loader maps them at a link-time address.
    pub(super) fn bytes_at(&self, addr: u64, len: u64) -> Option<Vec<u8>> {
        let segment = self
            .segments
            .iter()
            .find(|s| addr.checked_sub(s.addr).is_some_and(|o| o < s.file_size))?;
        let skip = addr.checked_sub(segment.addr)?;
        self.read(
            segment.offset.checked_add(skip)?,
            len.min(segment.file_size.checked_sub(skip)?),
        )
    }

    /// The file with further symbols that `.gnu_debugdata` has.
    pub(super) fn mini_debug_info(&self) -> Option<Self> {
        let section = self.section_reader(".gnu_debugdata").ok()??;
        let opened = mini_debug_info::unpack(section, &*self.beside)?;
        Self::new(opened, Arc::clone(&self.beside)).ok()
    }

    /// `.gnu_debuglink`: the name of the debug file and the CRC-32 of its contents.
    pub(super) fn debug_link(&self) -> Option<(String, u32)> {
        let bytes = self.link(".gnu_debuglink")?;
        let (name, _) = c_string(&bytes)?;
        let crc_at = (name.len() + 1).next_multiple_of(4);
        let crc = bytes.get(crc_at..crc_at.checked_add(4)?)?;
        let crc = u32::from_le_bytes(crc.try_into().ok()?);
        Some((String::from_utf8(name.to_vec()).ok()?, crc))
    }

    /// `.gnu_debugaltlink` (dwz): the name of the supplementary file and its build id.
    pub(super) fn debug_alt_link(&self) -> Option<(String, Vec<u8>)> {
        let bytes = self.link(".gnu_debugaltlink")?;
        let (name, build_id) = c_string(&bytes)?;
        Some((String::from_utf8(name.to_vec()).ok()?, build_id.to_vec()))
    }

    /// The CRC-32 of the whole file, as `.gnu_debuglink` means it.
    pub(super) fn crc32(&self) -> Option<u32> {
        if self.len() > MOST_SUMMED {
            return None;
        }
        let mut crc = Crc32::new();
        let mut chunk = vec![0; 1 << 16];
        let mut offset = 0;
        // No further than it was when it was opened: somebody may add to it as fast as it is read.
        while offset < self.len() {
            match self.file.read_at(&mut chunk, offset).ok()? {
                0 => return None,
                n => {
                    crc.update(chunk.get(..n)?);
                    offset += n as u64;
                }
            }
        }
        Some(crc.finish())
    }
}

fn c_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&b| b == 0)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// Form, size and contents of a compressed section.
fn compressed(mut section: Reader) -> Option<(Form, u64, Reader)> {
    let mut header = section.split(COMPRESSION_HEADER_SIZE).ok()?;
    let form = Form::of(header.read_u32().ok()?)?;
    let _reserved = header.read_u32().ok()?;
    Some((form, header.read_u64().ok()?, section))
}

/// The same of a section as they were compressed before there was a standard for it.
fn compressed_before(mut section: Reader) -> Option<(Form, u64, Reader)> {
    let magic: [u8; 4] = section.read_u8_array().ok()?;
    let size = u64::from_be_bytes(section.read_u8_array().ok()?);
    (magic == *ZDEBUG_MAGIC).then_some((Form::Zlib, size, section))
}

/// CRC-32 as in IEEE 802.3, reflected; the one GDB's separate debug files use.
struct Crc32 {
    table: [u32; 256],
    state: u32,
}

impl Crc32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;

    fn new() -> Self {
        let mut table = [0; 256];
        for (byte, entry) in (0u32..).zip(table.iter_mut()) {
            *entry = (0..8).fold(byte, |crc, _| {
                if crc & 1 == 0 {
                    crc >> 1
                } else {
                    crc >> 1 ^ Self::POLYNOMIAL
                }
            });
        }
        Self { table, state: !0 }
    }

    fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let index = (self.state as u8 ^ byte) as usize;
            let entry = self.table.get(index).copied().unwrap_or_default();
            self.state = self.state >> 8 ^ entry;
        }
    }

    const fn finish(&self) -> u32 {
        !self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the CRC is the one of IEEE 802.3, by its published check value.
    #[test]
    fn crc32_check_value() {
        let mut crc = Crc32::new();
        crc.update(b"123456789");
        assert_eq!(crc.finish(), 0xcbf4_3926);
    }
}
