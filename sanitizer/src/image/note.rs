//! What identifies a build and its debug information: the GNU build id note and
//! `.gnu_debuglink` (GDB manual, "Debugging Information in Separate Files").

use std::ops::Range;

use super::Encoding;
use super::bytes::{c_string, slice};
use super::headers::{Headers, SectionKind};

const NT_GNU_BUILD_ID: u32 = 3;
const NOTE_HEADER: usize = 12;

/// Where in the file the build id's bytes are.
pub(super) fn build_id(data: &[u8], headers: &Headers) -> Option<Range<usize>> {
    let segments = headers
        .notes
        .iter()
        .map(|n| (n.offset, n.size, n.alignment));
    let sections = (headers.sections.iter())
        .filter(|section| section.kind == SectionKind::Note)
        .map(|section| (section.offset.0, section.size, section.alignment));
    segments
        .chain(sections)
        .find_map(|(offset, size, alignment)| {
            let found = build_id_in(slice(data, offset, size)?, alignment, headers.encoding)?;
            let offset = usize::try_from(offset).ok()?;
            Some(offset + found.start..offset + found.end)
        })
}

fn build_id_in(notes: &[u8], alignment: u64, encoding: Encoding) -> Option<Range<usize>> {
    // Notes are padded to 4 bytes, whatever the alignment says, except where it says 8.
    let padding = if alignment == 8 { 8 } else { 4 };
    let u32_at = |at: usize| encoding.u32_at(notes, at);
    let mut at = 0usize;
    loop {
        let name_size = u32_at(at)? as usize;
        let size = u32_at(at + 4)? as usize;
        let kind = u32_at(at + 8)?;
        let name_start = at + NOTE_HEADER;
        let name = notes.get(name_start..name_start.checked_add(name_size)?)?;
        let start = name_start
            .checked_add(name_size)?
            .checked_next_multiple_of(padding)?;
        let end = start.checked_add(size)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" && end <= notes.len() {
            return Some(start..end);
        }
        at = end.checked_next_multiple_of(padding)?;
    }
}

/// File name and CRC-32 in a `.gnu_debuglink` section.
pub(super) fn debuglink(data: &[u8], encoding: Encoding) -> Option<(String, u32)> {
    let name = c_string(data, 0)?;
    let crc = (name.len() + 1).checked_next_multiple_of(4)?;
    let crc = encoding.u32_at(data, crc)?;
    Some((str::from_utf8(name).ok()?.to_owned(), crc))
}
