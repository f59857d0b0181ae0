//! Finds out how a section is laid out where its name does not tell, or where linking left
//! more in it than one run of entries of one layout.
//!
//! A layout is right if its entries end where the section ends and point at code. Entries read
//! in a wrong layout go astray within one or two entries, so the layouts that leave the fewest
//! entries astray are the right ones.

use super::entry::{Entry, Trouble, atomic_as, covered_as};
use super::format::{Features, Format, SectionKind};
use super::text::Text;
use crate::addr::LinkAddr;
use crate::image::Encoding;

/// Sections up to this size are searched for changes of layout: the search needs up to 20
/// bytes of memory for each byte.
const SEARCH_LIMIT: usize = 8 << 20;
/// What an entry that points at no code costs the search, in changes of layout: real leftovers
/// of discarded functions must not be taken for a change.
const ASTRAY_COST: u32 = 8;
const IMPOSSIBLE: u32 = u32::MAX / 4;

/// A run of bytes in one layout, or (without one) zeros that a linker put in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) format: Option<Format>,
}

/// One metadata section, ready to be decoded.
pub(super) struct Bytes<'data> {
    pub(super) kind: SectionKind,
    pub(super) address: LinkAddr,
    pub(super) data: &'data [u8],
    pub(super) encoding: Encoding,
}

