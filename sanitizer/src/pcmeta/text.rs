//! Where code may be: what tells a sensible entry from a leftover of discarded code.

use std::ops::Range;

use crate::addr::LinkAddr;

/// The code of an image as offsets from its first byte.
pub(super) struct Text {
    base: LinkAddr,
    ranges: Vec<Range<u32>>,
    /// The range of the last hit: entries come in the order of the code.
    last: Range<u32>,
}

impl Text {
    /// `ranges` must be sorted and without overlaps.
    ///
    /// # Errors
    /// The number of bytes from the first to the last, if that is more than 32 bits.
    pub(super) fn new(ranges: &[Range<LinkAddr>]) -> Result<Self, u64> {
        let base = ranges.first().map_or(LinkAddr(0), |range| range.start);
        let offset = |address: LinkAddr| {
            let span = address.0.saturating_sub(base.0);
            u32::try_from(span).map_err(|_| span)
        };
        let ranges: Vec<Range<u32>> = ranges
            .iter()
            .map(|range| Ok(offset(range.start)?..offset(range.end)?))
            .collect::<Result<_, u64>>()?;
        Ok(Self {
            base,
            last: ranges.first().cloned().unwrap_or(0..0),
            ranges,
        })
    }

    pub(super) fn base(&self) -> LinkAddr {
        self.base
    }

    /// The code of `size` bytes at `address` as an offset from the base, if all of it is code.
    /// Without a size: the address of one instruction.
    #[inline]
    pub(super) fn offset_of(&mut self, address: LinkAddr, size: u64) -> Option<u32> {
        let offset = u32::try_from(address.0.checked_sub(self.base.0)?).ok()?;
        if !self.last.contains(&offset) {
            let after = self.ranges.partition_point(|range| range.start <= offset);
            self.last = self.ranges.get(after.checked_sub(1)?)?.clone();
        }
        let end = u64::from(offset).checked_add(size.max(1))?;
        (self.last.contains(&offset) && end <= u64::from(self.last.end)).then_some(offset)
    }

    /// Whether a function without instructions may be at `address`: in code, or where it ends.
    pub(super) fn has_edge(&self, address: LinkAddr) -> bool {
        let offset = address.0.checked_sub(self.base.0);
        let Some(offset) = offset.and_then(|offset| u32::try_from(offset).ok()) else {
            return false;
        };
        let after = self.ranges.partition_point(|range| range.start <= offset);
        let nearest = after.checked_sub(1).and_then(|last| self.ranges.get(last));
        nearest.is_some_and(|range| offset <= range.end)
    }
}
