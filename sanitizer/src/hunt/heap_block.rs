//! The block of a heap in which bytes are, where the allocator keeps its size beside it: glibc's malloc does ("Chunks" in its `malloc/malloc.c`), and
//! jemalloc, tcmalloc and musl do not.
//!
//! Nothing is guessed. A block is told only where the access goes by a pointer to its beginning, what stands before that is a block's header, and so is what stands where
//! this and the next ones end, up to the end of the heap or for some blocks.

use crate::addr::RuntimeAddr;
use crate::hunt::modules::ModuleSet;
use crate::hunt::strategy::CodeView as _;
use crate::hunt::system_call::Memory;
use crate::insn::x86_64::{self, Variable};
use crate::report::finding::HeapBlock;
use crate::verdict::Access;

/// Bytes between the beginning of a chunk and that of its block: the size of the chunk before, if that is free, and its own.
const HEADER: u64 = 16;
/// `MALLOC_ALIGNMENT`, and the least size of a chunk (`MINSIZE`).
const ALIGNMENT: u64 = 16;
const LEAST: u64 = 32;
/// Of the size's low bits: the chunk before is in use; it was mapped by itself; it is not of the main arena.
const BEFORE_IN_USE: u64 = 1;
const IS_MAPPED: u64 = 2;
const OTHER_ARENA: u64 = 4;
const FLAGS: u64 = 7;
/// What is mapped for chunks begins and ends there.
const PAGE: u64 = 4096;
/// No chunk is larger.
const MOST: u64 = 1 << 40;
/// How many chunks behind it are looked at. What is no chunk may look like one by chance, but not for so long.
const BEHIND: usize = 8;

/// The block to which one of two accesses goes by a pointer, if both are in it.
#[must_use]
pub fn of_accesses(
    modules: &ModuleSet,
    sides: [&Access; 2],
    memory: &Memory<'_>,
) -> Option<HeapBlock> {
    let first = sides.iter().map(|side| side.address).min()?;
    let end = |side: &&Access| side.address.saturating_add(side.size.into());
    let size = sides.iter().map(end).max()?.checked_sub(first)?;
    let bytes = (first, u32::try_from(size).ok()?);
    let block = |side: &&Access| match x86_64::variable(modules.code(side.pc), side.pc)? {
        Variable::Part(part) => {
            let start = side.address.wrapping_sub(part.cast_unsigned());
            block_at(start, bytes, memory)
        }
        Variable::Fixed(_) => None,
    };
    sides.iter().find_map(block)
}

/// The block that begins at `start` and in which all of `bytes` (the first one's address, and how many) are; `None` where it is not certainly one.
#[must_use]
pub fn block_at(start: u64, bytes: (u64, u32), memory: &Memory<'_>) -> Option<HeapBlock> {
    let chunk = start
        .checked_sub(HEADER)
        .filter(|_| start.is_multiple_of(ALIGNMENT))?;
    let [before, field] = words(chunk, memory)?;
    let size = size_of(field)?;
    let usable = if field & IS_MAPPED == 0 {
        follows(chunk.checked_add(size)?, field & OTHER_ARENA, memory)
            .then_some(size - HEADER / 2)?
    } else {
        // Alone in its mapping. (With an alignment of its own it may begin elsewhere: such a one is not told.)
        let is_mapping = field & FLAGS == IS_MAPPED && before == 0;
        (is_mapping && chunk.is_multiple_of(PAGE) && size.is_multiple_of(PAGE))
            .then_some(size - HEADER)?
    };
    let last = bytes.0.checked_add(u64::from(bytes.1))?;
    (start <= bytes.0 && last <= start.checked_add(usable)?).then_some(HeapBlock {
        address: start,
        size: usable,
    })
}

/// Whether a chunk in use is followed by others: there, and on to the last one of the heap, which ends with a page.
fn follows(mut chunk: u64, arena: u64, memory: &Memory<'_>) -> bool {
    for number in 0..BEHIND {
        let Some([_, field]) = words(chunk, memory) else {
            return false;
        };
        // Of another arena only those in use say so: neither free ones do, nor the last one.
        let is_of_heap = field & IS_MAPPED == 0 && field & OTHER_ARENA & !arena == 0;
        let Some(end) = size_of(field).and_then(|size| chunk.checked_add(size)) else {
            return false;
        };
        if !is_of_heap || number == 0 && field & BEFORE_IN_USE == 0 {
            return false;
        }
        if end.is_multiple_of(PAGE) {
            return true;
        }
        chunk = end;
    }
    true
}

/// The size of a chunk, if that may be one.
fn size_of(field: u64) -> Option<u64> {
    let size = field & !FLAGS;
    ((LEAST..MOST).contains(&size) && size.is_multiple_of(ALIGNMENT)).then_some(size)
}

