//! The blocks of an image, packed and sorted: 16 bytes a block.

/// One block, as offsets from the table's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Packed {
    pub(super) start: u32,
    pub(super) size: u32,
    pub(super) id: u32,
    /// 27 bits of the function's index, and 5 of flags.
    function_and_flags: u32,
}

const FLAG_BITS: u32 = 5;
/// How many functions the index can tell apart. A map of as many takes more than a gigabyte.
pub(super) const MOST_FUNCTIONS: usize = 1 << (u32::BITS - FLAG_BITS);

impl Packed {
    pub(super) fn new(start: u32, size: u32, id: u32, function: u32, flags: u8) -> Self {
        let flags = u32::from(flags) & ((1 << FLAG_BITS) - 1);
        Self {
            start,
            size,
            id,
            function_and_flags: function << FLAG_BITS | flags,
        }
    }

    pub(super) fn function(self) -> usize {
        (self.function_and_flags >> FLAG_BITS) as usize
    }

    pub(super) fn flags(self) -> u8 {
        (self.function_and_flags & ((1 << FLAG_BITS) - 1)) as u8
    }
}

/// Sorted blocks, of which no two start at the same place and none reaches into the next.
#[derive(Default)]
pub(super) struct Table(Vec<Packed>);

impl Table {
    /// Of several blocks with the same start (functions that a linker folded) the largest is
    /// kept; one that reaches into the next ends there.
    pub(super) fn new(mut blocks: Vec<Packed>) -> Self {
        if !blocks.is_sorted_by_key(|block| block.start) {
            blocks.sort_by_key(|block| block.start);
        }
        blocks.dedup_by(|next, kept| {
            let is_same = next.start == kept.start;
            if is_same && next.size > kept.size {
                *kept = *next;
            }
            is_same
        });
        let mut next_start = None;
        for block in blocks.iter_mut().rev() {
            if let Some(next_start) = next_start {
                block.size = block.size.min(next_start - block.start);
            }
            next_start = Some(block.start);
        }
        blocks.shrink_to_fit();
        Self(blocks)
    }

    /// The block that `offset` is in: a binary search.
    #[inline]
    pub(super) fn at(&self, offset: u32) -> Option<Packed> {
        self.0.get(self.index_at(offset)?).copied()
    }

    /// The index of that block.
    pub(super) fn index_at(&self, offset: u32) -> Option<usize> {
        let after = self.0.partition_point(|block| block.start <= offset);
        let index = after.checked_sub(1)?;
        let block = self.0.get(index)?;
        (offset - block.start < block.size).then_some(index)
    }

    pub(super) fn blocks(&self) -> &[Packed] {
        &self.0
    }

    pub(super) fn memory_size(&self) -> usize {
        self.0.capacity() * size_of::<Packed>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Check that the look-up finds what a search through all blocks finds.
        #[test]
        fn finds_what_a_plain_search_finds(
            blocks in prop::collection::vec((0u32..3000, 1u32..100, any::<u32>(), 0u32..1 << 27, 0u8..32), 0..200),
            far in any::<bool>(),
        ) {
            let mut blocks = blocks;
            if far {
                blocks.push((u32::MAX - 4, 4, 1, 1, 1));
            }
            let packed = blocks.iter().map(|&(start, size, id, function, flags)| {
                let packed = Packed::new(start, size, id, function, flags);
                assert_eq!((packed.function(), packed.flags()), (function as usize, flags));
                packed
            });
            let table = Table::new(packed.collect());
            prop_assert!(table.blocks().windows(2).all(|pair| pair[0].start + pair[0].size <= pair[1].start));
            for offset in (0..3200).chain([u32::MAX - 5, u32::MAX - 4, u32::MAX - 1, u32::MAX]) {
                let nearest = blocks.iter().map(|block| block.0).filter(|&start| start <= offset).max();
                let size = (blocks.iter().filter(|block| Some(block.0) == nearest)).map(|block| block.1).max();
                let expected = nearest.filter(|&start| offset - start < size.unwrap_or(0));
                prop_assert_eq!(table.at(offset).map(|block| block.start), expected);
            }
        }
    }
}
