//! Makes lists of unwind tables: `.eh_frame` (Linux Standard Base, "Exception Frames"), and `.eh_frame_hdr` where entries stand behind what looks like the end.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry,
    LittleEndian, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _,
    UnwindTableRow, X86_64,
};

use super::frames::{Extent, Frames, MOST_EXTENTS, MOST_RULES, Row, UNKNOWN};
use super::rule::{Frame, Rule, SAVED, Saved};
use crate::addr::LinkAddr;
use crate::image::Image;

const ADDRESS_SIZE: u8 = 8;
/// Bytes of entries, and of what they have in common, that are gone through: what is shared is so once for each entry.
const EFFORT: u64 = 1 << 30;
/// What each costs beside its bytes.
const COST: u64 = 64;
/// Behind the last entry of a table there is not more than this, in bytes: less than an entry has.
const END: usize = 16;

/// What is evaluated (DWARF 5, 7.7.1) where a stub of the linker stands that has pushed something from a byte of sixteen on (the third from last), or not yet.
const STUB: [u8; 11] = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
/// Where in that `DW_OP_lit0` and the byte of sixteen stand.
const STUB_FROM: usize = 6;
const LIT0: u8 = 0x30;
/// The same for a register and a distance.
const BREG0: u8 = 0x70;
const DEREF: u8 = 0x06;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = FrameDescriptionEntry<Bytes<'a>>;

impl Frames {
    /// Those of a file; of rows only those of code that is wanted, so many at most, and of routines before all others.
    pub(super) fn of(
        image: &Image,
        base: LinkAddr,
        most_rows: usize,
        is_routine: impl Fn(Range<LinkAddr>) -> bool,
        is_wanted: impl Fn(LinkAddr) -> bool,
    ) -> Self {
        let mut frames = Self {
            base,
            ..Self::default()
        };
        let Some(section) = image.section(".eh_frame") else {
            return frames;
        };
        let addr = |name: &str| image.section(name).map_or(0, |section| section.address.0);
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(addr(".eh_frame_hdr"))
            .set_eh_frame(section.address.0)
            .set_text(addr(".text"))
            .set_got(addr(".got"));
        let mut table = EhFrame::new(section.data, LittleEndian);
        table.set_address_size(ADDRESS_SIZE);
        let mut making = Making {
            table: &table,
            bases: &bases,
            left: EFFORT,
            most_rows,
        };
        let search = image.section(".eh_frame_hdr");
        let search = search.map(|section| section.data);
        let mut entries = making.entries(base, section.data.len(), search);
        entries.sort_unstable_by_key(|entry| (entry.extent.start, entry.extent.size));
        // Of those that begin at one place, the largest is kept.
        entries.dedup_by(|next, kept| {
            let is_same = next.extent.start == kept.extent.start;
            if is_same {
                *kept = *next;
            }
            is_same
        });
        frames.extents = entries.iter().map(|entry| entry.extent).collect();
        let at = |offset: u32| LinkAddr(base.0.wrapping_add(offset.into()));
        let wanted: Vec<Option<bool>> = (entries.iter())
            .map(|Found { extent, .. }| {
                let range = at(extent.start)..at(extent.start.saturating_add(extent.size));
                is_wanted(range.start).then(|| is_routine(range))
            })
            .collect();
        for are_routines in [true, false] {
            let wanted = wanted.iter().map(|wanted| *wanted == Some(are_routines));
            making.rows(&entries, &mut frames, wanted);
        }
        frames.rows.sort_unstable_by_key(|row| row.start);
        frames.rows.shrink_to_fit();
        frames.rules.shrink_to_fit();
        frames
    }
}

/// An entry, and where it stands.
#[derive(Clone, Copy)]
struct Found {
    extent: Extent,
    at: gimli::EhFrameOffset,
}

struct Making<'a> {
    table: &'a EhFrame<Bytes<'a>>,
    bases: &'a BaseAddresses,
    left: u64,
    most_rows: usize,
}

