//! Searching the tables of modules and their functions.

use sanitizer_ebpf::{
    Control, FunctionEntry, ModuleRange, SEARCH_STEPS, SPACE_RANGES, SPACE_STEPS,
};

use crate::atomic;

use super::{
    current::is_watched,
    maps::{ATOMICS, FUNCTIONS, FunctionWords, SPACE},
};

/// Binary search: how many of the first `count` entries, sorted, are "at most" what is sought,
/// as `at_most` says of an index; `None` where it does.
///
/// The verifier would follow every path through the loop as a state of its own, 2^steps of
/// them, because it knows the bounds of `low` and `high` too well. Adding a zero that it
/// cannot know makes the paths equal again, so that it follows one.
#[inline(always)]
fn search(
    control: &Control,
    steps: usize,
    count: u32,
    at_most: impl Fn(u32) -> Option<bool>,
) -> Option<u32> {
    let (mut low, mut high) = (0u64, u64::from(count));
    for _ in 0..=steps {
        low = low.wrapping_add(atomic::load(&control.zero));
        high = high.wrapping_add(atomic::load(&control.zero));
        if low >= high {
            break;
        }
        let middle = low.wrapping_add(high) >> 1;
        if at_most(middle as u32)? {
            low = middle.wrapping_add(1);
        } else {
            high = middle;
        }
    }
    Some(low as u32)
}

/// The executable range of an address space that holds `pc`.
#[inline(always)]
pub(super) fn range_of(control: &Control, tgid: u32, pc: u64) -> Option<&'static ModuleRange> {
    if !is_watched(control, tgid) {
        return None;
    }
    let found = search(control, SPACE_STEPS, SPACE_RANGES as u32, |index| {
        Some(SPACE.get(index)?.start <= pc)
    })?;
    let range = SPACE.get(found.wrapping_sub(1))?;
    (pc < range.end).then_some(range)
}

#[inline(always)]
const fn entry_of(&[start, size_flags]: &FunctionWords) -> FunctionEntry {
    FunctionEntry { start, size_flags }
}

/// Flags of the covered function that holds `pc`; 0 where there is none.
#[inline(always)]
pub(super) fn function_flags(control: &Control, range: &ModuleRange, pc: u64) -> u32 {
    let Some(functions) = FUNCTIONS.get(range.table) else {
        return 0;
    };
    let offset = pc.wrapping_sub(range.base) as u32;
    let found = search(control, SEARCH_STEPS, range.functions, |index| {
        Some(entry_of(functions.get(index)?).start <= offset)
    });
    let Some(words) = found.and_then(|found| functions.get(found.wrapping_sub(1))) else {
        return 0;
    };
    let entry = entry_of(words);
    if offset.wrapping_sub(entry.start) < entry.size_flags & FunctionEntry::SIZE_MASK {
        entry.size_flags & !FunctionEntry::SIZE_MASK
    } else {
        0
    }
}

/// Whether an atomic instruction ends at `pc`.
#[inline(always)]
pub(super) fn ends_atomic(control: &Control, range: &ModuleRange, pc: u64) -> bool {
    let Some(atomics) = ATOMICS.get(range.table) else {
        return false;
    };
    let offset = pc.wrapping_sub(range.base) as u32;
    let found = search(control, SEARCH_STEPS, range.atomics, |index| {
        Some(*atomics.get(index)? <= offset)
    });
    found.and_then(|found| atomics.get(found.wrapping_sub(1))) == Some(&offset)
}
