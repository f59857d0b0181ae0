//! Finds out which entries a section has. Its description leaves a choice: entries of several kinds, and instructions
//! that share the constants of one entry.
//!
//! A way to read the section is right if it ends where the section ends and its entries point at code. Sought is the one
//! with the fewest entries astray, then with the fewest constants that look like further addresses and zeros that are
//! skipped: by dynamic programming, from the section's end.

use super::description::PcEntryForm;
use super::{Code, Parsed, skip_constant};
use crate::addr::LinkAddr;
use crate::image::Encoding;
use crate::pcmeta::entry::Trouble;
use crate::pcmeta::reader::Reader;
use crate::pcmeta::text::Text;

/// Sections up to this size are searched: the search needs 4 bytes of memory for each byte, and as many
/// again for each kind of entry.
const SEARCH_LIMIT: usize = 8 << 20;
/// What an entry that points at no code costs: real leftovers of discarded functions must not be
/// taken for something else.
const ASTRAY: u32 = 8;
/// What it costs to take something for a size or a constant that is the address of code as well.
const LIKE_AN_ADDRESS: u32 = 1;
/// What a zero costs that is skipped.
const SKIPPED: u32 = 1;
const IMPOSSIBLE: u32 = u32::MAX / 4;

/// The section that is searched.
pub(super) struct Search<'a, 'data> {
    forms: &'a [PcEntryForm],
    address: LinkAddr,
    encoding: Encoding,
    reader: Reader<'data>,
    text: &'a mut Text,
}

/// What stands at a place, read as an entry of one kind.
struct Step {
    is_astray: bool,
    /// Where the constants are.
    constants: usize,
    /// Where the whole entry ends, or where it goes wrong.
    end: Result<usize, (usize, Trouble)>,
    /// How many of its size and constants could be the distance to code as well.
    doubtful: u32,
}

/// A way to read a section.
struct Way {
    entries: Vec<Parsed>,
    astray: usize,
    /// How many of them are doubtful.
    doubtful: usize,
}

impl<'a, 'data> Search<'a, 'data> {
    pub(super) fn new(
        forms: &'a [PcEntryForm],
        address: LinkAddr,
        data: &'data [u8],
        encoding: Encoding,
        text: &'a mut Text,
    ) -> Self {
        Self {
            forms,
            address,
            encoding,
            reader: Reader::new(data, 0, encoding),
            text,
        }
    }

    /// The entries of the section, each of one of the forms.
    ///
    /// # Errors
    /// Where the section does not go on as any of the forms says, or that its addresses have another width.
    pub(super) fn entries(mut self) -> Result<Vec<Parsed>, (usize, Trouble)> {
        let found = self.best();
        let astray = found.as_ref().map_or(usize::MAX, |way| way.astray);
        if astray == 0 || self.encoding.is_32_bit {
            return found.map(|way| way.entries);
        }
        // Nothing in the name or the file tells the width, so it is easily forgotten.
        let is_wide = self.forms.iter().all(|form| form.pointer_sized);
        if !is_wide && self.forms.iter().any(|form| form.pointer_sized) {
            return found.map(|way| way.entries);
        }
        let mut others = self.forms.to_vec();
        others
            .iter_mut()
            .for_each(|form| form.pointer_sized = !is_wide);
        let mut other = Search {
            forms: &others,
            text: self.text,
            ..self
        };
        match other.best() {
            Ok(way) if way.astray == 0 && !way.entries.is_empty() => Err((
                0,
                match is_wide {
                    true => "its addresses have four bytes, and it is described with pc64",
                    false => "its addresses have eight bytes, and it is described without pc64",
                },
            )),
            _ => found.map(|way| way.entries),
        }
    }

    fn best(&mut self) -> Result<Way, (usize, Trouble)> {
        // The usual case first: all entries are of one kind, and each has constants of its own.
        let mut best: Option<Way> = None;
        let mut trouble = (0, "no entry fits");
        for form in 0..self.forms.len() {
            match self.in_a_row(form) {
                Ok(way) => {
                    if best.as_ref().is_none_or(|best| way.astray < best.astray) {
                        best = Some(way);
                    }
                }
                Err(found) => trouble = trouble.max(found),
            }
        }
        let has_choice = self.forms.len() > 1
            || (self.forms.iter().any(PcEntryForm::is_shared)
                && (best.as_ref()).is_none_or(|way| way.astray + way.doubtful > 0));
        if has_choice
            && let Some(way) = self.search()
            && best.as_ref().is_none_or(|best| way.astray <= best.astray)
        {
            return Ok(way);
        }
        best.ok_or(trouble)
    }

    /// The entries of the section where all are of one form and share nothing.
    fn in_a_row(&mut self, form: usize) -> Result<Way, (usize, Trouble)> {
        let mut way = Way {
            entries: Vec::new(),
            astray: 0,
            doubtful: 0,
        };
        let mut at = 0;
        let len = self.reader.remaining();
        while at < len {
            let step = self.step(form, at)?;
            let Some(step) = step else {
                // Padding.
                at = self.padding_end(form, at);
                continue;
            };
            way.astray += usize::from(step.is_astray);
            way.doubtful += step.doubtful as usize;
            way.entries.push(parsed(form, at, step.constants));
            at = step.end?;
        }
        Ok(way)
    }

    fn padding_end(&self, form: usize, at: usize) -> usize {
        let form = self.forms.get(form);
        let width = form.map_or(1, |form| form.distance_size(self.encoding));
        (at + width).min(self.reader.remaining())
    }

