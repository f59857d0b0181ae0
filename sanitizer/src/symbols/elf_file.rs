//! The parts of an ELF file (gabi, elf(5)) that symbols and unwinding need.
//!
//! Files are read with pread, not mapped: somebody may truncate a library or a debug file
//! while we hold it, and that must cost a symbol, not a SIGBUS. Section contents are read
//! when first asked for.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::read::{CompressedData, CompressionFormat};
use object::{LittleEndian, ReadCache};

/// Names a file's content: the same identity, the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// A section of the file, or the part of one that matters here.
#[derive(Clone, Debug)]
pub(super) struct Section {
    name: Vec<u8>,
    kind: elf::SectionType,
    flags: elf::SectionFlags,
    /// Link-time address.
    pub(super) addr: u64,
    offset: u64,
    size: u64,
}

/// A loadable segment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    addr: u64,
    mem_size: u64,
    offset: u64,
    file_size: u64,
    executable: bool,
}

/// An open ELF file: its headers, and its sections on demand.
#[derive(Debug)]
pub(super) struct ElfFile {
    file: File,
    len: u64,
    identity: FileIdentity,
    sections: Vec<Section>,
    segments: Vec<Segment>,
    build_id: Vec<u8>,
}

/// The header that SHF_COMPRESSED sections begin with: `Elf64_Chdr`.
const COMPRESSION_HEADER_SIZE: usize = 24;
/// What `.zdebug_*` sections begin with: "ZLIB" and the big-endian size.
const ZDEBUG_HEADER_SIZE: usize = 12;

impl ElfFile {
    /// Opens a file and reads its headers.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // O_NONBLOCK: the name may be a FIFO by now, which must not hang us.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let identity = FileIdentity {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        };
        let headers = Headers::read(&file).map_err(io::Error::other)?;
        Ok(Self {
            file,
            len: meta.len(),
            identity,
            sections: headers.sections,
            segments: headers.segments,
            build_id: headers.build_id,
        })
    }

    pub(super) const fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The GNU build id; empty where there is none.
    pub(super) fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// The lowest and the first-past-highest link-time address of the loadable segments.
    pub(super) fn link_range(&self) -> Option<(u64, u64)> {
        let start = self.segments.iter().map(|s| s.addr).min()?;
        let end = self
            .segments
            .iter()
            .map(|s| s.addr.saturating_add(s.mem_size))
            .max()?;
        Some((start, end))
    }

    /// Whether a link-time address is in a segment that may be executed.
    pub(super) fn is_executable(&self, addr: u64) -> bool {
        self.segments
            .iter()
            .any(|s| s.executable && addr.checked_sub(s.addr).is_some_and(|o| o < s.mem_size))
    }

    /// The section of that name, if it has contents in this file.
    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.sections
            .iter()
            .find(|s| s.name == name.as_bytes() && s.kind != elf::SHT_NOBITS && s.size > 0)
    }

    /// Whether the file has DWARF of its own.
    pub(super) fn has_debug_info(&self) -> bool {
        self.section(".debug_info").is_some() || self.section(".zdebug_info").is_some()
    }

    /// Bytes of the file; nothing unless all of them are there.
    fn read(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        if offset.checked_add(size)? > self.len {
            return None;
        }
        let size = usize::try_from(size).ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).ok()?;
        bytes.resize(size, 0);
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    /// A section's contents, decompressed.
    pub(super) fn section_bytes(&self, name: &str) -> Option<Arc<[u8]>> {
        if let Some(section) = self.section(name) {
            let bytes = self.read(section.offset, section.size)?;
            if section.flags.contains(elf::SHF_COMPRESSED) {
                return inflate_section(&bytes);
            }
            return Some(bytes.into());
        }
        let zdebug = format!(".z{}", name.strip_prefix('.')?);
        let section = self.section(&zdebug)?;
        inflate_zdebug(&self.read(section.offset, section.size)?)
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

    /// `.gnu_debuglink`: the name of the debug file and the CRC-32 of its contents.
    pub(super) fn debug_link(&self) -> Option<(String, u32)> {
        let bytes = self.section_bytes(".gnu_debuglink")?;
        let (name, _) = c_string(&bytes)?;
        let crc_at = (name.len() + 1).next_multiple_of(4);
        let crc = bytes.get(crc_at..crc_at.checked_add(4)?)?;
        let crc = u32::from_le_bytes(crc.try_into().ok()?);
        Some((String::from_utf8(name.to_vec()).ok()?, crc))
    }

    /// `.gnu_debugaltlink` (dwz): the name of the supplementary file and its build id.
    pub(super) fn debug_alt_link(&self) -> Option<(String, Vec<u8>)> {
        let bytes = self.section_bytes(".gnu_debugaltlink")?;
        let (name, build_id) = c_string(&bytes)?;
        Some((String::from_utf8(name.to_vec()).ok()?, build_id.to_vec()))
    }

    /// The CRC-32 of the whole file, as `.gnu_debuglink` means it.
    pub(super) fn crc32(&self) -> Option<u32> {
        let mut crc = Crc32::new();
        let mut chunk = vec![0; 1 << 16];
        let mut offset = 0;
        loop {
            match self.file.read_at(&mut chunk, offset).ok()? {
                0 => return Some(crc.finish()),
                n => {
                    crc.update(chunk.get(..n)?);
                    offset += n as u64;
                }
            }
        }
    }
}