impl Bytes<'_> {
    pub(super) fn entry(&self, format: Format, at: usize) -> Result<Entry, Trouble> {
        match self.kind {
            SectionKind::Covered => covered_as(format, self.encoding, self.data, at),
            SectionKind::Atomics => atomic_as(format, self.encoding, self.data, at),
        }
    }

    fn is_plausible(&self, text: &mut Text, at: usize, entry: &Entry) -> bool {
        if entry.offset == 0 {
            return true;
        }
        let target = self.target(at, entry);
        entry.features <= Features::KNOWN
            && (text.offset_of(target, entry.size).is_some()
                || (self.kind == SectionKind::Covered && entry.size == 0 && text.has_edge(target)))
    }

    /// The code that the entry at `at` points to.
    #[inline]
    pub(super) fn target(&self, at: usize, entry: &Entry) -> LinkAddr {
        LinkAddr((self.address.0.wrapping_add(at as u64)).wrapping_add_signed(entry.offset))
    }

    /// How the section is laid out, given the layouts that are possible, of which the first is the one that its
    /// name tells where `is_numbered`.
    ///
    /// # Errors
    /// Where the entries of the likeliest layout end in trouble, and which.
    pub(super) fn runs(
        &self,
        text: &mut Text,
        formats: &[Format],
        is_numbered: bool,
    ) -> Result<Vec<Run>, (usize, Trouble)> {
        let (Some(named), true) = (formats.get(..1), is_numbered) else {
            return self.likeliest(text, formats);
        };
        // Leftovers of discarded code must not make another layout of what the name tells: that has to be right
        // from the start to the end.
        for &format in formats {
            if self.astray(text, format) == Ok(0) {
                return Ok(vec![self.whole(format)]);
            }
        }
        self.likeliest(text, named)
            .or_else(|trouble| self.likeliest(text, formats).map_err(|_| trouble))
    }

    fn likeliest(&self, text: &mut Text, formats: &[Format]) -> Result<Vec<Run>, (usize, Trouble)> {
        let mut best: Option<(usize, Format)> = None;
        // Of several layouts that fail, the one that got furthest explains the failure best.
        let mut trouble = (0, "no known layout fits");
        for &format in formats {
            match self.astray(text, format) {
                Ok(0) => return Ok(vec![self.whole(format)]),
                Ok(astray) => {
                    if best.is_none_or(|(least, _)| astray < least) {
                        best = Some((astray, format));
                    }
                }
                Err(found) => trouble = trouble.max(found),
            }
        }
        if let Some((astray, runs)) = self.search(text, formats)
            && best.is_none_or(|(least, _)| astray < least)
        {
            return Ok(runs);
        }
        best.map(|(_, format)| vec![self.whole(format)])
            .ok_or(trouble)
    }

    fn whole(&self, format: Format) -> Run {
        Run {
            start: 0,
            end: self.data.len(),
            format: Some(format),
        }
    }

    /// How many entries point at no code, if all of the section is in this layout.
    fn astray(&self, text: &mut Text, format: Format) -> Result<usize, (usize, Trouble)> {
        let mut at = 0;
        let mut astray = 0;
        while at < self.data.len() {
            let entry = self.entry(format, at).map_err(|what| (at, what))?;
            astray += usize::from(!self.is_plausible(text, at, &entry));
            at = entry.next;
        }
        Ok(astray)
    }

    /// The division of the section into layouts that has the fewest entries astray and then
    /// the fewest changes, by dynamic programming from the section's end; and how many astray.
    fn search(&self, text: &mut Text, formats: &[Format]) -> Option<(usize, Vec<Run>)> {
        let len = self.data.len();
        let width = formats.len();
        if len > SEARCH_LIMIT || width == 0 {
            return None;
        }
        // What it costs to decode from a position to the end, starting in each layout; and the
        // least of them.
        let mut costs = vec![IMPOSSIBLE; (len + 1) * width];
        let mut least = vec![IMPOSSIBLE; len + 1];
        let (last, rest) = (costs.get_mut(len * width..)?, least.get_mut(len)?);
        last.fill(0);
        *rest = 0;
        for at in (0..len).rev() {
            let mut minimum = IMPOSSIBLE;
            for (column, &format) in formats.iter().enumerate() {
                let cost = self
                    .step(text, format, at)
                    .map(|(next, cost)| {
                        costs
                            .get(next * width + column)
                            .map_or(IMPOSSIBLE, |c| c + cost)
                    })
                    .into_iter()
                    .chain(
                        self.skip(at)
                            .and_then(|next| Some(costs.get(next * width + column)? + 1)),
                    )
                    .fold(IMPOSSIBLE, u32::min);
                *costs.get_mut(at * width + column)? = cost;
                minimum = minimum.min(cost);
            }
            for cost in costs.get_mut(at * width..(at + 1) * width)? {
                *cost = (*cost).min(minimum + 1);
            }
            *least.get_mut(at)? = minimum;
        }
        self.trace(text, formats, &costs, &least)
    }

    /// Follows the cheapest way through the table that [`Bytes::search`] made.
    fn trace(
        &self,
        text: &mut Text,
        formats: &[Format],
        costs: &[u32],
        least: &[u32],
    ) -> Option<(usize, Vec<Run>)> {
        let width = formats.len();
        let cost_at = |at: usize, column: usize| costs.get(at * width + column).copied();
        if *least.first()? >= IMPOSSIBLE {
            return None;
        }
        let mut runs: Vec<Run> = Vec::new();
        let (mut at, mut astray, mut column) = (0, 0, 0);
        while at < self.data.len() {
            let cost = cost_at(at, column)?;
            let &format = formats.get(column)?;
            let step = self.step(text, format, at);
            let (next, format) = match (step, self.skip(at)) {
                (Some((next, more)), _) if cost_at(next, column)? + more == cost => {
                    astray += usize::from(more == ASTRAY_COST);
                    (next, Some(format))
                }
                (_, Some(next)) if cost_at(next, column)? + 1 == cost => (next, None),
                _ => {
                    // A change of layout, to the one that is cheapest from here. The cheapest
                    // itself needs no change, so this cannot go in circles.
                    let cheaper = (0..width).find(|&other| {
                        other != column && cost_at(at, other) == least.get(at).copied()
                    })?;
                    if Some(cost) == least.get(at).copied() {
                        return None;
                    }
                    column = cheaper;
                    continue;
                }
            };
            match runs.last_mut() {
                Some(run) if run.format == format => run.end = next,
                _ => runs.push(Run {
                    start: at,
                    end: next,
                    format,
                }),
            }
            at = next;
        }
        Some((astray, runs))
    }

    fn step(&self, text: &mut Text, format: Format, at: usize) -> Option<(usize, u32)> {
        let entry = self.entry(format, at).ok()?;
        let plausible = self.is_plausible(text, at, &entry);
        Some((entry.next, if plausible { 0 } else { ASTRAY_COST }))
    }

    fn skip(&self, at: usize) -> Option<usize> {
        (self.data.get(at) == Some(&0)).then_some(at + 1)
    }
}
