//! The headers of an ELF file (gabi, elf(5)), read with bounds: how many there are, and how long their names and notes,
//! the file says itself.

use std::io;

use super::read_at::ReadAt;

pub(super) const SHT_NULL: u32 = 0;
pub(super) const SHT_NOBITS: u32 = 8;
pub(super) const SHF_ALLOC: u64 = 2;
pub(super) const SHF_COMPRESSED: u64 = 0x800;
const SHT_NOTE: u32 = 7;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_X: u32 = 1;
const NT_GNU_BUILD_ID: u32 = 3;

/// An ELF file of 64 bits, little-endian, of the present version.
const MAGIC: [u8; 7] = [0x7f, b'E', b'L', b'F', 2, 1, 1];
const HEADER_SIZE: usize = 64;
const PROGRAM_HEADER_SIZE: usize = 56;
const SECTION_HEADER_SIZE: usize = 64;
/// Program headers that are read; linkers write a dozen.
const MOST_SEGMENTS: usize = 1024;
/// Section headers that are read; linked files have some dozens, split debug information some thousands.
const MOST_SECTIONS: usize = 1 << 16;
/// The names of all sections, in bytes.
const MOST_NAMES: usize = 1 << 20;
/// The names of the sections that are asked for are shorter.
const LONGEST_NAME: usize = 64;
/// Notes that are read for the build id: bytes of each place, and places.
const MOST_NOTES: usize = 1 << 14;
const MOST_NOTE_PLACES: usize = 32;
/// Build ids have 8 to 32 bytes.
const LONGEST_BUILD_ID: usize = 64;

