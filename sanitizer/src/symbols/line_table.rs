//! Line tables (DWARF 5, 6.2), read row by row: a program of a few bytes makes millions of rows, and one of them is
//! wanted.

mod marks;
mod names;

use std::ops::{ControlFlow, Range};

use gimli::{Dwarf, Encoding, Error, Format, Reader as _, Section as _, UnitRef, constants as dw};

use super::reader::Reader;
use super::text;
use super::too_much::TooMuch;

pub(super) use marks::Marks;

/// Registers of the state machine as a row shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Link-time address.
    address: u64,
    pub(super) file: u64,
    /// 0 where it belongs to no line.
    pub(super) line: u32,
    /// 0 where it belongs to no column, or to all.
    pub(super) column: u32,
    ends_sequence: bool,
}

impl Row {
    const FIRST: Self = Self {
        address: 0,
        file: 1,
        line: 1,
        column: 0,
        ends_sequence: false,
    };
}

/// The program of a unit's line table.
pub(super) struct LineTable {
    version: u16,
    format: Format,
    address_size: u8,
    /// Bytes of the smallest instruction.
    step: u64,
    line_base: i8,
    line_range: u8,
    opcode_base: u8,
    /// How many operands each standard opcode has.
    operands: Reader,
    /// The tables of directories and files.
    names: Reader,
    program: Reader,
}

impl LineTable {
    /// Reads the header of the table at an offset of the section.
    pub(super) fn open(
        dwarf: &Dwarf<Reader>,
        offset: usize,
        encoding: Encoding,
    ) -> Result<Self, TooMuch> {
        let mut rest = dwarf.debug_line.reader().behind(offset);
        let (length, format) = rest.read_initial_length()?;
        let mut rest = rest.split(length)?;
        let version = rest.read_u16()?;
        if !(2..=5).contains(&version) {
            return Err(TooMuch::Damaged);
        }
        let mut address_size = encoding.address_size;
        if version >= 5 {
            address_size = rest.read_address_size()?;
            let _selector_size = rest.read_u8()?;
        }
        let header_length = rest.read_length(format)?;
        let mut header = rest.split(header_length)?;
        let step = u64::from(header.read_u8()?);
        if version >= 4 {
            // More than one operation an instruction: no machine that we know.
            let _most_operations = header.read_u8()?;
        }
        let (_is_statement, line_base) = (header.read_u8()?, header.read_i8()?);
        let (line_range, opcode_base) = (header.read_u8()?, header.read_u8()?);
        if line_range == 0 || opcode_base == 0 {
            return Err(TooMuch::Damaged);
        }
        let operands = header.split(usize::from(opcode_base - 1))?;
        Ok(Self {
            version,
            format,
            address_size,
            step,
            line_base,
            line_range,
            opcode_base,
            operands,
            names: header,
            program: rest,
        })
    }

