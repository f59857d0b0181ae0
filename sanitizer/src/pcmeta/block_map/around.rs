//! The blocks next to an address, for whoever asks somebody else about a file.

use crate::addr::LinkAddr;

use super::sections::is_old;
use super::{BlockAt, BlockMap};

impl BlockMap {
    /// The blocks of the function in which `pc` is, sorted and without overlaps: those that are next to it, `most` at most.
    #[must_use]
    pub fn around(&self, pc: LinkAddr, most: usize) -> Vec<BlockAt> {
        let offset = pc.0.checked_sub(self.base.0);
        let offset = offset.and_then(|offset| u32::try_from(offset).ok());
        let Some(found) = offset.and_then(|offset| self.table.index_at(offset)) else {
            return Vec::new();
        };
        let (blocks, before) = (self.table.blocks(), most / 2);
        let function = blocks.get(found).map(|block| block.function());
        let near = blocks.iter().skip(found.saturating_sub(before)).take(most);
        let near = near.filter(|block| Some(block.function()) == function);
        near.map(|&block| self.with_addresses(block)).collect()
    }

    /// Whether sections of this type are block maps.
    #[must_use]
    pub fn is_kind(section: u32) -> bool {
        is_old(section).is_some()
    }
}
