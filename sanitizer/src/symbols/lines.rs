//! Functions, files and lines from DWARF 4 and 5, with inlined calls expanded.

use std::cell::{OnceCell, RefCell};

use gimli::{Dwarf, LocationLists, SectionId, UnitOffset, UnitRef};
use serde::{Deserialize, Serialize};

use super::debug_info::{DebugInfo, Place};
use super::demangle::demangle;
use super::effort;
use super::elf_file::ElfFile;
use super::functions::{InlinedCall, inlined_at};
use super::layout::{self, Held, Named, Stopped};
use super::line_table::{LineTable, Row};
use super::reader::Reader;
use super::split_dwarf::SplitDwarf;
use super::strict;
use super::too_much::TooMuch;
use super::types::{self, FunctionResult};
use super::unit::Unit;

/// One source-level frame at an address, the innermost inlined call first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFrame {
    pub(super) function: Option<String>,
    /// The function's name was a linkage name, which says where the function belongs.
    pub(super) qualified: bool,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
    /// The line in which the function is declared.
    pub(super) declared: Option<u32>,
}

/// The line and function tables of a module.
pub(super) struct Lines {
    info: DebugInfo,
    /// Where variables are: read when first asked for.
    locations: OnceCell<LocationLists<Reader>>,
    /// The first thing that was not read since it was too much.
    given_up: RefCell<Option<TooMuch>>,
}

/// What a unit has at an address: a function, a row of its line table, or both.
struct Found<'unit> {
    /// The unit of the code, with its line table.
    unit: &'unit Unit,
    /// The unit with the functions.
    code: (Place, &'unit Unit),
    function: Option<UnitOffset<usize>>,
    row: Option<Row>,
    /// Rows near this one have columns.
    has_columns: bool,
}

/// What closures are called in Rust's old mangling, all the same, and how debug information names them.
const CLOSURE: &str = "{{closure}}";
const NUMBERED_CLOSURE: &str = "{closure#";

/// Bytes around an address whose rows tell whether a compiler writes columns at all.
const NEAR: u64 = 4096;

impl Lines {
    /// Reads the DWARF of `file`, with `supplementary` for what dwz moved out of it and
    /// `split` for what the compiler put into other files. None where it has none.
    pub(super) fn read(
        file: &ElfFile,
        supplementary: Option<&ElfFile>,
        split: Option<SplitDwarf>,
    ) -> Result<Option<Self>, TooMuch> {
        if !file.has_debug_info() {
            return Ok(None);
        }
        let mut dwarf = load(file)?;
        if let Some(supplementary) = supplementary {
            dwarf.set_sup(load(supplementary)?);
        }
        Ok(Some(Self {
            info: DebugInfo::new(dwarf, split)?,
            locations: OnceCell::new(),
            given_up: RefCell::default(),
        }))
    }

    /// What was too much to be read, if anything was.
    pub(super) fn given_up(&self) -> Option<TooMuch> {
        self.given_up.borrow().clone()
    }