    /// Makes the rows of the rest of a program, one after the other, until `take` has enough of them; it is told how many
    /// bytes are left. May be called again with what is then left, and in the registers.
    fn run(
        &self,
        program: &mut Reader,
        row: &mut Row,
        mut take: impl FnMut(Row, usize) -> ControlFlow<()>,
    ) -> gimli::Result<()> {
        while !program.is_empty() {
            let opcode = program.read_u8()?;
            if let Some(special) = opcode.checked_sub(self.opcode_base) {
                self.advance_special(row, special);
                if take(*row, program.len()).is_break() {
                    break;
                }
                continue;
            }
            match dw::DwLns(opcode) {
                dw::DwLns(0) => {
                    if let Some(ControlFlow::Break(())) =
                        self.run_extended(program, row, &mut take)?
                    {
                        break;
                    }
                }
                dw::DW_LNS_copy => {
                    if take(*row, program.len()).is_break() {
                        break;
                    }
                }
                dw::DW_LNS_advance_pc => {
                    let steps = program.read_uleb128()?;
                    row.address = row.address.wrapping_add(steps.wrapping_mul(self.step));
                }
                dw::DW_LNS_advance_line => {
                    let lines = program.read_sleb128()?;
                    row.line = row.line.wrapping_add(lines as u32);
                }
                dw::DW_LNS_set_file => row.file = program.read_uleb128()?,
                dw::DW_LNS_set_column => row.column = program.read_uleb128()? as u32,
                dw::DW_LNS_const_add_pc => {
                    let steps = (u8::MAX - self.opcode_base) / self.line_range;
                    self.advance(row, steps);
                }
                dw::DW_LNS_fixed_advance_pc => {
                    row.address = row.address.wrapping_add(program.read_u16()?.into());
                }
                dw::DW_LNS_negate_stmt
                | dw::DW_LNS_set_basic_block
                | dw::DW_LNS_set_prologue_end
                | dw::DW_LNS_set_epilogue_begin => {}
                dw::DW_LNS_set_isa => program.skip_leb128()?,
                _ => {
                    let operands = self.operands.behind(usize::from(opcode) - 1);
                    for _ in 0..operands.clone().read_u8()? {
                        program.skip_leb128()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs an opcode of the extended kind; what `take` says, where there was a row for it.
    fn run_extended(
        &self,
        program: &mut Reader,
        row: &mut Row,
        take: &mut impl FnMut(Row, usize) -> ControlFlow<()>,
    ) -> gimli::Result<Option<ControlFlow<()>>> {
        let length = program.read_uleb128()?;
        let length = usize::try_from(length).map_err(|_| Error::UnsupportedOffset)?;
        let mut operation = program.split(length)?;
        if operation.is_empty() {
            return Ok(None);
        }
        match dw::DwLne(operation.read_u8()?) {
            dw::DW_LNE_end_sequence => {
                row.ends_sequence = true;
                let taken = take(*row, program.len());
                *row = Row::FIRST;
                Ok(Some(taken))
            }
            dw::DW_LNE_set_address => {
                row.address = operation.read_address(self.address_size)?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn advance_special(&self, row: &mut Row, special: u8) {
        self.advance(row, special / self.line_range);
        let lines = i16::from(self.line_base) + i16::from(special % self.line_range);
        row.line = row.line.wrapping_add_signed(lines.into());
    }

    fn advance(&self, row: &mut Row, steps: u8) {
        let bytes = u64::from(steps).wrapping_mul(self.step);
        row.address = row.address.wrapping_add(bytes);
    }

    /// Gives the addresses of each sequence of rows, of at most `most` of them.
    pub(super) fn sequences(
        &self,
        mut give: impl FnMut(Range<u64>),
        most: usize,
    ) -> Result<(), TooMuch> {
        let (mut start, mut given) = (None, 0);
        let (mut program, mut registers) = (self.program.clone(), Row::FIRST);
        self.run(&mut program, &mut registers, |row, _| {
            if !row.ends_sequence {
                start.get_or_insert(row.address);
            } else if let Some(start) = start.take().filter(|&start| start < row.address) {
                give(start..row.address);
                given += 1;
            }
            match given < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(())
    }

    /// The path of a file of the table.
    pub(super) fn path(&self, unit: UnitRef<'_, Reader>, file: u64) -> Option<String> {
        let mut path = unit.comp_dir.as_ref().and_then(text::of);
        let (name, directory) = match self.version {
            0..5 if file == 0 => (unit.name.as_ref().and_then(text::of)?, None),
            0..5 => self.old_names(file)?,
            _ => self.new_names(unit, file)?,
        };
        for part in [directory, Some(name)].into_iter().flatten() {
            match &mut path {
                Some(path) if !part.starts_with('/') => {
                    if !path.is_empty() && !path.ends_with('/') {
                        path.push('/');
                    }
                    path.push_str(&part);
                }
                _ => path = Some(part),
            }
        }
        path.map(text::cut)
    }
}