struct Headers {
    sections: Vec<Section>,
    segments: Vec<Segment>,
    build_id: Vec<u8>,
}

impl Headers {
    fn read(file: &File) -> object::Result<Self> {
        let data = &ReadCache::new(file);
        let header = elf::FileHeader64::<LittleEndian>::parse(data)?;
        let endian = header.endian()?;
        let mut segments = Vec::new();
        let mut build_id = Vec::new();
        for program in header.program_headers(endian, data)? {
            if program.p_type(endian) == elf::PT_LOAD {
                segments.push(Segment {
                    addr: program.p_vaddr(endian),
                    mem_size: program.p_memsz(endian),
                    offset: program.p_offset(endian),
                    file_size: program.p_filesz(endian).min(program.p_memsz(endian)),
                    executable: program.p_flags(endian).0 & elf::PF_X.0 != 0,
                });
            }
            if let Ok(Some(mut notes)) = program.notes(endian, data) {
                while let Ok(Some(note)) = notes.next() {
                    if note.name() == elf::ELF_NOTE_GNU
                        && note.n_type(endian) == elf::NT_GNU_BUILD_ID
                    {
                        build_id = note.desc().to_vec();
                    }
                }
            }
        }
        let mut sections = Vec::new();
        // A file without usable section headers still has segments.
        if let Ok(table) = header.sections(endian, data) {
            for section in table.iter() {
                if let Ok(Some(mut notes)) = section.notes(endian, data) {
                    while build_id.is_empty()
                        && let Ok(Some(note)) = notes.next()
                    {
                        if note.name() == elf::ELF_NOTE_GNU
                            && note.n_type(endian) == elf::NT_GNU_BUILD_ID
                        {
                            build_id = note.desc().to_vec();
                        }
                    }
                }
                sections.push(Section {
                    name: table
                        .section_name(endian, section)
                        .unwrap_or_default()
                        .to_vec(),
                    kind: section.sh_type(endian),
                    flags: section.sh_flags(endian),
                    addr: section.sh_addr(endian),
                    offset: section.sh_offset(endian),
                    size: section.sh_size(endian),
                });
            }
        }
        Ok(Self {
            sections,
            segments,
            build_id,
        })
    }
}

fn c_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&b| b == 0)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

fn inflate(format: CompressionFormat, data: &[u8], uncompressed_size: u64) -> Option<Arc<[u8]>> {
    let compressed = CompressedData {
        format,
        data,
        uncompressed_size,
    };
    Some(compressed.decompress().ok()?.into())
}

fn inflate_section(bytes: &[u8]) -> Option<Arc<[u8]>> {
    let (header, data) = bytes.split_at_checked(COMPRESSION_HEADER_SIZE)?;
    let kind = u32::from_le_bytes(header.get(..4)?.try_into().ok()?);
    let size = u64::from_le_bytes(header.get(8..16)?.try_into().ok()?);
    let format = match elf::CompressionType(kind) {
        elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => return None,
    };
    inflate(format, data, size)
}

fn inflate_zdebug(bytes: &[u8]) -> Option<Arc<[u8]>> {
    let (header, data) = bytes.split_at_checked(ZDEBUG_HEADER_SIZE)?;
    let size = header.strip_prefix(b"ZLIB")?;
    inflate(
        CompressionFormat::Zlib,
        data,
        u64::from_be_bytes(size.try_into().ok()?),
    )
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
