//! The parts of functions that a compiler has laid out elsewhere: hot and cold code apart
//! (`-fsplit-machine-functions`), or each basic block on its own (`-fbasic-block-sections`, Propeller). The
//! metadata tells of such a function where its first part is and how large that is; here is found out which
//! other code is the function's as well.
//!
//! Code without metadata must not be taken for analyzed, so nothing is guessed. What proves that code is a
//! function's:
//!
//! - a block map (`SHT_LLVM_BB_ADDR_MAP`) lists it among the ranges of the function;
//! - a direct jump leads from one of the two into the *middle* of the other. Compilers never let a function jump
//!   behind the entry of another one;
//! - a direct jump from the function leads to it, and the unwind tables say that its frame is set up there
//!   already: nothing that begins so is a function;
//! - a direct jump or call from the function leads to it, and a local symbol names it as the function's part
//!   (`f.cold`, `f.__part.1`, `f.eh`, and what `-mllvm -hot-cold-split` takes out, `f.cold.1`), where one function only
//!   has that name.
//!
//! Jumps and unwind tables are there in stripped files too. What a symbol calls a function of its own, and what
//! belongs to several functions by these rules, is left out.

mod components;
mod jumps;
mod names;
#[cfg(test)]
mod tests;

use std::ops::Range;

use super::call_frames::CallFrames;
use crate::addr::LinkAddr;
use crate::image::{Image, Machine};
use crate::pcmeta::{BlockMap, Fragment, Metadata, MetadataError};

use components::Components;
use jumps::{Jump, Unit, between};
use names::Names;
pub(super) use names::is_named_whole;
#[cfg(test)]
pub use names::names_function;

/// Reads the metadata of an image, the parts of split functions included. Its unwind tables are wanted only where there is
/// metadata.
///
/// # Errors
/// As [`Metadata::load`].
pub fn load_metadata<'frames>(
    image: &Image,
    frames: impl FnOnce() -> &'frames CallFrames,
) -> Result<Metadata, MetadataError> {
    let mut metadata = Metadata::load(image)?;
    let is_searchable = image.machine() == Machine::X86_64 && !image.is_object();
    if is_searchable && metadata.function_count() > 0 {
        metadata.add_fragments(&fragments(image, &metadata, frames()));
    }
    Ok(metadata)
}

/// The parts of covered functions that are known to be theirs.
fn fragments(image: &Image, metadata: &Metadata, frames: &CallFrames) -> Vec<Fragment> {
    let covered = Ranges::new(metadata.functions().map(|f| f.start..f.end).collect());
    let mut listed = Listed::of(image, metadata, &covered);
    let names = Names::of(image);
    let taken = listed.fragments.iter().map(|f| f.range.clone());
    let taken = Ranges::new(taken.chain(listed.others).collect());
    let units = units(image, metadata, frames, &names, (&covered, &taken));
    let jumps = between(image, &units, |target| names.whole_of(target).is_some());
    let mut found = by_jumps(frames, &names, &units, &jumps);
    listed.fragments.append(&mut found);
    listed.fragments
}

/// Code in pieces, sorted and without overlaps.
struct Ranges(Vec<Range<LinkAddr>>);

impl Ranges {
    fn new(mut ranges: Vec<Range<LinkAddr>>) -> Self {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<LinkAddr>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        Self(merged)
    }

    fn meet(&self, range: &Range<LinkAddr>) -> bool {
        let after = self.0.partition_point(|other| other.start < range.end);
        let last = after.checked_sub(1).and_then(|index| self.0.get(index));
        last.is_some_and(|other| other.end > range.start)
    }
}

/// What a block map says of the ranges of functions behind their first ones.
#[derive(Default)]
struct Listed {
    /// Parts of covered functions.
    fragments: Vec<Fragment>,
    /// Parts of others.
    others: Vec<Range<LinkAddr>>,
}