    /// What is kept in memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.info.bytes()
    }

    /// An answer, with what was too much for it remembered.
    fn answer<T>(&self, answer: Result<T, TooMuch>) -> Option<T> {
        answer.map_err(|error| self.remember(error)).ok()
    }

    fn remember(&self, error: TooMuch) {
        if error != TooMuch::Damaged {
            self.given_up.borrow_mut().get_or_insert(error);
        }
    }

    /// Asks the unit that has a link-time address. Nobody is asked any more where a question took too long: each
    /// would, as a rule.
    fn ask<T>(
        &self,
        addr: u64,
        near: u64,
        ask: impl FnOnce(Found<'_>) -> Result<T, TooMuch>,
    ) -> Option<T> {
        if *self.given_up.borrow() == Some(TooMuch::Effort) {
            return None;
        }
        for unit in self.info.units_at(addr) {
            let Some(unit) = self.answer(unit) else {
                continue;
            };
            let code = self.info.code(&unit);
            let function = self.answer(code.1.function_at(addr)).flatten();
            let row = self.answer(unit.row_at(addr, near)).flatten();
            if function.is_some() || row.is_some() {
                let found = Found {
                    unit: &unit,
                    code,
                    function,
                    row: row.map(|(row, _)| row),
                    has_columns: row.is_some_and(|(_, has_columns)| has_columns),
                };
                return self.answer(ask(found));
            }
        }
        if effort::is_spent() {
            self.remember(TooMuch::Effort);
        }
        None
    }

    /// Whether the line table says that the instruction at a link-time address belongs to no one place of the
    /// source: those that optimizers have made of several have line 0, or column 0 where both stood in one line
    /// (`DILocation::getMergedLocation`). None where there is nothing about the address.
    pub(super) fn is_of_no_place(&self, addr: u64) -> Option<bool> {
        self.ask(addr, NEAR, |found| {
            Ok(found
                .row
                .map(|row| row.line == 0 || row.column == 0 && found.has_columns))
        })?
    }

    /// Where the function at a link-time address returns what.
    pub(super) fn result_at(&self, addr: u64) -> Option<FunctionResult> {
        self.in_function(addr, types::result_at)?
    }

    /// The name of the source file whose unit has the code at a link-time address, where its compiler is one of which it is known how it
    /// compiles strictly.
    pub(super) fn strict_source(&self, addr: u64) -> Option<String> {
        self.in_function(addr, strict::source)?
    }

    /// What the variables of a thread's function have at bytes. `file` is the one whose lines these are.
    pub(super) fn held_at(
        &self,
        file: &ElfFile,
        stopped: Stopped<'_>,
        bias: u64,
        bytes: (u64, u32),
    ) -> Option<Held> {
        let addr = stopped.pc.wrapping_sub(bias);
        let locations = self.locations.get_or_init(|| locations(file));
        self.in_function(addr, |unit, function| {
            layout::held_at(unit, function, locations, stopped, bias, bytes)
        })
    }

    /// What the variables of a thread's function that have or point to some bytes are called.
    pub(super) fn named_at(
        &self,
        file: &ElfFile,
        stopped: Stopped<'_>,
        (bias, cfa): (u64, Option<u64>),
        bytes: (u64, u32),
    ) -> Option<Named> {
        let addr = stopped.pc.wrapping_sub(bias);
        let locations = self.locations.get_or_init(|| locations(file));
        self.in_function(addr, |unit, function| {
            layout::named_at(unit, function, locations, stopped, (bias, cfa), bytes)
        })
    }

    /// Which member of a global variable some bytes are, by the unit of the code at a link-time address.
    pub(super) fn member_at(&self, pc: u64, bytes: (u64, u32)) -> Option<String> {
        self.in_function(pc, |unit, _| layout::member_at(unit, bytes))?
    }

    /// Asks about the function at a link-time address.
    fn in_function<T>(
        &self,
        addr: u64,
        ask: impl FnOnce(&UnitRef<'_, Reader>, Option<UnitOffset<usize>>) -> T,
    ) -> Option<T> {
        self.ask(addr, 0, |found| {
            let (_, unit) = found.code;
            Ok(ask(&unit.as_ref(), found.function))
        })
    }

    /// The frames at a link-time address; none where there is no debug information.
    pub(super) fn frames_at(&self, addr: u64) -> Vec<SourceFrame> {
        let frames = self.ask(addr, 0, |found| {
            let (place, code) = found.code;
            let calls = match found.function {
                Some(function) => inlined_at(code.as_ref(), function, addr)?,
                None => (Vec::new(), None),
            };
            if let (_, Some(error)) = &calls {
                self.remember(error.clone());
            }
            Ok(self.expand(&found, (place, code), &calls.0))
        });
        frames.unwrap_or_default()
    }

    /// A frame for each call that was inlined, from the innermost on, and one for the function.
    fn expand(
        &self,
        found: &Found<'_>,
        (place, code): (Place, &Unit),
        calls: &[InlinedCall],
    ) -> Vec<SourceFrame> {
        let table = found.unit.line_table.and_then(|offset| {
            LineTable::open(&found.unit.dwarf, offset, found.unit.unit.encoding()).ok()
        });
        let path = |file| table.as_ref()?.path(found.unit.as_ref(), file);
        let at_row = found.row.filter(|row| row.line > 0).map(|row| SourceFrame {
            file: path(row.file),
            line: Some(row.line),
            column: Some(row.column).filter(|&column| column > 0),
            ..SourceFrame::default()
        });
        // Each is called where the next inner one has it; the innermost stands at the row.
        let places = calls.iter().rev().map(|call| {
            // The compiler writes 0 where no line or column applies; the file is then that of the row before.
            call.line
                .map_or_else(SourceFrame::default, |line| SourceFrame {
                    file: call.file.and_then(path),
                    line: Some(line),
                    column: call.column,
                    ..SourceFrame::default()
                })
        });
        let places = std::iter::once(at_row.unwrap_or_default()).chain(places);
        let entries = calls.iter().rev().map(|call| Some(call.entry));
        let entries = entries.chain([found.function]);
        let named = |(place_of_call, entry): (SourceFrame, Option<UnitOffset<usize>>)| {
            let raw = entry.and_then(|entry| self.info.function_name(place, code, entry));
            let mut function = raw.as_deref().map(demangle);
            if let Some(name) = &mut function
                && let Some(before) = name.strip_suffix(CLOSURE)
                && let Some(short) =
                    entry.and_then(|entry| self.info.short_name(place, code, entry))
                && short.starts_with(NUMBERED_CLOSURE)
            {
                *name = format!("{before}{short}");
            }
            SourceFrame {
                qualified: function != raw,
                function,
                declared: entry.and_then(|entry| self.info.function_line(place, code, entry)),
                ..place_of_call
            }
        };
        places.zip(entries).map(named).collect()
    }
}

/// Whether finding functions and lines needs a section. Locations of variables and macros make up a good part of
/// the debug information: the former are read for themselves where they are asked for.
const fn is_used(section: SectionId) -> bool {
    !matches!(
        section,
        SectionId::DebugLoc
            | SectionId::DebugLocLists
            | SectionId::DebugMacinfo
            | SectionId::DebugMacro
            | SectionId::DebugNames
    )
}

fn load(file: &ElfFile) -> Result<Dwarf<Reader>, TooMuch> {
    Dwarf::load(|id: SectionId| {
        let contents = match is_used(id) {
            true => file.section_reader(id.name())?,
            false => None,
        };
        Ok(contents.unwrap_or_else(Reader::empty_one))
    })
}

/// Where variables are that are not at one place; nothing where that cannot be read.
fn locations(file: &ElfFile) -> LocationLists<Reader> {
    let section = |id: SectionId| {
        let contents = file.section_reader(id.name());
        contents.ok().flatten().unwrap_or_else(Reader::empty_one)
    };
    LocationLists::new(
        section(SectionId::DebugLoc).into(),
        section(SectionId::DebugLocLists).into(),
    )
}