impl Making<'_> {
    /// Pays for what an entry says and for what it shares with others; false where there is no more to pay with.
    fn pay(&mut self, entry: &Entry<'_>) -> bool {
        let bytes = (entry.entry_len() + entry.cie().entry_len()) as u64;
        let left = self.left.checked_sub(bytes + COST);
        self.left = left.unwrap_or_default();
        left.is_some()
    }

    /// Those of a table of so many bytes, with the search table of the file.
    fn entries(&mut self, base: LinkAddr, size: usize, search: Option<&[u8]>) -> Vec<Found> {
        let mut found = Vec::new();
        let mut entries = self.table.entries(self.bases);
        let mut behind = 0;
        // What stands before a damaged entry is still good.
        while found.len() < MOST_EXTENTS
            && let Ok(Some(entry)) = entries.next()
        {
            let partial = match entry {
                CieOrFde::Cie(shared) => {
                    behind = shared.offset().saturating_add(shared.entry_len());
                    continue;
                }
                CieOrFde::Fde(partial) => partial,
            };
            behind = partial.offset().saturating_add(partial.entry_len());
            let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else {
                continue;
            };
            if !self.take(&entry, base, &mut found) {
                return found;
            }
        }
        // Who looks for an address finds what stands behind it, too.
        if size.saturating_sub(behind) > END
            && let Some(search) = search
        {
            self.search(search, base, behind, &mut found);
        }
        found
    }

    /// Adds what a search table tells of that stands behind a place.
    fn search(&mut self, search: &[u8], base: LinkAddr, behind: usize, found: &mut Vec<Found>) {
        let header = EhFrameHdr::new(search, LittleEndian).parse(self.bases, ADDRESS_SIZE);
        let Some(header) = header.ok() else {
            return;
        };
        let Some(table) = header.table() else {
            return;
        };
        let mut places = table.iter(self.bases);
        while found.len() < MOST_EXTENTS
            && let Ok(Some((_, place))) = places.next()
        {
            let Some(left) = self.left.checked_sub(COST) else {
                return;
            };
            self.left = left;
            let start = self.bases.eh_frame.section.unwrap_or_default();
            let at = place.direct().ok();
            let at = at.and_then(|at| usize::try_from(at.checked_sub(start)?).ok());
            let Some(at) = at.filter(|&at| at >= behind) else {
                continue;
            };
            let parsed =
                self.table
                    .fde_from_offset(self.bases, at.into(), EhFrame::cie_from_offset);
            if let Ok(entry) = parsed
                && !self.take(&entry, base, found)
            {
                return;
            }
        }
    }

    /// Adds an entry, if it is of code that is told of; false where there is no more to pay with.
    fn take(&mut self, entry: &Entry<'_>, base: LinkAddr, found: &mut Vec<Found>) -> bool {
        if !self.pay(entry) {
            return false;
        }
        let start = entry.initial_address().checked_sub(base.0);
        let start = start.and_then(|start| u32::try_from(start).ok());
        let size = u32::try_from(entry.len()).ok();
        if let Some((start, size)) = start.zip(size)
            && size > 0
            && start.checked_add(size).is_some()
        {
            let lands = entry.lsda().is_some();
            found.push(Found {
                extent: Extent { start, size, lands },
                at: entry.offset().into(),
            });
        }
        true
    }

    fn rows(&mut self, entries: &[Found], frames: &mut Frames, wanted: impl Iterator<Item = bool>) {
        let rules = frames.rules.iter().copied();
        let mut numbers: HashMap<Rule, u32> = rules.zip(0..).collect();
        let mut context = UnwindContext::new();
        let base = frames.base.0;
        let nexts = entries.iter().skip(1).map(|next| next.extent.start);
        let entries = entries.iter().zip(nexts.chain([u32::MAX]));
        for ((found, next), is_wanted) in entries.zip(wanted) {
            if !is_wanted {
                continue;
            }
            let Extent { start, size, .. } = found.extent;
            let parsed = self
                .table
                .fde_from_offset(self.bases, found.at, EhFrame::cie_from_offset);
            let Ok(entry) = parsed else {
                continue;
            };
            if frames.rows.len() >= self.most_rows || !self.pay(&entry) {
                return;
            }
            // What a later entry describes is that one's.
            let end = start.saturating_add(size).min(next);
            let Ok(mut rows) = entry.rows(self.table, self.bases, &mut context) else {
                continue;
            };
            let mut behind = start;
            while frames.rows.len() + 1 < self.most_rows
                && behind < end
                && let Ok(Some(row)) = rows.next_row()
            {
                let offset = |address: u64| u32::try_from(address.checked_sub(base)?).ok();
                let range = offset(row.start_address()).zip(offset(row.end_address()));
                let Some((from, to)) = range.filter(|range| range.0 == behind) else {
                    break;
                };
                if from >= to {
                    continue;
                }
                let rule = rule_of(self.table, &entry, row);
                let rule = rule.map_or(UNKNOWN, |rule| {
                    number_of(rule, &mut frames.rules, &mut numbers)
                });
                frames.rows.push(Row { start: from, rule });
                behind = to;
            }
            // Of what is damaged or too much nothing is known.
            if behind < end && frames.rows.len() < self.most_rows {
                let rule = UNKNOWN;
                frames.rows.push(Row {
                    start: behind,
                    rule,
                });
            }
        }
    }
}