    /// The cheapest way to read the section; none where no way ends where it ends.
    fn search(&mut self) -> Option<Way> {
        let len = self.reader.remaining();
        if len > SEARCH_LIMIT {
            return None;
        }
        // What it costs to read from a place to the end: whatever begins there, and going on with
        // an entry of one kind.
        let mut costs = vec![IMPOSSIBLE; len + 1];
        let mut within: Vec<Vec<u32>> = self.forms.iter().map(|_| costs.clone()).collect();
        *costs.last_mut()? = 0;
        for at in (0..len).rev() {
            let skipped = self.skip(at).map(|next| cost_at(&costs, next) + SKIPPED);
            let mut least = skipped.unwrap_or(IMPOSSIBLE);
            for index in 0..self.forms.len() {
                let Ok(Some(step)) = self.step(index, at) else {
                    continue;
                };
                let form = within.get_mut(index)?;
                let shared = match self.forms.get(index)?.is_shared() {
                    true => cost_at(form, step.constants),
                    false => IMPOSSIBLE,
                };
                let cost = step.cost() + step.own_cost(&costs).min(shared);
                let cost = cost.min(IMPOSSIBLE);
                *form.get_mut(at)? = cost;
                least = least.min(cost);
            }
            *costs.get_mut(at)? = least;
        }
        self.trace(&costs, &within)
    }

    /// Follows the cheapest way from the start.
    fn trace(&mut self, costs: &[u32], within: &[Vec<u32>]) -> Option<Way> {
        if cost_at(costs, 0) >= IMPOSSIBLE {
            return None;
        }
        let mut way = Way {
            entries: Vec::new(),
            astray: 0,
            doubtful: 0,
        };
        let mut at = 0;
        // How many entries wait for the constants that they share, and their form.
        let (mut waiting, mut going_on) = (0, None);
        while at + 1 < costs.len() {
            let is_cheapest = |form: usize| {
                let cost = within.get(form).map(|form| cost_at(form, at));
                cost == Some(cost_at(costs, at))
            };
            let form = going_on.or_else(|| (0..within.len()).find(|&form| is_cheapest(form)));
            let Some(form) = form else {
                at = self.skip(at)?;
                continue;
            };
            let step = self.step(form, at).ok()??;
            way.astray += usize::from(step.is_astray);
            way.entries.push(parsed(form, at, step.constants));
            let cost = cost_at(within.get(form)?, at);
            if step.cost() + step.own_cost(costs) == cost {
                // Those that wait have the constants of this one.
                let first = way.entries.len() - 1 - waiting;
                for entry in way.entries.get_mut(first..)? {
                    entry.constants = u32::try_from(step.constants).ok()?;
                }
                (waiting, going_on, at) = (0, None, step.end.ok()?);
            } else {
                (waiting, going_on, at) = (waiting + 1, Some(form), step.constants);
            }
        }
        Some(way)
    }

    /// What stands at a place, read as an entry of this form; nothing for padding.
    fn step(&mut self, form: usize, at: usize) -> Result<Option<Step>, (usize, Trouble)> {
        let Some(form) = self.forms.get(form) else {
            return Ok(None);
        };
        let mut reader = self.reader.at_offset(at);
        let code = Code::read(form, self.address, self.encoding, &mut reader)
            .map_err(|what| (reader.at(), what))?;
        let Some(code) = code else { return Ok(None) };
        let constants = reader.at();
        let mut doubtful = 0;
        if form.has_size {
            doubtful += u32::from(self.is_address(at + form.distance_size(self.encoding)));
        }
        let mut end = Ok(());
        for &constant in &form.constants {
            doubtful += u32::from(self.is_address(reader.at()));
            end = skip_constant(form, constant, &mut reader);
            if end.is_err() {
                break;
            }
        }
        let end = match end {
            Ok(()) => Ok(reader.at()),
            Err(what) => Err((reader.at(), what)),
        };
        Ok(Some(Step {
            is_astray: code.offset(self.text).is_none(),
            constants,
            end,
            doubtful,
        }))
    }

    /// Whether an address of code stands here, of any of the forms.
    fn is_address(&mut self, at: usize) -> bool {
        let reader = self.reader.at_offset(at);
        let widths = self.forms.iter().map(|form| form.pointer_sized);
        let is_wide = widths.clone().any(|is_wide| is_wide);
        let is_narrow = widths.into_iter().any(|is_wide| !is_wide);
        [(is_narrow, false), (is_wide, true)]
            .into_iter()
            .any(|(is_there, pointer_sized)| {
                let form = PcEntryForm {
                    pointer_sized,
                    ..PcEntryForm::default()
                };
                let code = Code::read(&form, self.address, self.encoding, &mut { reader });
                is_there && matches!(code, Ok(Some(code)) if code.offset(self.text).is_some())
            })
    }

    /// The place behind the zero byte that is here.
    fn skip(&self, at: usize) -> Option<usize> {
        let mut reader = self.reader.at_offset(at);
        (reader.u8() == Ok(0)).then_some(at + 1)
    }
}

impl Step {
    /// What its address costs.
    fn cost(&self) -> u32 {
        if self.is_astray { ASTRAY } else { 0 }
    }

    /// What the rest costs if it has constants of its own.
    fn own_cost(&self, costs: &[u32]) -> u32 {
        let end = (self.end).map_or(IMPOSSIBLE, |end| cost_at(costs, end));
        end + self
            .doubtful
            .saturating_mul(LIKE_AN_ADDRESS)
            .min(IMPOSSIBLE)
    }
}

fn parsed(form: usize, at: usize, constants: usize) -> Parsed {
    // Sections have at most 4 GiB, and descriptions few forms.
    Parsed {
        at: at as u32,
        constants: constants as u32,
        form: form as u8,
    }
}

fn cost_at(costs: &[u32], at: usize) -> u32 {
    costs.get(at).copied().unwrap_or(IMPOSSIBLE)
}
