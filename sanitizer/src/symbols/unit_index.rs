//! Which units of a file's debug information may have an address. Only the first entry of each unit is read, and what is
//! kept of it is bounded: where there are too many ranges, neighbours are taken together. A unit that is named too
//! often costs a look into it and nothing else.

use std::ops::Range;

use gimli::{Dwarf, UnitType};

use super::line_table::LineTable;
use super::reader::Reader;
use super::too_much::TooMuch;
use super::unit::Root;

/// Units of a file. The largest programs that are known have some 50,000.
const MOST_UNITS: usize = 1 << 17;
/// Ranges of all units, 32 bytes each.
const MOST_SPANS: usize = 1 << 18;
/// Ranges of one unit, before neighbours are taken together.
const MOST_OWN: usize = 1 << 16;
/// Linkers leave gaps of this size between functions.
const USUAL_GAP: u64 = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct UnitIndex {
    /// Where each unit is, ascending.
    offsets: Vec<usize>,
    /// Sorted by their beginning.
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    begin: u64,
    end: u64,
    /// The greatest end of this and those before.
    reach: u64,
    /// Its index in `offsets`.
    unit: u32,
}

impl UnitIndex {
    /// Reads where the units are, but not which code they have: of a file to which others refer.
    pub(super) fn of_references(dwarf: &Dwarf<Reader>) -> Result<Self, TooMuch> {
        Self::read(dwarf, false, MOST_SPANS)
    }

    /// Reads where the units are and which code they have.
    pub(super) fn of_code(dwarf: &Dwarf<Reader>) -> Result<Self, TooMuch> {
        Self::read(dwarf, true, MOST_SPANS)
    }

    fn read(dwarf: &Dwarf<Reader>, code: bool, most_spans: usize) -> Result<Self, TooMuch> {
        let mut index = Self::default();
        let mut gap = USUAL_GAP;
        let mut own = Vec::new();
        let mut headers = dwarf.units();
        loop {
            // What stands before something damaged is still good.
            let header = match headers.next().map_err(TooMuch::from) {
                Ok(Some(header)) => header,
                Ok(None) | Err(TooMuch::Damaged) => break,
                Err(error) => return Err(error),
            };
            let Some(offset) = header.debug_info_offset() else {
                continue;
            };
            if matches!(
                header.type_(),
                UnitType::Type { .. } | UnitType::SplitType { .. }
            ) {
                continue;
            }
            if index.offsets.len() >= MOST_UNITS {
                return Err(TooMuch::Units { limit: MOST_UNITS });
            }
            let unit = u32::try_from(index.offsets.len()).unwrap_or(u32::MAX);
            index.offsets.push(offset.0);
            // Partial units are there for references only.
            if !code || header.type_() == UnitType::Partial {
                continue;
            }
            own.clear();
            match Root::read(dwarf, header).and_then(|root| root.ranges(dwarf, &mut own, gap)) {
                Ok(()) | Err(TooMuch::Damaged | TooMuch::Abbreviations) => {}
                Err(error) => return Err(error),
            }
            merge(&mut own, gap);
            index.spans.extend(own.iter().map(|range| Span {
                begin: range.start,
                end: range.end,
                reach: 0,
                unit,
            }));
            while index.spans.len() > most_spans {
                gap = gap.saturating_mul(16);
                index.take_together(gap);
            }
        }
        index.spans.sort_unstable_by_key(|span| span.begin);
        let mut reach = 0;
        for span in &mut index.spans {
            reach = span.end.max(reach);
            span.reach = reach;
        }
        index.spans.shrink_to_fit();
        index.offsets.shrink_to_fit();
        Ok(index)
    }

    /// Takes neighbours of one unit together; those of a unit stand together, sorted.
    fn take_together(&mut self, gap: u64) {
        let mut last: Option<Span> = None;
        let mut kept = 0;
        for at in 0..self.spans.len() {
            let Some(&span) = self.spans.get(at) else {
                break;
            };
            match &mut last {
                Some(before)
                    if before.unit == span.unit && is_near(before.end, span.begin, gap) =>
                {
                    before.end = before.end.max(span.end);
                }
                _ => {
                    kept += 1;
                    last = Some(span);
                }
            }
            if let (Some(span), Some(to)) = (last, self.spans.get_mut(kept - 1)) {
                *to = span;
            }
        }
        self.spans.truncate(kept);
    }

    /// Where the units are that may have an address, the most likely first.
    pub(super) fn at(&self, addr: u64) -> impl Iterator<Item = usize> {
        /// Units that are looked into in vain.
        const MOST: usize = 16;
        let after = self.spans.partition_point(|span| span.begin <= addr);
        let before = self.spans.get(..after).unwrap_or_default();
        (before.iter().rev())
            .take_while(move |span| addr < span.reach)
            .filter(move |span| addr < span.end)
            .filter_map(|span| self.offsets.get(span.unit as usize).copied())
            .take(MOST)
    }

    /// Where the unit is that has the entry at an offset.
    pub(super) fn with_entry(&self, offset: usize) -> Option<usize> {
        let after = self.offsets.partition_point(|&unit| unit <= offset);
        self.offsets.get(after.checked_sub(1)?).copied()
    }

    /// What it takes in memory.
    pub(super) const fn bytes(&self) -> usize {
        self.offsets.capacity() * size_of::<usize>() + self.spans.capacity() * size_of::<Span>()
    }
}

impl Root {
    /// The code of the unit.
    fn ranges(
        &self,
        dwarf: &Dwarf<Reader>,
        found: &mut Vec<Range<u64>>,
        gap: u64,
    ) -> Result<(), TooMuch> {
        let mut add = |range: Range<u64>| {
            if range.start < range.end {
                found.push(range);
            }
            if found.len() > MOST_OWN {
                let mut gap = gap;
                while found.len() > MOST_OWN / 2 {
                    merge(found, gap);
                    gap = gap.saturating_mul(16);
                }
            }
        };
        let mut ranges = dwarf.unit_ranges(&self.unit)?;
        while let Some(range) = ranges.next()? {
            add(range.begin..range.end);
        }
        if found.is_empty()
            && let Some(offset) = self.line_table
        {
            let add = |range: Range<u64>| found.push(range);
            let table = LineTable::open(dwarf, offset, self.unit.encoding())?;
            table.sequences(add, MOST_OWN)?;
        }
        Ok(())
    }
}

const fn is_near(end: u64, begin: u64, gap: u64) -> bool {
    begin.saturating_sub(end) <= gap
}

/// Sorts ranges and takes neighbours together.
fn merge(ranges: &mut Vec<Range<u64>>, gap: u64) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, before| {
        let joined = is_near(before.end, next.start, gap);
        if joined {
            before.end = before.end.max(next.end);
        }
        joined
    });
}