/// A section of the file, or the part of one that matters here.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) name: Vec<u8>,
    pub(super) kind: u32,
    flags: u64,
    /// Link-time address.
    pub(super) addr: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Section {
    /// Whether it has a flag.
    pub(super) const fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// A loadable segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) addr: u64,
    pub(super) mem_size: u64,
    pub(super) offset: u64,
    pub(super) file_size: u64,
    pub(super) executable: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Headers {
    /// What it is for (`e_type`).
    pub(super) kind: u16,
    /// The instruction set (`e_machine`).
    pub(super) machine: u16,
    pub(super) sections: Vec<Section>,
    pub(super) segments: Vec<Segment>,
    pub(super) build_id: Vec<u8>,
    /// The first byte behind all that its section headers, and those themselves, say is in the file. They stand at its end as a rule.
    pub(super) end: u64,
}

impl Headers {
    pub(super) fn read(file: &(impl ReadAt + ?Sized)) -> io::Result<Self> {
        let no_elf = || io::Error::new(io::ErrorKind::InvalidData, "no ELF file of 64 bits");
        let header = read(file, 0, HEADER_SIZE)?;
        if header.len() < HEADER_SIZE || !header.starts_with(&MAGIC) {
            return Err(no_elf());
        }
        let half = |at| number::<2>(&header, at) as u16;
        let (segments_at, sections_at) = (number::<8>(&header, 32), number::<8>(&header, 40));
        let mut headers = Self {
            kind: half(16),
            machine: half(18),
            ..Self::default()
        };
        let mut notes = Vec::new();
        if usize::from(half(54)) == PROGRAM_HEADER_SIZE {
            let count = usize::from(half(56)).min(MOST_SEGMENTS);
            let table = read(file, segments_at, count * PROGRAM_HEADER_SIZE)?;
            for header in table.chunks_exact(PROGRAM_HEADER_SIZE) {
                headers.add_segment(header, &mut notes);
            }
        }
        // A file without usable section headers still has segments.
        if sections_at > 0 && usize::from(half(58)) == SECTION_HEADER_SIZE {
            headers.read_sections(file, sections_at, (half(60), half(62)));
        }
        let sections = headers.sections.iter();
        let in_sections = sections.filter(|section| section.kind == SHT_NOTE);
        notes.extend(in_sections.map(|section| (section.offset, section.size)));
        for (offset, size) in notes.into_iter().take(MOST_NOTE_PLACES) {
            let size = usize::try_from(size).unwrap_or(usize::MAX).min(MOST_NOTES);
            let notes = read(file, offset, size).unwrap_or_default();
            if let Some(found) = build_id(&notes) {
                headers.build_id = found.to_vec();
                break;
            }
        }
        Ok(headers)
    }

    fn add_segment(&mut self, header: &[u8], notes: &mut Vec<(u64, u64)>) {
        let word = |at| number::<8>(header, at);
        let (offset, file_size, mem_size) = (word(8), word(32), word(40));
        match number::<4>(header, 0) as u32 {
            PT_LOAD => self.segments.push(Segment {
                addr: word(16),
                mem_size,
                offset,
                file_size: file_size.min(mem_size),
                executable: number::<4>(header, 4) as u32 & PF_X != 0,
            }),
            PT_NOTE => notes.push((offset, file_size)),
            _ => {}
        }
    }

    /// `count` and the index of the section with the names are those of the file's header.
    fn read_sections(
        &mut self,
        file: &(impl ReadAt + ?Sized),
        at: u64,
        (count, names): (u16, u16),
    ) {
        /// What stands in the file's header where a number does not fit.
        const ELSEWHERE: u16 = 0xffff;
        let end = |count: u64| at.saturating_add(count.saturating_mul(SECTION_HEADER_SIZE as u64));
        self.end = end(count.max(1).into());
        let Ok(first) = read(file, at, SECTION_HEADER_SIZE) else {
            return;
        };
        let count = match count {
            0 => number::<8>(&first, 32),
            count => count.into(),
        };
        self.end = self.end.max(end(count));
        let names = match names {
            ELSEWHERE => number::<4>(&first, 40),
            names => names.into(),
        };
        let count = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .min(MOST_SECTIONS);
        let Ok(table) = read(file, at, count * SECTION_HEADER_SIZE) else {
            return;
        };
        let header = |index: usize| {
            let start = index.checked_mul(SECTION_HEADER_SIZE)?;
            table.get(start..start.checked_add(SECTION_HEADER_SIZE)?)
        };
        let names = usize::try_from(names).ok().and_then(header);
        let names = names.and_then(|header| {
            let size = usize::try_from(number::<8>(header, 32)).unwrap_or(usize::MAX);
            read(file, number::<8>(header, 24), size.min(MOST_NAMES)).ok()
        });
        let names = names.unwrap_or_default();
        for header in table.chunks_exact(SECTION_HEADER_SIZE) {
            let word = |at| number::<8>(header, at);
            let name = usize::try_from(number::<4>(header, 0)).ok();
            let name = name.and_then(|at| names.get(at..)).unwrap_or_default();
            let name = name.get(..LONGEST_NAME).unwrap_or(name);
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(0);
            let section = Section {
                name: name.get(..end).unwrap_or_default().to_vec(),
                kind: number::<4>(header, 4) as u32,
                flags: word(8),
                addr: word(16),
                offset: word(24),
                size: word(32),
            };
            // The first one is none; what it says of a size is something else.
            if ![SHT_NULL, SHT_NOBITS].contains(&section.kind) {
                self.end = self.end.max(section.offset.saturating_add(section.size));
            }
            self.sections.push(section);
        }
    }
}

/// Bytes of a file; fewer where it ends before.
fn read(file: &(impl ReadAt + ?Sized), at: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // A greater offset than any file has is an error.
        match file.read_at(rest, at.saturating_add(filled as u64))? {
            0 => break,
            more => filled += more,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The number of `N` bytes at an offset; 0 where there are fewer.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let bytes = at.checked_add(N).and_then(|end| bytes.get(at..end));
    let bytes = bytes.unwrap_or_default().iter().rev();
    bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The GNU build id among notes (`Elf64_Nhdr`, each part padded to four bytes).
fn build_id(notes: &[u8]) -> Option<&[u8]> {
    const HEADER: usize = 12;
    let mut rest = notes;
    while rest.len() >= HEADER {
        let size = |at| usize::try_from(number::<4>(rest, at)).ok();
        let (name_size, size) = (size(0)?, size(4)?);
        let contents_at = HEADER.checked_add(name_size.checked_next_multiple_of(4)?)?;
        let end = contents_at.checked_add(size)?;
        let name = rest.get(HEADER..HEADER.checked_add(name_size)?)?;
        let contents = rest.get(contents_at..end)?;
        let is_it = name == b"GNU\0" && number::<4>(rest, 8) as u32 == NT_GNU_BUILD_ID;
        if is_it && size <= LONGEST_BUILD_ID {
            return Some(contents);
        }
        rest = rest.get(end.checked_next_multiple_of(4)?..)?;
    }
    None
}
