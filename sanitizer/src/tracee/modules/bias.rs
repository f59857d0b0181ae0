//! Where a file is loaded: what is added to its link addresses, and the range that it takes.

use std::ops::Range;

use super::contents::Contents;
use crate::addr::RuntimeAddr;
use crate::image::Segment;
use crate::tracee::maps::{Mapping, Maps};

/// The page size of x86-64, in which files are mapped.
const PAGE: u64 = 4096;

/// The load bias that explains why `mapping` (of code) is where it is.
pub(super) fn load_bias(image: &impl Contents, mapping: &Mapping, maps: &Maps) -> Option<u64> {
    let mut candidates: Vec<u64> = (image.segments().iter())
        .filter(|segment| segment.is_executable)
        .filter_map(|segment| bias_by(segment, mapping))
        .filter(|&bias| image.is_position_independent() || bias == 0)
        .collect();
    candidates.dedup();
    // Two segments of code may share a page of the file. The right one also explains where
    // the beginning of the module is.
    let explains_first = |bias: &u64| {
        loaded_range(image, *bias).is_some_and(|range| {
            maps.find(RuntimeAddr(range.start))
                .is_some_and(|first| (first.dev, first.inode) == (mapping.dev, mapping.inode))
        })
    };
    candidates
        .iter()
        .copied()
        .find(explains_first)
        .or(candidates.first().copied())
}

/// The load bias if this segment is what is mapped there.
fn bias_by(segment: &Segment, mapping: &Mapping) -> Option<u64> {
    let file_start = segment.offset.0 & !(PAGE - 1);
    let file_end = page_up(segment.offset.0.checked_add(segment.file_size)?)?;
    if !(file_start..file_end).contains(&mapping.offset.0) {
        return None;
    }
    let link = (segment.address.0 & !(PAGE - 1)).wrapping_add(mapping.offset.0 - file_start);
    Some(mapping.start.0.wrapping_sub(link))
}

/// The run-time range of all loadable segments, in whole pages.
pub(super) fn loaded_range(image: &impl Contents, bias: u64) -> Option<Range<u64>> {
    let segments = || {
        image
            .segments()
            .iter()
            .filter(|segment| segment.memory_size > 0)
    };
    let start = segments().map(|segment| segment.address.0).min()? & !(PAGE - 1);
    let end = segments()
        .filter_map(|segment| segment.address.0.checked_add(segment.memory_size))
        .max()?;
    let range = start.wrapping_add(bias)..page_up(end)?.wrapping_add(bias);
    (range.start < range.end).then_some(range)
}

fn page_up(address: u64) -> Option<u64> {
    Some(address.checked_add(PAGE - 1)? & !(PAGE - 1))
}
