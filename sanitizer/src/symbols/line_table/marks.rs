//! Marks along the program of a line table: what its registers were at some places of it, and which addresses the
//! rows behind each have. The table of a large unit has megabytes, and is asked for each frame of each stack.

use std::mem::size_of;
use std::ops::{ControlFlow, Range};

use gimli::Reader as _;

use super::{LineTable, Row};
use crate::symbols::too_much::TooMuch;

/// Bytes of the program from one mark to the next.
const APART: usize = 1 << 14;

/// The part of a program that has been run, with marks; a question runs the rest of it as far as it has to.
#[derive(Debug)]
pub(in crate::symbols) struct Marks {
    parts: Vec<Part>,
    next: Position,
}

/// Some bytes of a program.
#[derive(Debug)]
struct Part {
    begin: Position,
    end: usize,
    /// The lowest and the highest address of its rows, and of the row before them.
    addresses: (u64, u64),
}

/// A place in a program, between two opcodes.
#[derive(Clone, Copy, Debug)]
struct Position {
    /// Bytes of the program before it.
    offset: usize,
    registers: Row,
    sequence: Sequence,
}

/// What has been run of a sequence of rows: the address where it begins, and its last row.
type Sequence = Option<(u64, Row)>;

impl Default for Marks {
    fn default() -> Self {
        let next = Position {
            offset: 0,
            registers: Row::FIRST,
            sequence: None,
        };
        Self {
            parts: Vec::new(),
            next,
        }
    }
}

impl Marks {
    /// What they take in memory.
    pub(in crate::symbols) const fn bytes(&self) -> usize {
        self.parts.capacity() * size_of::<Part>()
    }
}

impl Part {
    const fn new(begin: Position) -> Self {
        let addresses = match begin.sequence {
            Some((_, row)) => (row.address, row.address),
            None => (u64::MAX, 0),
        };
        Self {
            begin,
            end: begin.offset,
            addresses,
        }
    }

    fn take_in(&mut self, address: u64) {
        let (lowest, highest) = self.addresses;
        self.addresses = (lowest.min(address), highest.max(address));
    }

    const fn is_near(&self, around: &Range<u64>, addr: u64) -> bool {
        let (lowest, highest) = self.addresses;
        lowest <= addr && addr <= highest || lowest < around.end && around.start <= highest
    }
}

/// The search for a row.
struct Search {
    addr: u64,
    /// Addresses whose rows tell whether there are columns.
    around: Range<u64>,
    has_columns: bool,
    found: Option<Row>,
}

impl Search {
    /// Takes in the next row of a sequence.
    fn see(&mut self, sequence: &mut Sequence, row: Row) {
        self.has_columns |= self.around.contains(&row.address) && row.line > 0 && row.column > 0;
        // No code is at address 0: there are the functions that the linker left out.
        if let Some((start @ 1.., last)) = *sequence
            && start <= self.addr
            && (last.address..row.address).contains(&self.addr)
        {
            self.found = self.found.or(Some(last));
        }
        let start = sequence.map_or(row.address, |(start, _)| start);
        *sequence = (!row.ends_sequence).then_some((start, row));
    }

    const fn is_over(&self) -> bool {
        self.found.is_some() && self.around.start == self.around.end
    }
}

impl LineTable {
    /// The row of a link-time address, and whether any row within `near` bytes of it has a column.
    pub(in crate::symbols) fn row_at(
        &self,
        addr: u64,
        near: u64,
        marks: &mut Marks,
    ) -> Result<Option<(Row, bool)>, TooMuch> {
        let mut search = Search {
            addr,
            around: addr.saturating_sub(near)..addr.saturating_add(near),
            has_columns: false,
            found: None,
        };
        for part in &marks.parts {
            if search.is_over() {
                break;
            }
            if part.is_near(&search.around, addr) {
                self.search_again(&mut search, part)?;
            }
        }
        let run = match search.is_over() {
            true => Ok(()),
            false => self.search_on(&mut search, marks),
        };
        match (search.found, run) {
            // A table that is damaged further behind.
            (Some(row), Ok(()) | Err(TooMuch::Damaged)) => Ok(Some((row, search.has_columns))),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => Ok(None),
        }
    }

    /// Searches a part that has been run before.
    fn search_again(&self, search: &mut Search, part: &Part) -> gimli::Result<()> {
        let Position {
            offset,
            mut registers,
            mut sequence,
        } = part.begin;
        let mut program = self.program.behind(offset);
        let whole = self.program.len();
        self.run(&mut program, &mut registers, |row, rest| {
            search.see(&mut sequence, row);
            match search.is_over() || whole - rest >= part.end {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    }

    /// Searches what has not been run yet, and sets marks there.
    fn search_on(&self, search: &mut Search, marks: &mut Marks) -> Result<(), TooMuch> {
        let whole = self.program.len();
        while !search.is_over() && marks.next.offset < whole {
            let mut program = self.program.behind(marks.next.offset);
            let mut position = marks.next;
            let mut part = Part::new(position);
            self.run(&mut program, &mut position.registers, |row, rest| {
                part.take_in(row.address);
                search.see(&mut position.sequence, row);
                match search.is_over() || whole - rest - part.begin.offset >= APART {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
            position.offset = whole - program.len();
            part.end = position.offset;
            marks.parts.push(part);
            marks.next = position;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
