//! The functions of a unit by address, and the calls that were inlined at an address, without recursion: a file says
//! how deep they nest.

use gimli::{Attribute, AttributeValue, RangeListsOffset, UnitOffset, UnitRef, constants as dw};

use super::reader::Reader;
use super::too_much::TooMuch;

/// Functions of a unit that are kept sorted, 24 bytes each. In a unit with more each question goes through it all.
const MOST_FUNCTIONS: usize = 1 << 17;
/// Calls that are inlined into each other and still told.
const MOST_INLINED: usize = 256;

/// The functions of a unit, sorted by address.
pub(super) struct Functions {
    /// Empty where there are too many.
    sorted: Vec<Function>,
    is_complete: bool,
}

#[derive(Clone, Copy)]
struct Function {
    begin: u64,
    end: u64,
    entry: UnitOffset<usize>,
}

impl Functions {
    /// Reads all of a unit.
    pub(super) fn read(unit: UnitRef<'_, Reader>) -> Result<Self, TooMuch> {
        Self::read_up_to(unit, MOST_FUNCTIONS)
    }

    fn read_up_to(unit: UnitRef<'_, Reader>, most: usize) -> Result<Self, TooMuch> {
        let mut sorted = Vec::new();
        let mut is_complete = true;
        each(unit, |function| {
            is_complete = sorted.len() < most;
            if is_complete {
                sorted.push(function);
            }
            !is_complete
        })?;
        if !is_complete {
            sorted = Vec::new();
        }
        sorted.sort_unstable_by_key(|function| (function.begin, function.entry.0));
        sorted.shrink_to_fit();
        Ok(Self {
            sorted,
            is_complete,
        })
    }

    /// The entry of the function at a link-time address of the unit.
    pub(super) fn at(
        &self,
        unit: UnitRef<'_, Reader>,
        addr: u64,
    ) -> Result<Option<UnitOffset<usize>>, TooMuch> {
        /// Functions that begin before an address and end before it too, and are passed over.
        const MOST_NESTED: usize = 64;
        let has = |function: &&Function| (function.begin..function.end).contains(&addr);
        if self.is_complete {
            let after = self.sorted.partition_point(|other| other.begin <= addr);
            let before = self.sorted.get(..after).unwrap_or_default();
            let found = before.iter().rev().take(MOST_NESTED).find(has);
            return Ok(found.map(|function| function.entry));
        }
        let mut found = None;
        each(unit, |function| {
            if has(&&function) {
                found = Some(function.entry);
            }
            found.is_some()
        })?;
        Ok(found)
    }

    pub(super) const fn bytes(&self) -> usize {
        self.sorted.capacity() * size_of::<Function>()
    }
}

