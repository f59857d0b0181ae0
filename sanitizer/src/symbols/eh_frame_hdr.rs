//! The search table of `.eh_frame_hdr` (Linux Standard Base core, 10.6.2): which entry of
//! `.eh_frame` is for an address, without reading all of them.
//!
//! Only the encoding that every linker writes is read, pairs of 32-bit numbers relative to
//! the section; for others the caller searches `.eh_frame` itself.

use gimli::Reader as _;

use super::reader::Reader;

/// Version 1; pc-relative 32-bit pointer to `.eh_frame`; 32-bit count; section-relative
/// 32-bit table entries.
const USUAL_HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const ENTRY_SIZE: usize = 8;

/// A search table, sorted by the linker.
#[derive(Debug)]
pub(super) struct EhFrameHdr {
    /// Pairs of numbers, sorted.
    table: Reader,
    count: usize,
    /// The section's link-time address.
    addr: u64,
}

impl EhFrameHdr {
    /// Takes the section's contents; nothing if they are of an unusual form.
    pub(super) fn parse(mut section: Reader, addr: u64) -> Option<Self> {
        let header: [u8; 4] = section.read_u8_array().ok()?;
        let _to_eh_frame = section.read_u32().ok()?;
        let count = usize::try_from(section.read_u32().ok()?).ok()?;
        let size = section.len() / ENTRY_SIZE;
        (header == USUAL_HEADER && count > 0 && count <= size).then_some(Self {
            table: section,
            count,
            addr,
        })
    }

    /// The link-time address of the last entry that begins at or before `lookup`. It need
    /// not cover it.
    pub(super) fn entry_for(&self, lookup: u64) -> Option<u64> {
        let (mut first, mut after) = (0, self.count);
        while first < after {
            let middle = first + (after - first) / 2;
            match self.pair(middle)?.0 <= lookup {
                true => first = middle + 1,
                false => after = middle,
            }
        }
        Some(self.pair(first.checked_sub(1)?)?.1)
    }

    fn pair(&self, index: usize) -> Option<(u64, u64)> {
        let mut entry = self.table.behind(index.checked_mul(ENTRY_SIZE)?);
        let mut absolute = || {
            let relative = entry.read_i32().ok()?;
            Some(self.addr.wrapping_add_signed(relative.into()))
        };
        Some((absolute()?, absolute()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the search between, before and after entries, and that odd forms are refused.
    #[test]
    fn search() {
        let mut bytes = USUAL_HEADER.to_vec();
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(2u32.to_le_bytes());
        for number in [-0x1000i32, 0x40, -0xf00, 0x80] {
            bytes.extend(number.to_le_bytes());
        }
        let section = |bytes: &[u8]| Reader::of_bytes(bytes.into());
        let hdr = EhFrameHdr::parse(section(&bytes), 0x3000).expect("usual form");
        assert_eq!(hdr.entry_for(0x1fff), None);
        assert_eq!(hdr.entry_for(0x2000), Some(0x3040));
        assert_eq!(hdr.entry_for(0x20ff), Some(0x3040));
        assert_eq!(hdr.entry_for(0x9999), Some(0x3080));
        for (at, value) in [(0, 2), (3, 0x3c), (8, 3), (8, 0)] {
            let mut odd = bytes.clone();
            odd[at] = value;
            assert!(
                EhFrameHdr::parse(section(&odd), 0x3000).is_none(),
                "byte {at}"
            );
        }
        assert!(EhFrameHdr::parse(section(&bytes[..9]), 0).is_none());
    }
}