impl Listed {
    fn of(image: &Image, metadata: &Metadata, covered: &Ranges) -> Self {
        let mut listed = Self::default();
        let read = BlockMap::for_each(image, |function| {
            let [first, parts @ ..] = function.ranges() else {
                return;
            };
            for part in parts {
                let blocks = function.blocks(part).iter();
                let ends = blocks.map(|block| u64::from(block.offset) + u64::from(block.size));
                let size = ends.max().unwrap_or_default();
                let range = part.base..LinkAddr(part.base.0.saturating_add(size));
                if is_start(metadata, first.base) {
                    listed.fragments.push(Fragment {
                        range,
                        of: first.base,
                    });
                } else {
                    listed.others.push(range);
                }
            }
        });
        if let Err(error) = read {
            tracing::debug!(%error, "a block map is left out");
            return Self::default();
        }
        // The linker may have folded a part of a covered function with one of another function.
        let others = Ranges::new(listed.others.clone());
        listed.fragments.retain(|fragment| {
            let range = &fragment.range;
            range.start < range.end && !others.meet(range) && !covered.meet(range)
        });
        listed
    }
}

/// Whether a covered function begins here.
fn is_start(metadata: &Metadata, address: LinkAddr) -> bool {
    (metadata.function_at(address)).is_some_and(|function| function.start == address)
}

/// All code that jumps can tell of, sorted and without overlaps: the covered functions, and what is listed by
/// itself in the unwind tables or is named as a part. `taken` is code of which the block map tells.
fn units(
    image: &Image,
    metadata: &Metadata,
    frames: &CallFrames,
    names: &Names<'_>,
    (covered, taken): (&Ranges, &Ranges),
) -> Vec<Unit> {
    let mut apart: Vec<_> = (frames.entries().into_iter().chain(names.parts()))
        .filter(|range| range.start < range.end && !covered.meet(range) && !taken.meet(range))
        .filter(|range| jumps::code(image, range).is_some())
        .collect();
    apart.sort_unstable_by_key(|range| (range.start, range.end));
    let mut behind = LinkAddr(0);
    apart.retain(|range| {
        let is_free = range.start >= behind;
        behind = behind.max(range.end);
        is_free
    });
    let unit = |range, is_covered| Unit { range, is_covered };
    let mut units: Vec<Unit> = (metadata.functions())
        .map(|function| unit(function.start..function.end, true))
        .chain(apart.into_iter().map(|range| unit(range, false)))
        .collect();
    units.sort_unstable_by_key(|unit| unit.range.start);
    units
}

/// The parts that jumps lead to, and those that lead back.
fn by_jumps(
    frames: &CallFrames,
    names: &Names<'_>,
    units: &[Unit],
    jumps: &[Jump],
) -> Vec<Fragment> {
    let mut components = Components::new(units.len());
    let mut named = Vec::new();
    for jump in jumps {
        let Some(to) = units.get(jump.to) else {
            continue;
        };
        if jump.target != to.range.start {
            // Compilers call nothing but functions.
            if jump.is_call {
                continue;
            }
            components.join(jump.from, jump.to);
        } else if !to.is_covered {
            if !jump.is_call
                && names.may_be_part(jump.target)
                && frames.is_within_frame(jump.target)
            {
                components.join(jump.from, jump.to);
            } else if let Some(whole) = names.whole_of(jump.target)
                && let Ok(whole) = units.binary_search_by_key(&whole, |unit| unit.range.start)
            {
                named.push((jump, whole));
            }
        }
    }
    // A part that leads to others is known only when it is found itself.
    while {
        let joins = named.iter().map(|&(jump, whole)| {
            components.of(jump.from) == components.of(whole) && components.join(jump.from, jump.to)
        });
        joins.fold(false, |any, joined| any | joined)
    } {}
    let mut found = Vec::new();
    for set in components.all() {
        let set = || set.iter().filter_map(|&unit| units.get(unit));
        let mut wholes = set().filter(|unit| unit.is_covered);
        let (Some(whole), None) = (wholes.next(), wholes.next()) else {
            continue;
        };
        let parts = || set().filter(|unit| !unit.is_covered);
        let is_allowed = |part: &Unit| names.allow(part.range.start, whole.range.start);
        if parts().all(is_allowed) {
            found.extend(parts().map(|part| Fragment {
                range: part.range.clone(),
                of: whole.range.start,
            }));
        }
    }
    found
}
