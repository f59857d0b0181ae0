//! The search table of `.eh_frame_hdr` (Linux Standard Base core, 10.6.2): which entry of
//! `.eh_frame` is for an address, without reading all of them.
//!
//! Only the encoding that every linker writes is read, pairs of 32-bit numbers relative to
//! the section; for others the caller searches `.eh_frame` itself.

use std::sync::Arc;

/// Version 1; pc-relative 32-bit pointer to `.eh_frame`; 32-bit count; section-relative
/// 32-bit table entries.
const USUAL_HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const TABLE_OFFSET: usize = 12;
const ENTRY_SIZE: usize = 8;

/// A search table, sorted by the linker.
#[derive(Debug)]
pub(super) struct EhFrameHdr {
    bytes: Arc<[u8]>,
    /// The section's link-time address.
    addr: u64,
}

impl EhFrameHdr {
    /// Takes the section's bytes; nothing if they are of an unusual form.
    pub(super) fn parse(bytes: Arc<[u8]>, addr: u64) -> Option<Self> {
        let count = bytes.get(8..TABLE_OFFSET)?.try_into().ok()?;
        let count = usize::try_from(u32::from_le_bytes(count)).ok()?;
        let size = bytes.len().checked_sub(TABLE_OFFSET)? / ENTRY_SIZE;
        (bytes.starts_with(&USUAL_HEADER) && count > 0 && count <= size)
            .then_some(Self { bytes, addr })
    }

    /// The link-time address of the last entry that begins at or before `lookup`. It need
    /// not cover it.
    pub(super) fn entry_for(&self, lookup: u64) -> Option<u64> {
        let (_, table) = self.bytes.split_at_checked(TABLE_OFFSET)?;
        let (table, _) = table.as_chunks::<ENTRY_SIZE>();
        let after = table.partition_point(|entry| self.pair(entry).0 <= lookup);
        Some(self.pair(table.get(after.checked_sub(1)?)?).1)
    }

    fn pair(&self, entry: &[u8; ENTRY_SIZE]) -> (u64, u64) {
        let [s0, s1, s2, s3, e0, e1, e2, e3] = *entry;
        let absolute = |bytes| {
            self.addr
                .wrapping_add_signed(i32::from_le_bytes(bytes).into())
        };
        (absolute([s0, s1, s2, s3]), absolute([e0, e1, e2, e3]))
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
        let hdr = EhFrameHdr::parse(bytes.clone().into(), 0x3000).expect("usual form");
        assert_eq!(hdr.entry_for(0x1fff), None);
        assert_eq!(hdr.entry_for(0x2000), Some(0x3040));
        assert_eq!(hdr.entry_for(0x20ff), Some(0x3040));
        assert_eq!(hdr.entry_for(0x9999), Some(0x3080));
        for (at, value) in [(0, 2), (3, 0x3c), (8, 3), (8, 0)] {
            let mut odd = bytes.clone();
            odd[at] = value;
            assert!(EhFrameHdr::parse(odd.into(), 0x3000).is_none(), "byte {at}");
        }
        assert!(EhFrameHdr::parse(Arc::from(&bytes[..9]), 0).is_none());
    }
}