/// The number of a rule, which is a new one where there is room.
fn number_of(rule: Rule, rules: &mut Vec<Rule>, numbers: &mut HashMap<Rule, u32>) -> u32 {
    if let Some(&number) = numbers.get(&rule) {
        return number;
    }
    let Some(next) = u32::try_from(rules.len())
        .ok()
        .filter(|_| rules.len() < MOST_RULES)
    else {
        return UNKNOWN;
    };
    rules.push(rule);
    numbers.insert(rule, next);
    next
}

/// A row, where it is of a usual form.
fn rule_of(
    table: &EhFrame<Bytes<'_>>,
    entry: &Entry<'_>,
    row: &UnwindTableRow<usize>,
) -> Option<Rule> {
    let return_address = entry.cie().return_address_register();
    // Behind a signal there is no call.
    if entry.is_signal_trampoline() || return_address != X86_64::RA {
        return None;
    }
    let distance = |offset: i64| i32::try_from(offset).ok();
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            Frame::At(number(*register)?, distance(*offset)?)
        }
        CfaRule::Expression(expression) => frame_by(bytes(table, expression)?)?,
    };
    if row.register(X86_64::RSP).is_some() {
        return None;
    }
    let saved = |register: Register| {
        Some(match row.register(register) {
            None | Some(RegisterRule::SameValue) => Saved::Same,
            Some(RegisterRule::Offset(offset)) => Saved::At(distance(offset)?),
            Some(RegisterRule::ValOffset(offset)) => Saved::Address(distance(offset)?),
            Some(RegisterRule::Register(other)) => Saved::In(number(other)?),
            Some(RegisterRule::Expression(expression)) => {
                let (register, offset) = near(bytes(table, &expression)?)?;
                Saved::Behind(register, offset)
            }
            // It is not known there.
            Some(_) => return None,
        })
    };
    // Unwinding ends where it has no rule.
    row.register(return_address)?;
    let [a, b, c, d, e, f] = SAVED;
    Some(Rule {
        frame,
        return_address: saved(return_address)?,
        saved: [
            saved(a)?,
            saved(b)?,
            saved(c)?,
            saved(d)?,
            saved(e)?,
            saved(f)?,
        ],
    })
}

/// Of those that threads have.
fn number(register: Register) -> Option<u8> {
    let number = u8::try_from(register.0).ok()?;
    (number <= 16).then_some(number)
}

fn bytes<'a>(table: &EhFrame<Bytes<'a>>, expression: &UnwindExpression<usize>) -> Option<&'a [u8]> {
    Some(expression.get(table).ok()?.0.slice())
}

fn frame_by(expression: &[u8]) -> Option<Frame> {
    if let Some((&DEREF, expression)) = expression.split_last() {
        let (register, offset) = near(expression)?;
        return Some(Frame::Behind(register, offset));
    }
    let from = expression.get(STUB_FROM)?.checked_sub(LIT0)?;
    let mut usual = STUB;
    *usual.get_mut(STUB_FROM)? = from + LIT0;
    let offset = *expression.get(1)?;
    *usual.get_mut(1)? = offset;
    // A number in one byte, and not a negative one.
    (usual == *expression && from < 16 && offset < 0x40).then(|| Frame::Stub(offset.into(), from))
}

/// A register and a distance (`DW_OP_bregN`), by the most usual of expressions.
fn near(expression: &[u8]) -> Option<(u8, i32)> {
    let (operation, distance) = expression.split_first()?;
    let register = operation.checked_sub(BREG0).filter(|&number| number < 16)?;
    let mut rest = EndianSlice::new(distance, LittleEndian);
    let distance = gimli::Reader::read_sleb128(&mut rest).ok()?;
    (rest.is_empty()).then_some((register, i32::try_from(distance).ok()?))
}
