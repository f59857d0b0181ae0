//! One unit of debug information: read without its file table, which takes much room and is not asked for, and within
//! bounds.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gimli::{Dwarf, Reader as _, Unit as GimliUnit, UnitHeader, UnitOffset, UnitRef};

use super::abbreviations;
use super::functions::Functions;
use super::line_table::{LineTable, Marks, Row};
use super::reader::Reader;
use super::too_much::TooMuch;

/// The largest unit that is searched, in bytes. To read it all takes a few seconds.
const MOST_BYTES: u64 = 1 << 28;

/// A unit of which only its own entry can be read.
pub(super) struct Root {
    pub(super) unit: GimliUnit<Reader>,
    /// Where its line table is in the section of line tables.
    pub(super) line_table: Option<usize>,
}

impl Root {
    pub(super) fn read(dwarf: &Dwarf<Reader>, header: UnitHeader<Reader>) -> Result<Self, TooMuch> {
        let code = (header.range_from(header.root_offset()..)?).read_uleb128()?;
        let own = abbreviations::one(&dwarf.debug_abbrev, header.debug_abbrev_offset(), code)?;
        let unit = GimliUnit::new_with_abbreviations(dwarf, header, own)?;
        let mut entries = unit.entries();
        let entry = entries.next_dfs()?;
        let line_table = entry.and_then(|entry| entry.attr_value(abbreviations::LINE_TABLE));
        let line_table = line_table.and_then(|value| {
            // In DWARF 3 it is a number of four or eight bytes.
            let number = || {
                value
                    .udata_value()
                    .and_then(|offset| offset.try_into().ok())
            };
            value.offset_value().or_else(number)
        });
        Ok(Self { unit, line_table })
    }
}

/// A unit that can be read.
pub(super) struct Unit {
    pub(super) dwarf: Arc<Dwarf<Reader>>,
    pub(super) unit: GimliUnit<Reader>,
    /// Where its line table is in the section of line tables.
    pub(super) line_table: Option<usize>,
    line_marks: Mutex<Marks>,
    functions: OnceLock<Result<Functions, TooMuch>>,
    /// The unit in another file that has the rest of it.
    pub(super) split: OnceLock<Option<Box<Unit>>>,
}

impl Unit {
    pub(super) fn read(
        dwarf: &Arc<Dwarf<Reader>>,
        header: UnitHeader<Reader>,
    ) -> Result<Self, TooMuch> {
        let size = header.unit_length() as u64;
        if size > MOST_BYTES {
            let limit = MOST_BYTES;
            return Err(TooMuch::UnitSize { size, limit });
        }
        let offset = header.debug_abbrev_offset();
        let Root {
            mut unit,
            line_table,
        } = Root::read(dwarf, header)?;
        unit.abbreviations = abbreviations::whole(&dwarf.debug_abbrev, offset)?;
        Ok(Self {
            dwarf: Arc::clone(dwarf),
            unit,
            line_table,
            line_marks: Mutex::default(),
            functions: OnceLock::new(),
            split: OnceLock::new(),
        })
    }

    /// It, as the library reads it.
    pub(super) fn as_ref(&self) -> UnitRef<'_, Reader> {
        UnitRef::new(&self.dwarf, &self.unit)
    }

    /// The entry of the function at a link-time address, not of what was inlined into it.
    pub(super) fn function_at(&self, addr: u64) -> Result<Option<UnitOffset<usize>>, TooMuch> {
        let read = || Functions::read(self.as_ref());
        match self.functions.get_or_init(read) {
            Ok(functions) => functions.at(self.as_ref(), addr),
            Err(error) => Err(error.clone()),
        }
    }

    /// The row of its line table for a link-time address, and whether any row within `near` bytes of it has a column.
    pub(super) fn row_at(&self, addr: u64, near: u64) -> Result<Option<(Row, bool)>, TooMuch> {
        let Some(offset) = self.line_table else {
            return Ok(None);
        };
        let table = LineTable::open(&self.dwarf, offset, self.unit.encoding())?;
        let mut marks = self
            .line_marks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        table.row_at(addr, near, &mut marks)
    }

    /// What is kept of it in memory, about.
    pub(super) fn bytes(&self) -> usize {
        /// A table of abbreviations as compilers make it.
        const USUAL: usize = 1 << 15;
        let functions = match self.functions.get() {
            Some(Ok(functions)) => functions.bytes(),
            _ => 0,
        };
        let split = self.split.get().and_then(Option::as_ref);
        let marks = (self.line_marks.lock()).unwrap_or_else(PoisonError::into_inner);
        USUAL + functions + marks.bytes() + split.map_or(0, |unit| unit.bytes())
    }
}
