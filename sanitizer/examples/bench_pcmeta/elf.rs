//! The least ELF file that holds given sections: an executable for x86-64 with one segment, which is its code.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::path::Path;

/// Where the code starts in memory.
pub const TEXT_ADDRESS: u64 = 0x40_0000;
/// `SHT_PROGBITS`.
const PROGBITS: u64 = 1;
/// `SHF_ALLOC`.
const ALLOCATED: u64 = 2;

const PAGE: u64 = 0x1000;
const HEADER_SIZE: u64 = 64;
const SECTION_HEADER_SIZE: u64 = 64;
const PROGRAM_HEADER_SIZE: u64 = 56;
/// `SHF_EXECINSTR`.
const EXECUTABLE: u64 = 4;
/// `SHT_STRTAB`.
const STRINGS: u64 = 3;

/// A section besides the code.
pub struct Section {
    pub name: &'static str,
    /// `sh_type` and `sh_flags`.
    pub kind: u64,
    pub flags: u64,
    /// `sh_link` and `sh_info`. The code's index is 1, that of the first section given 2.
    pub link: u64,
    pub info: u64,
    /// The size of an entry, or zero.
    pub entry_size: u64,
    pub data: Vec<u8>,
}

impl Section {
    /// One that is loaded into memory.
    pub fn loaded(name: &'static str, data: Vec<u8>) -> Self {
        Self {
            name,
            kind: PROGBITS,
            flags: ALLOCATED,
            link: 0,
            info: 0,
            entry_size: 0,
            data,
        }
    }
}

/// The address of the first section behind a code of `text_size` bytes; the others follow it without gaps.
pub fn address_behind(text_size: u64) -> u64 {
    (TEXT_ADDRESS + text_size).next_multiple_of(PAGE)
}

/// Writes the file. The code itself is a hole in it: nothing reads it.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, text_size: u64, sections: &[Section]) -> io::Result<()> {
    let mut names = b"\0.text\0.shstrtab\0".to_vec();
    let (text_name, names_name) = (1, 7);
    let text_offset = PAGE;
    let mut address = address_behind(text_size);
    let mut offset = text_offset + (address - TEXT_ADDRESS);
    let loaded_from = offset;
    let mut headers = vec![
        [0; 10],
        [
            text_name,
            PROGBITS,
            ALLOCATED | EXECUTABLE,
            TEXT_ADDRESS,
            text_offset,
            text_size,
            0,
            0,
            16,
            0,
        ],
    ];
    for section in sections {
        let at = if section.flags & ALLOCATED == 0 {
            0
        } else {
            address
        };
        let (name, size) = (names.len() as u64, section.data.len() as u64);
        headers.push([
            name,
            section.kind,
            section.flags,
            at,
            offset,
            size,
            section.link,
            section.info,
            1,
            section.entry_size,
        ]);
        names.extend(section.name.bytes().chain([0]));
        address += size;
        offset += size;
    }
    headers.push([
        names_name,
        STRINGS,
        0,
        0,
        offset,
        names.len() as u64,
        0,
        0,
        1,
        0,
    ]);
    let headers_at = (offset + names.len() as u64).next_multiple_of(8);

    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0")?;
    put(&mut file, 2, &[2, 62])?; // ET_EXEC, EM_X86_64
    put(&mut file, 4, &[1])?;
    put(&mut file, 8, &[TEXT_ADDRESS, HEADER_SIZE, headers_at])?;
    put(&mut file, 4, &[0])?;
    let count = headers.len() as u64;
    let sizes = [HEADER_SIZE, PROGRAM_HEADER_SIZE, 1, SECTION_HEADER_SIZE];
    put(&mut file, 2, &sizes)?;
    put(&mut file, 2, &[count, count - 1])?;
    put(&mut file, 4, &[1, 5])?; // PT_LOAD, readable and executable
    let loaded = offset - text_offset;
    let segment = [
        text_offset,
        TEXT_ADDRESS,
        TEXT_ADDRESS,
        loaded,
        loaded,
        PAGE,
    ];
    put(&mut file, 8, &segment)?;
    file.seek(SeekFrom::Start(loaded_from))?;
    for section in sections {
        file.write_all(&section.data)?;
    }
    file.write_all(&names)?;
    file.seek(SeekFrom::Start(headers_at))?;
    for [words @ .., align, entry_size] in headers {
        let [name, kind, flags, address, offset, size, link, info] = words;
        put(&mut file, 4, &[name, kind])?;
        put(&mut file, 8, &[flags, address, offset, size])?;
        put(&mut file, 4, &[link, info])?;
        put(&mut file, 8, &[align, entry_size])?;
    }
    file.flush()
}

/// Writes numbers of `width` bytes each.
pub fn put(out: &mut impl Write, width: usize, numbers: &[u64]) -> io::Result<()> {
    (numbers.iter()).try_for_each(|number| out.write_all(&number.to_le_bytes()[..width]))
}

/// Appends a number in ULEB128.
pub fn put_uleb128(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
