//! The entry of one function in a block map: bytes in, blocks and profile out.
//!
//! Source: LLVM's Extensions page (`SHT_LLVM_BB_ADDR_MAP`), versions 0 to 5 as `ELF.cpp`
//! (`decodeBBAddrMapImpl`) read them over the years:
//!
//! | version | what it brought |
//! | --- | --- |
//! | 0 | a section type of its own, entries without version and features; offsets from the function |
//! | 1 | version and features of a byte each; offsets from the end of the block before |
//! | 2 | numbers of blocks; profile, several ranges, omitted blocks |
//! | 3 | ends of calls |
//! | 4 | hashes |
//! | 5 | features of two bytes; the profile after linking |

use std::ops::Range;

use super::super::entry::Trouble;
use super::super::reader::Reader;
use super::feature::{BlockFlags, BlockMapFeatures};
use crate::addr::LinkAddr;

/// The newest version that is known.
pub(super) const NEWEST: u8 = 5;
/// The least that a range takes: its address, of four bytes at least, and the number of its blocks.
const RANGE_SIZE: usize = 5;

/// One function in a block map. Made once and filled again for each entry, so that reading a
/// large map takes no memory that grows with it.
#[derive(Clone, Debug, Default)]
pub struct FunctionBlocks {
    /// The version of its entry.
    pub version: u8,
    /// What the entry holds.
    pub features: BlockMapFeatures,
    /// How often it was entered, where the entry says.
    pub entry_count: Option<u64>,
    ranges: Vec<BlockRange>,
    blocks: Vec<Block>,
    callsite_ends: Vec<u32>,
    hashes: Vec<u64>,
    profiles: Vec<BlockProfile>,
    successors: Vec<Successor>,
}

/// A stretch of a function's code without gaps between other functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// Where it starts. That of the first range is the function's address.
    pub base: LinkAddr,
    /// How many blocks it has, also where none are listed.
    pub block_count: u32,
    blocks: Range<usize>,
}

/// One basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number, which stays the same when blocks are laid out in another order.
    pub id: u32,
    /// Its distance from the start of its range in bytes.
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
    /// What is known of it.
    pub flags: BlockFlags,
    /// Index behind its last callsite; the first is behind those of the block before.
    callsites_end: u32,
}

/// The profile of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockProfile {
    /// Its frequency, where the entry has frequencies.
    pub frequency: Option<u64>,
    /// How often it was executed in a profile after linking, where the entry has that.
    pub post_link_frequency: Option<u32>,
    successors_end: u32,
}

/// Where a block may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The number of the block.
    pub id: u32,
    /// How probable it is, in units of 2^-31 (`BranchProbability`).
    pub probability: u32,
    /// How often that happened in a profile after linking, where the entry has that.
    pub post_link_frequency: Option<u32>,
}

impl FunctionBlocks {
    /// Its parts; the first is the one that is entered.
    #[must_use]
    pub fn ranges(&self) -> &[BlockRange] {
        &self.ranges
    }

    /// The blocks of one of its ranges, in the order of the code.
    #[must_use]
    pub fn blocks(&self, range: &BlockRange) -> &[Block] {
        self.blocks.get(range.blocks.clone()).unwrap_or_default()
    }

    /// Where the calls of each block end, as distances from the block's start, in the order of
    /// [`FunctionBlocks::blocks`].
    pub fn callsite_ends(&self, range: &BlockRange) -> impl Iterator<Item = &[u32]> {
        let before = range.blocks.start.checked_sub(1);
        let first = before.and_then(|before| self.blocks.get(before));
        let mut start = first.map_or(0, |block| block.callsites_end as usize);
        self.blocks(range).iter().map(move |block| {
            let end = block.callsites_end as usize;
            let ends = self.callsite_ends.get(start..end).unwrap_or_default();
            start = end;
            ends
        })
    }

    /// The hashes of the range's blocks; empty where the entry has none.
    #[must_use]
    pub fn hashes(&self, range: &BlockRange) -> &[u64] {
        self.hashes.get(range.blocks.clone()).unwrap_or_default()
    }

    /// The profiles of the blocks of all ranges, and the successors of each; empty where the
    /// entry has none.
    pub fn profiles(&self) -> impl ExactSizeIterator<Item = (&BlockProfile, &[Successor])> {
        let mut start = 0;
        self.profiles.iter().map(move |profile| {
            let end = profile.successors_end as usize;
            let successors = self.successors.get(start..end).unwrap_or_default();
            start = end;
            (profile, successors)
        })
    }

