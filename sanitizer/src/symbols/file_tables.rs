//! What compilers tell of a file's code besides the detector's metadata, where it is there: basic blocks (`SHT_LLVM_BB_ADDR_MAP`) and live
//! values (`.llvm_stackmaps`).

use serde::{Deserialize, Serialize};

use crate::addr::LinkAddr;
use crate::image::Image;
use crate::pcmeta::{BlockAt, BlockMap, OnError, StackMapRecord, StackMaps};

/// They are read between two hits: larger files than this with one of those sections would take too long.
pub(super) const LARGEST_FILE: u64 = 64 << 20;
/// Blocks that are told around an address.
const MOST_BLOCKS: usize = 4096;
/// Records that are told of an address, and the live values of all of them.
const MOST_RECORDS: usize = 16;
const MOST_LOCATIONS: usize = 256;

/// The tables of a file; empty where it has none, or none that can be read.
#[derive(Default)]
pub struct FileTables {
    blocks: BlockMap,
    live: StackMaps,
}

/// What they tell of the code around an address: plain data, of which whoever asks keeps a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeFacts {
    /// The blocks of the function in which it is, sorted and without overlaps; of many those that are next to it.
    pub blocks: Vec<BlockAt>,
    /// What is recorded of the very address.
    pub records: Vec<StackMapRecord>,
}

impl FileTables {
    /// Reads those of a file; the blocks out of its debug file, where they were stripped.
    #[must_use]
    pub fn of(image: &Image, debug: impl FnOnce() -> Option<Image>) -> Self {
        Self::read(image, debug, &mut |_| {})
    }

    /// What of a file's tables reports will not use, and why, in a line each.
    #[must_use]
    pub fn left_out(image: &Image, debug: impl FnOnce() -> Option<Image>) -> Vec<String> {
        let mut lines = Vec::new();
        Self::read(image, debug, &mut |error| lines.push(error.to_string()));
        lines
    }

    fn read(image: &Image, debug: impl FnOnce() -> Option<Image>, on_error: OnError<'_>) -> Self {
        // What is not loaded is stripped from a program, and stays in its debug file.
        let debug = match BlockMap::is_in(image) {
            true => None,
            false => debug(),
        };
        let blocks = debug.as_ref().unwrap_or(image);
        let tables = Self {
            blocks: BlockMap::load_readable(blocks, &image.text_ranges(), &mut *on_error),
            live: StackMaps::load_readable(image, on_error),
        };
        // Some of that was zeros then, which nobody has written.
        let are_cut = image.is_cut() || blocks.is_cut();
        if are_cut { Self::default() } else { tables }
    }

    /// What is told of the code around an address. Nothing of a file without any tables.
    #[must_use]
    pub fn around(&self, pc: LinkAddr) -> Option<CodeFacts> {
        if self.blocks.is_empty() && self.live.is_empty() {
            return None;
        }
        let mut left = MOST_LOCATIONS;
        let records = self.live.records_at(pc).take(MOST_RECORDS);
        let records = records.map(|mut record| {
            record.live_outs.clear();
            record.locations.truncate(left);
            left -= record.locations.len();
            record
        });
        Some(CodeFacts {
            blocks: self.blocks.around(pc, MOST_BLOCKS),
            records: records.collect(),
        })
    }

    /// What they keep in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.memory_size() + self.live.memory_size()
    }
}

impl CodeFacts {
    /// Whether it can have been told of an address: whoever has read the file may be the file's by now.
    #[must_use]
    pub fn is_sound(&self, pc: LinkAddr) -> bool {
        let blocks = &self.blocks;
        let follows = |pair: &[BlockAt]| matches!(pair, [a, b] if a.end <= b.start);
        let locations = self.records.iter().map(|record| record.locations.len());
        blocks.len() <= MOST_BLOCKS
            && blocks.iter().all(|block| block.start < block.end)
            && blocks.windows(2).all(follows)
            && self.records.len() <= MOST_RECORDS
            && locations.sum::<usize>() <= MOST_LOCATIONS
            && self
                .records
                .iter()
                .all(|record| record.live_outs.is_empty() && record.pc() == Some(pc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcmeta::{BlockFlags, LiveValue, Location};

    fn block(start: u64, end: u64) -> BlockAt {
        BlockAt {
            start: LinkAddr(start),
            end: LinkAddr(end),
            id: 1,
            flags: BlockFlags::default(),
            function: LinkAddr(start),
        }
    }

    fn record(pc: u64, locations: usize) -> StackMapRecord {
        let location = Location {
            size: 8,
            value: LiveValue::Constant(1),
        };
        StackMapRecord {
            id: 7,
            function: Some(LinkAddr(pc)),
            offset: 0,
            flags: 0,
            locations: vec![location; locations],
            live_outs: Vec::new(),
        }
    }

    /// Check that an answer which is cut short is none, and that counts of more than there is lead to nothing but that.
    #[test]
    fn damaged_answers() {
        let facts = CodeFacts {
            blocks: vec![block(4, 8), block(8, 9)],
            records: vec![record(4, 3)],
        };
        let bytes = postcard::to_allocvec(&facts).unwrap();
        assert_eq!(postcard::from_bytes::<CodeFacts>(&bytes).unwrap(), facts);
        for len in 0..bytes.len() {
            assert!(
                postcard::from_bytes::<CodeFacts>(&bytes[..len]).is_err(),
                "{len}"
            );
        }
        let count = [0xff, 0xff, 0xff, 0xff, 0x0f];
        let huge = [&count[..], &bytes[1..]].concat();
        assert!(postcard::from_bytes::<CodeFacts>(&huge).is_err());
    }

    /// Check that facts which nobody can have read of a file are no answer: blocks that are empty, out of order or overlap, records of other
    /// addresses, and more of anything than is told.
    #[test]
    fn lies_are_noticed() {
        let is_sound = |blocks: Vec<BlockAt>, records: Vec<StackMapRecord>| {
            CodeFacts { blocks, records }.is_sound(LinkAddr(4))
        };
        let ranges = |count: u64| (0..count).map(|n| block(n, n + 1)).collect::<Vec<_>>();
        assert!(is_sound(Vec::new(), Vec::new()));
        assert!(is_sound(
            ranges(MOST_BLOCKS as u64),
            vec![record(4, 1), record(4, 0)]
        ));
        assert!(!is_sound(ranges(MOST_BLOCKS as u64 + 1), Vec::new()));
        assert!(!is_sound(vec![block(4, 4)], Vec::new()));
        assert!(!is_sound(vec![block(4, 3)], Vec::new()));
        assert!(!is_sound(vec![block(4, 8), block(7, 9)], Vec::new()));
        assert!(!is_sound(vec![block(8, 9), block(4, 5)], Vec::new()));
        assert!(!is_sound(Vec::new(), vec![record(5, 1)]));
        assert!(!is_sound(Vec::new(), vec![record(4, MOST_LOCATIONS + 1)]));
        assert!(is_sound(
            Vec::new(),
            vec![record(4, MOST_LOCATIONS / 16); 16]
        ));
        assert!(!is_sound(Vec::new(), vec![record(4, 0); MOST_RECORDS + 1]));
        let unknown = StackMapRecord {
            function: None,
            ..record(4, 1)
        };
        assert!(!is_sound(Vec::new(), vec![unknown]));
    }
}