/// Goes through the functions of a unit, one for each range of theirs, until `is_enough`.
fn each(
    unit: UnitRef<'_, Reader>,
    mut is_enough: impl FnMut(Function) -> bool,
) -> Result<(), TooMuch> {
    let mut entries = unit.entries_raw(None)?;
    let mut attributes = Vec::new();
    while !entries.is_empty() {
        let entry = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        if abbreviation.tag() != dw::DW_TAG_subprogram {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        entries.read_attributes(abbreviation.attributes(), &mut attributes)?;
        let mut is_done = false;
        Extent::of(unit, &attributes)?.each(unit, |begin, end| {
            is_done |= is_enough(Function { begin, end, entry });
            is_done
        })?;
        if is_done {
            break;
        }
    }
    Ok(())
}

/// Where the code of an entry is (DWARF 5, 2.17).
#[derive(Default)]
struct Extent {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    ranges: Option<RangeListsOffset<usize>>,
}

impl Extent {
    fn of(unit: UnitRef<'_, Reader>, attributes: &[Attribute<Reader>]) -> Result<Self, TooMuch> {
        let mut extent = Self::default();
        for attribute in attributes {
            match attribute.name() {
                dw::DW_AT_low_pc => extent.low = unit.attr_address(attribute.value())?,
                dw::DW_AT_high_pc => match attribute.value() {
                    AttributeValue::Udata(size) => extent.size = Some(size),
                    address => extent.high = unit.attr_address(address)?,
                },
                dw::DW_AT_ranges => extent.ranges = unit.attr_ranges_offset(attribute.value())?,
                _ => {}
            }
        }
        Ok(extent)
    }

    /// Gives each range that is not empty, until `is_enough`.
    fn each(
        &self,
        unit: UnitRef<'_, Reader>,
        mut is_enough: impl FnMut(u64, u64) -> bool,
    ) -> Result<(), TooMuch> {
        if let Some(ranges) = self.ranges {
            let mut ranges = unit.ranges(ranges)?;
            while let Some(range) = ranges.next()? {
                if range.begin < range.end && is_enough(range.begin, range.end) {
                    break;
                }
            }
        } else if let Some(low) = self.low {
            // Code that the linker left out stands at the greatest address, and goes past it.
            let high = self.high.or(self.size.map(|size| low.wrapping_add(size)));
            if let Some(high) = high.filter(|&high| low < high) {
                is_enough(low, high);
            }
        }
        Ok(())
    }

    fn has(&self, unit: UnitRef<'_, Reader>, addr: u64) -> Result<bool, TooMuch> {
        let mut found = false;
        self.each(unit, |begin, end| {
            found |= (begin..end).contains(&addr);
            found
        })?;
        Ok(found)
    }
}

/// A call that was inlined.
#[derive(Clone, Copy, Debug)]
pub(super) struct InlinedCall {
    /// The entry of what was called.
    pub(super) entry: UnitOffset<usize>,
    /// Where it was called: the file's number in the line table.
    pub(super) file: Option<u64>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}

/// The calls that were inlined into a function at a link-time address, the outermost first, and whether there are more
/// of them than are told.
pub(super) fn inlined_at(
    unit: UnitRef<'_, Reader>,
    function: UnitOffset<usize>,
    addr: u64,
) -> Result<(Vec<InlinedCall>, Option<TooMuch>), TooMuch> {
    let mut calls = Vec::new();
    let mut entries = unit.entries_raw(Some(function))?;
    let Some(own) = entries.read_abbreviation()? else {
        return Ok((calls, None));
    };
    entries.skip_attributes(own.attributes())?;
    // Entries that are no deeper than this are behind what has the address.
    let mut within = 0;
    // Entries that are deeper than this are part of something that does not have it.
    let mut elsewhere = isize::MAX;
    let mut attributes = Vec::new();
    while !entries.is_empty() && entries.next_depth() > within {
        let (entry, depth) = (entries.next_offset(), entries.next_depth());
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        if depth > elsewhere {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        elsewhere = isize::MAX;
        match abbreviation.tag() {
            dw::DW_TAG_inlined_subroutine => {
                entries.read_attributes(abbreviation.attributes(), &mut attributes)?;
                if !Extent::of(unit, &attributes)?.has(unit, addr)? {
                    elsewhere = depth;
                    continue;
                }
                if calls.len() >= MOST_INLINED {
                    let limit = MOST_INLINED;
                    return Ok((calls, Some(TooMuch::Inlined { limit })));
                }
                calls.push(InlinedCall::of(unit, entry, &attributes));
                within = depth;
            }
            dw::DW_TAG_subprogram => {
                entries.skip_attributes(abbreviation.attributes())?;
                elsewhere = depth;
            }
            _ => entries.skip_attributes(abbreviation.attributes())?,
        }
    }
    Ok((calls, None))
}

impl InlinedCall {
    fn of(
        unit: UnitRef<'_, Reader>,
        entry: UnitOffset<usize>,
        attributes: &[Attribute<Reader>],
    ) -> Self {
        let mut call = Self {
            entry,
            file: None,
            line: None,
            column: None,
        };
        let number = |attribute: &Attribute<Reader>| {
            let number = attribute.udata_value()?.try_into().ok()?;
            Some(number).filter(|&number| number > 0)
        };
        // Before DWARF 5 the file 0 is none.
        let first_file = u64::from(unit.header.version() < 5);
        for attribute in attributes {
            match attribute.name() {
                dw::DW_AT_call_file => {
                    if let AttributeValue::FileIndex(file) = attribute.value() {
                        call.file = Some(file).filter(|&file| file >= first_file);
                    }
                }
                dw::DW_AT_call_line => call.line = number(attribute),
                dw::DW_AT_call_column => call.column = number(attribute),
                _ => {}
            }
        }
        call
    }
}