/// The two words of a chunk's header.
fn words(chunk: u64, memory: &Memory<'_>) -> Option<[u64; 2]> {
    let mut bytes = [0; HEADER as usize];
    if !memory(RuntimeAddr(chunk), &mut bytes) {
        return None;
    }
    let (before, size) = bytes.split_first_chunk::<8>()?;
    let size = size.first_chunk::<8>()?;
    Some([u64::from_le_bytes(*before), u64::from_le_bytes(*size)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory from this address on.
    fn memory(start: u64, words: Vec<u64>) -> impl Fn(RuntimeAddr, &mut [u8]) -> bool {
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        move |address, buffer| {
            let from = address
                .0
                .checked_sub(start)
                .and_then(|at| usize::try_from(at).ok());
            let found = from.and_then(|from| bytes.get(from..)?.get(..buffer.len()));
            found.is_some_and(|found| {
                buffer.copy_from_slice(found);
                true
            })
        }
    }

    /// Two chunks of 48 and 32 bytes, and the rest of a page.
    fn heap(arena: u64) -> Vec<u64> {
        let mut words = vec![7; 512];
        words[1] = 48 | BEFORE_IN_USE | arena;
        words[7] = 32 | BEFORE_IN_USE | arena;
        words[11] = (4096 - 80) | BEFORE_IN_USE;
        words
    }

    /// Check which bytes are in a block, of either kind of arena, and that what is no header, in any of the places where one has to stand, is not taken for one.
    #[test]
    fn blocks_by_their_headers() {
        const START: u64 = 0x5000;
        let first = Some(HeapBlock {
            address: START + 16,
            size: 40,
        });
        for arena in [0, OTHER_ARENA] {
            let memory = memory(START, heap(arena));
            assert_eq!(block_at(START + 16, (START + 16, 8), &memory), first);
            assert_eq!(block_at(START + 16, (START + 52, 4), &memory), first);
            assert_eq!(block_at(START + 16, (START + 52, 8), &memory), None);
            assert_eq!(block_at(START + 16, (START + 12, 8), &memory), None);
            let second = block_at(START + 64, (START + 64, 1), &memory);
            assert_eq!(second.map(|block| block.size), Some(24));
            assert_eq!(block_at(START + 24, (START + 24, 8), &memory), None);
            assert_eq!(block_at(8, (8, 8), &memory), None);
        }
        for (word, value) in [
            (1, 24 | BEFORE_IN_USE),
            (1, 56 | BEFORE_IN_USE),
            (1, MOST | BEFORE_IN_USE),
            (7, 32),
            (7, 32 | BEFORE_IN_USE | OTHER_ARENA),
            (7, 32 | BEFORE_IN_USE | IS_MAPPED),
            (7, 0),
            (11, 7),
            (11, u64::MAX),
        ] {
            let mut words = heap(0);
            words[word] = value;
            let memory = memory(START, words);
            assert_eq!(
                block_at(START + 16, (START + 16, 8), &memory),
                None,
                "{word}: {value:#x}"
            );
        }
        // A page of which the last chunk does not tell its end, and cannot be read beyond.
        let mut words = heap(0);
        words[11] = 4096 | BEFORE_IN_USE;
        assert_eq!(
            block_at(START + 16, (START + 16, 8), &memory(START, words)),
            None
        );
    }

    /// Check blocks that have a mapping for themselves.
    #[test]
    fn mapped_blocks() {
        const START: u64 = 0x7000_0000;
        let of = |before, field| {
            let mut words = vec![1; 1024];
            (words[0], words[1]) = (before, field);
            let block = block_at(START + 16, (START + 80, 8), &memory(START, words));
            block.map(|block| block.size)
        };
        assert_eq!(of(0, 8192 | IS_MAPPED), Some(8192 - 16));
        assert_eq!(of(16, 8192 | IS_MAPPED), None);
        assert_eq!(of(0, 8192 | IS_MAPPED | BEFORE_IN_USE), None);
        assert_eq!(of(0, 8208 | IS_MAPPED), None);
    }

    /// Check blocks of the real allocator, in use among others, some of which are free: as much is told as it says itself.
    #[test]
    fn blocks_of_this_process() {
        let own = nix::unistd::Pid::this();
        let memory = |address: RuntimeAddr, buffer: &mut [u8]| {
            matches!(
                crate::tracee::memory::read_exact(own, address, buffer),
                Ok(true)
            )
        };
        let mut told = 0;
        let sizes = [1_usize, 24, 25, 120, 1000, 5000, 40_000, 300_000];
        // SAFETY: malloc has no preconditions; what it gives is freed below, once, and not used in between but by its address.
        let blocks = sizes.map(|size| (size, unsafe { libc::malloc(size) }));
        for (size, block) in blocks {
            let start = block.addr() as u64;
            let last = (start + size as u64 - 1, 1);
            if let Some(found) = block_at(start, last, &memory) {
                // SAFETY: the block is in use.
                let usable = unsafe { libc::malloc_usable_size(block) };
                assert_eq!(
                    (found.address, found.size),
                    (start, usable as u64),
                    "{size}"
                );
                told += 1;
            }
            assert_eq!(
                block_at(start + 16, last, &memory).map(|block| block.address),
                None,
                "{size}"
            );
        }
        for (_, block) in blocks {
            // SAFETY: it is malloc's, and was not freed.
            unsafe { libc::free(block) };
        }
        // Other threads of this program allocate meanwhile, behind a block that is the last one at that moment.
        println!("{told} of {} blocks are told", sizes.len());
        assert!(told >= sizes.len() - 2);
    }
}