    /// How many blocks are listed.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    fn clear(&mut self) {
        self.entry_count = None;
        self.ranges.clear();
        self.blocks.clear();
        self.callsite_ends.clear();
        self.hashes.clear();
        self.profiles.clear();
        self.successors.clear();
    }

    /// Reads the entry that starts where the reader is. `is_old` says that it is one of the
    /// section type without versions.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, is_old: bool) -> Result<(), Trouble> {
        self.clear();
        (self.version, self.features) = if is_old {
            (0, BlockMapFeatures::default())
        } else {
            read_header(reader)?
        };
        if self.features.contains(BlockMapFeatures::MULTIPLE_RANGES) {
            let before = *reader;
            let count = reader.uleb128_u32()?;
            if count == 0 {
                *reader = before;
                return Err("a function has no range of addresses");
            }
            self.ranges
                .reserve_exact(reader.count(count.into(), RANGE_SIZE)?);
            for _ in 0..count {
                self.read_range(reader)?;
            }
        } else {
            self.read_range(reader)?;
        }
        self.read_profile(reader)
    }

    fn read_range(&mut self, reader: &mut Reader<'_>) -> Result<(), Trouble> {
        let base = LinkAddr(reader.word()?);
        let block_count = reader.uleb128_u32()?;
        let start = self.blocks.len();
        if !self.features.contains(BlockMapFeatures::OMITTED_ENTRIES) {
            let least = if self.version >= 2 { 4 } else { 3 };
            let count = reader.count(block_count.into(), least)?;
            self.blocks.reserve_exact(count);
            let mut end_before = 0;
            for index in 0..block_count {
                end_before = self.read_block(reader, index, end_before)?;
            }
        }
        self.ranges.push(BlockRange {
            base,
            block_count,
            blocks: start..self.blocks.len(),
        });
        Ok(())
    }

    /// Reads a block and says where it ends, as a distance from the range's start.
    #[inline]
    fn read_block(
        &mut self,
        reader: &mut Reader<'_>,
        index: u32,
        end_before: u32,
    ) -> Result<u32, Trouble> {
        const TOO_FAR: Trouble = "a block ends more than 4 GiB behind the start of its range";
        let id = if self.version >= 2 {
            reader.uleb128_u32()?
        } else {
            index
        };
        let mut offset = reader.uleb128_u32()?;
        if self.version >= 1 {
            offset = offset.checked_add(end_before).ok_or(TOO_FAR)?;
        }
        let mut last_call = 0u32;
        if self.features.contains(BlockMapFeatures::CALLSITE_ENDS) {
            let calls = reader.uleb128_u32()?;
            reader.count(calls.into(), 1)?;
            for _ in 0..calls {
                last_call = (last_call.checked_add(reader.uleb128_u32()?)).ok_or(TOO_FAR)?;
                self.callsite_ends.push(last_call);
            }
        }
        // With calls, the size is what is left behind the last of them.
        let size = (reader.uleb128_u32()?)
            .checked_add(last_call)
            .ok_or(TOO_FAR)?;
        let before = *reader;
        let flags = reader.uleb128_u32()?;
        if flags & !BlockFlags::KNOWN != 0 {
            *reader = before;
            return Err("a block has flags that are not known");
        }
        if self.features.contains(BlockMapFeatures::BLOCK_HASH) {
            self.hashes.push(reader.u64()?);
        }
        self.blocks.push(Block {
            id,
            offset,
            size,
            flags: BlockFlags(flags as u8),
            callsites_end: self.callsite_ends.len() as u32,
        });
        offset.checked_add(size).ok_or(TOO_FAR)
    }

    fn read_profile(&mut self, reader: &mut Reader<'_>) -> Result<(), Trouble> {
        let features = self.features;
        if features.contains(BlockMapFeatures::FUNCTION_ENTRY_COUNT) {
            self.entry_count = Some(reader.uleb128()?);
        }
        let has_frequency = features.contains(BlockMapFeatures::BLOCK_FREQUENCY);
        let has_successors = features.contains(BlockMapFeatures::BRANCH_PROBABILITY);
        let is_post_link = features.contains(BlockMapFeatures::POST_LINK_PROFILE);
        if !has_frequency && !has_successors {
            return Ok(());
        }
        let count = reader.count(self.blocks.len() as u64, 1)?;
        self.profiles.reserve_exact(count);
        for _ in 0..count {
            let frequency = has_frequency.then(|| reader.uleb128()).transpose()?;
            let post_link_frequency = is_post_link.then(|| reader.uleb128_u32()).transpose()?;
            if has_successors {
                let successors = reader.uleb128()?;
                for _ in 0..reader.count(successors, 2)? {
                    self.successors.push(Successor {
                        id: reader.uleb128_u32()?,
                        probability: reader.uleb128_u32()?,
                        post_link_frequency: is_post_link
                            .then(|| reader.uleb128_u32())
                            .transpose()?,
                    });
                }
            }
            self.profiles.push(BlockProfile {
                frequency,
                post_link_frequency,
                successors_end: self.successors.len() as u32,
            });
        }
        Ok(())
    }
}

fn read_header(reader: &mut Reader<'_>) -> Result<(u8, BlockMapFeatures), Trouble> {
    let version = reader.u8()?;
    let before = *reader;
    let mask = if version < 5 {
        reader.u8()?.into()
    } else {
        reader.u16()?
    };
    let known = (BlockMapFeatures::ALL.into_iter())
        .filter(|&(_, _, since)| since <= version)
        .fold(0, |known, (feature, ..)| known | feature.0);
    if mask & !known != 0 {
        *reader = before;
        return Err("an entry has features that its version does not know");
    }
    Ok((version, BlockMapFeatures(mask)))
}
