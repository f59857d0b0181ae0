//! Tables are made of sections, entry by entry.

use std::ops::Range;

use super::entry::{Entry, Trouble};
use super::function_table::{Functions, Unpacked};
use super::layout::{Bytes, Run};
use super::stack_args::StackArgs;
use super::text::Text;
use super::{Features, Format, SectionKind, SectionSummary, atomicity, entry};

/// The tables while sections are still being read.
#[derive(Default)]
pub(super) struct Builder {
    /// Whether the name of the section that is being read has its version.
    pub(super) section_is_numbered: bool,
    pub(super) functions: Functions,
    pub(super) atomics: Vec<u32>,
    pub(super) stack_args: StackArgs,
}

/// How many entries a run had, how many of them point at no code, and how many at none of their own.
#[derive(Default)]
struct Count {
    entries: usize,
    discarded: usize,
    empty: usize,
}

impl Builder {
    pub(super) fn add_section(
        &mut self,
        bytes: &Bytes<'_>,
        text: &mut Text,
        formats: &[Format],
        summary: &mut SectionSummary,
    ) -> Result<(), (usize, Trouble)> {
        // The usual case first: the name gives the layout, and every entry points at code.
        if let (true, Some(&format)) = (self.section_is_numbered, formats.first()) {
            let (functions, atomics) = (self.functions.len(), self.atomics.len());
            let stack_args = self.stack_args.len();
            let whole = 0..bytes.data.len();
            if let Ok(count) = self.add_run(bytes, text, format, whole)
                && count.discarded == 0
            {
                summary.formats.push(format);
                summary.entries = count.entries;
                summary.empty = count.empty;
                return Ok(());
            }
            self.functions.truncate(functions);
            self.atomics.truncate(atomics);
            self.stack_args.truncate(stack_args);
        }
        for Run { start, end, format } in bytes.runs(text, formats, self.section_is_numbered)? {
            let Some(format) = format else { continue };
            let count = self.add_run(bytes, text, format, start..end)?;
            if !summary.formats.contains(&format) {
                summary.formats.push(format);
            }
            summary.entries += count.entries;
            summary.discarded += count.discarded;
            summary.empty += count.empty;
        }
        if summary.entries > 0 && summary.discarded == summary.entries {
            return Err((0, "no entry points at code of this file"));
        }
        Ok(())
    }

    fn add_run(
        &mut self,
        bytes: &Bytes<'_>,
        text: &mut Text,
        format: Format,
        range: Range<usize>,
    ) -> Result<Count, (usize, Trouble)> {
        match bytes.encoding.is_big_endian {
            true => self.add_run_in_order::<true>(bytes, text, format, range),
            false => self.add_run_in_order::<false>(bytes, text, format, range),
        }
    }

    fn add_run_in_order<const BIG: bool>(
        &mut self,
        bytes: &Bytes<'_>,
        text: &mut Text,
        format: Format,
        range: Range<usize>,
    ) -> Result<Count, (usize, Trouble)> {
        let is_wide = format.offset_size(bytes.encoding) == 8;
        match (bytes.kind, format.version, is_wide) {
            (SectionKind::Covered, 1, false) => {
                self.add_functions(bytes, text, format, range, entry::covered::<1, false, BIG>)
            }
            (SectionKind::Covered, 1, true) => {
                self.add_functions(bytes, text, format, range, entry::covered::<1, true, BIG>)
            }
            (SectionKind::Covered, _, false) => {
                self.add_functions(bytes, text, format, range, entry::covered::<2, false, BIG>)
            }
            (SectionKind::Covered, _, true) => {
                self.add_functions(bytes, text, format, range, entry::covered::<2, true, BIG>)
            }
            (SectionKind::Atomics, _, false) => {
                self.add_atomics(bytes, text, format, range, entry::atomic::<false, BIG>)
            }
            (SectionKind::Atomics, _, true) => {
                self.add_atomics(bytes, text, format, range, entry::atomic::<true, BIG>)
            }
        }
    }

    /// Generic over the decoder, so that each layout gets a loop of its own.
    #[inline]
    fn add_functions(
        &mut self,
        bytes: &Bytes<'_>,
        text: &mut Text,
        format: Format,
        range: Range<usize>,
        decode: impl Fn(&[u8], usize) -> Result<Entry, Trouble>,
    ) -> Result<Count, (usize, Trouble)> {
        let mut count = Count::default();
        let data = bytes.data.get(..range.end).unwrap_or_default();
        let loses_small_loads =
            atomicity::loses_small_loads(format.version, self.section_is_numbered);
        // An entry is an offset, a size and a mask, of at least a byte each.
        self.functions
            .reserve(range.len() / (format.offset_size(bytes.encoding) + 2));
        let mut at = range.start;
        while at < range.end {
            let entry = decode(data, at).map_err(|what| (at, what))?;
            if entry.offset != 0 {
                count.entries += 1;
                let target = bytes.target(at, &entry);
                let start = text.offset_of(target, entry.size);
                match (start, u32::try_from(entry.size)) {
                    // A function without instructions cannot be asked for.
                    (_, Ok(0)) if text.has_edge(target) => count.empty += 1,
                    (Some(start), Ok(size)) => {
                        self.functions.push(Unpacked {
                            start,
                            size,
                            features: Features(entry.features as u8),
                            version: format.version,
                            loses_small_loads,
                        });
                        if let Some(stack_args) = entry.stack_args {
                            self.stack_args.push(start, stack_args);
                        }
                    }
                    _ => count.discarded += 1,
                }
            }
            at = entry.next;
        }
        Ok(count)
    }

    #[inline]
    fn add_atomics(
        &mut self,
        bytes: &Bytes<'_>,
        text: &mut Text,
        format: Format,
        range: Range<usize>,
        decode: impl Fn(&[u8], usize) -> Result<Entry, Trouble>,
    ) -> Result<Count, (usize, Trouble)> {
        let mut count = Count::default();
        let data = bytes.data.get(..range.end).unwrap_or_default();
        self.atomics
            .reserve(range.len() / format.offset_size(bytes.encoding));
        let mut at = range.start;
        while at < range.end {
            let entry = decode(data, at).map_err(|what| (at, what))?;
            if entry.offset != 0 {
                count.entries += 1;
                match text.offset_of(bytes.target(at, &entry), 0) {
                    Some(offset) => self.atomics.push(offset),
                    None => count.discarded += 1,
                }
            }
            at = entry.next;
        }
        Ok(count)
    }
}
