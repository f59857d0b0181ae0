//! The unwind tables of a file as sorted lists: what one entry describes (a function, as a rule), whether exceptions may lead into it, and, of code
//! of which the metadata does not tell, where the caller's registers are at each instruction.

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::rule::Rule;
use crate::addr::LinkAddr;
use crate::bounded::{self, ascending, gaps};
use crate::insn::Regs;
use crate::symbols::StackSnapshot;

/// Entries that are kept, rows of all of them, and different ones of those.
pub(super) const MOST_EXTENTS: usize = 1 << 21;
pub(super) const MOST_ROWS: usize = 1 << 21;
pub(super) const MOST_RULES: usize = 1 << 16;
/// Of a row whose rule is not known.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// What one entry describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: u32,
    pub(super) size: u32,
    /// It has a table for exceptions that lead into it (LSDA).
    pub(super) lands: bool,
}

/// From an address on a rule holds, to the next one or to the end of what its entry describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) start: u32,
    pub(super) rule: u32,
}

/// See the module. Addresses are told from the file's first one on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    pub(super) base: LinkAddr,
    /// Sorted by where they begin. Where they overlap, the later one counts.
    pub(super) extents: Vec<Extent>,
    /// Sorted.
    pub(super) rows: Vec<Row>,
    pub(super) rules: Vec<Rule>,
}

impl Frames {
    fn offset(&self, address: LinkAddr) -> Option<u32> {
        u32::try_from(address.0.checked_sub(self.base.0)?).ok()
    }

    fn extent_at(&self, offset: u32) -> Option<&Extent> {
        let after = self
            .extents
            .partition_point(|extent| extent.start <= offset);
        let extent = self.extents.get(after.checked_sub(1)?)?;
        (offset - extent.start < extent.size).then_some(extent)
    }

    /// The code that one entry of the tables describes around an address.
    #[must_use]
    pub fn extent(&self, address: LinkAddr) -> Option<Range<LinkAddr>> {
        let extent = self.extent_at(self.offset(address)?)?;
        let start = LinkAddr(self.base.0.wrapping_add(extent.start.into()));
        Some(start..LinkAddr(start.0.wrapping_add(extent.size.into())))
    }

    /// Whether exceptions may lead into the function at an address; also where that is not known.
    #[must_use]
    pub fn may_land(&self, address: LinkAddr) -> bool {
        let offset = self.offset(address);
        let extent = offset.and_then(|offset| self.extent_at(offset));
        extent.is_none_or(|extent| extent.lands)
    }

    /// The registers of the caller of a thread that stands at link-time address `pc`: its return
    /// address, its stack pointer, and what a call preserves; the others are 0. Nothing where
    /// the tables do not tell all of these, or in a form that is not usual.
    #[must_use]
    pub fn caller(&self, pc: LinkAddr, regs: &Regs, stack: &StackSnapshot) -> Option<Regs> {
        let offset = self.offset(pc)?;
        let extent = self.extent_at(offset)?;
        let after = self.rows.partition_point(|row| row.start <= offset);
        let row = self.rows.get(after.checked_sub(1)?)?;
        if row.start < extent.start {
            return None;
        }
        let rule = self.rules.get(usize::try_from(row.rule).ok()?)?;
        rule.caller(regs, stack)
    }

    /// How many entries and rows there are.
    #[must_use]
    pub const fn counts(&self) -> (usize, usize) {
        (self.extents.len(), self.rows.len())
    }

    /// What they keep in memory, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.extents.capacity() * size_of::<Extent>()
            + self.rows.capacity() * size_of::<Row>()
            + self.rules.capacity() * size_of::<Rule>()
    }
}

/// As they are told: how far behind the one before each begins.
#[derive(Serialize, Deserialize)]
struct Flat {
    base: LinkAddr,
    #[serde(deserialize_with = "bounded::list::<_, _, MOST_EXTENTS>")]
    extents: Vec<(u32, u32, bool)>,
    #[serde(deserialize_with = "bounded::list::<_, _, MOST_ROWS>")]
    rows: Vec<(u32, u32)>,
    #[serde(deserialize_with = "bounded::list::<_, _, MOST_RULES>")]
    rules: Vec<Rule>,
}

impl Serialize for Frames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let extents = gaps(self.extents.iter().map(|extent| extent.start));
        let rows = gaps(self.rows.iter().map(|row| row.start));
        Flat {
            base: self.base,
            extents: extents
                .zip(&self.extents)
                .map(|(gap, extent)| (gap, extent.size, extent.lands))
                .collect(),
            rows: rows
                .zip(&self.rows)
                // So that the most usual ones are short.
                .map(|(gap, row)| (gap, row.rule.wrapping_add(1)))
                .collect(),
            rules: self.rules.clone(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Frames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat = Flat::deserialize(deserializer)?;
        of_flat(flat).ok_or_else(|| D::Error::custom("unwind tables that are not in order"))
    }
}

fn of_flat(flat: Flat) -> Option<Frames> {
    let starts = ascending(flat.extents.iter().map(|&(gap, ..)| gap), 1);
    let extents = starts.zip(&flat.extents);
    let extents = extents.map(|(start, &(_, size, lands))| {
        let start = start?;
        start.checked_add(size)?;
        Some(Extent { start, size, lands })
    });
    let starts = ascending(flat.rows.iter().map(|&(gap, _)| gap), 1);
    let rows = starts.zip(&flat.rows);
    let rows = rows.map(|(start, &(_, rule))| {
        let (start, rule) = (start?, rule.wrapping_sub(1));
        let is_one = rule == UNKNOWN || (rule as usize) < flat.rules.len();
        is_one.then_some(Row { start, rule })
    });
    Some(Frames {
        base: flat.base,
        extents: extents.collect::<Option<_>>()?,
        rows: rows.collect::<Option<_>>()?,
        rules: flat.rules,
    })
}
