use std::sync::Arc;

use fastrand::Rng;
use gimli::{Format, constants as dw};

use super::*;
use crate::symbols::effort;
use crate::symbols::reader::Reader;

const OPCODE_BASE: u8 = 13;

/// Appends a sequence of so many rows from an address on, and says where it ends.
fn sequence(program: &mut Vec<u8>, random: &mut Rng, start: u64, rows: usize) -> u64 {
    program.extend([0, 9, dw::DW_LNE_set_address.0]);
    program.extend(start.to_le_bytes());
    let mut length = 0;
    for _ in 0..rows {
        match random.u8(..8) {
            0 => program.extend([dw::DW_LNS_set_column.0, random.u8(..80)]),
            1 => program.extend([dw::DW_LNS_set_file.0, random.u8(1..9)]),
            2 => {
                let bytes = random.u8(..100);
                length += u64::from(bytes);
                program.extend([dw::DW_LNS_advance_pc.0, bytes]);
            }
            _ => program.push(dw::DW_LNS_copy.0),
        }
        let special = random.u8(OPCODE_BASE..);
        length += u64::from((special - OPCODE_BASE) / 14);
        program.push(special);
    }
    program.extend([dw::DW_LNS_advance_pc.0, 3, 0, 1, dw::DW_LNE_end_sequence.0]);
    start + length + 3
}

fn table(program: Vec<u8>) -> LineTable {
    let bytes = |bytes: Vec<u8>| Reader::of_bytes(Arc::from(bytes));
    LineTable {
        version: 5,
        format: Format::Dwarf32,
        address_size: 8,
        step: 1,
        line_base: -3,
        line_range: 14,
        opcode_base: OPCODE_BASE,
        operands: bytes(vec![0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]),
        names: bytes(Vec::new()),
        program: bytes(program),
    }
}

/// The answer of a run through all rows.
fn by_all_rows(table: &LineTable, addr: u64, near: u64) -> Option<(Row, bool)> {
    let around = addr.saturating_sub(near)..addr.saturating_add(near);
    let (mut sequence, mut found, mut has_columns) = (Vec::<Row>::new(), None, false);
    let (mut program, mut registers) = (table.program.clone(), Row::FIRST);
    let run = table.run(&mut program, &mut registers, |row, _| {
        has_columns |= around.contains(&row.address) && row.line > 0 && row.column > 0;
        sequence.push(row);
        if row.ends_sequence {
            let has = sequence.first().is_some_and(|first| first.address > 0) && addr < row.address;
            let last = sequence.iter().rfind(|row| row.address <= addr);
            found = found.or(last.filter(|_| has).copied());
            sequence.clear();
        }
        ControlFlow::Continue(())
    });
    run.unwrap();
    found.map(|row| (row, has_columns && near > 0))
}

/// Check that marks change no answer, in whatever order is asked: sequences of all sizes in any order, some of which
/// the linker has left out, between them and in them.
#[test]
fn answers_are_those_of_all_rows() {
    let mut random = Rng::with_seed(7);
    for _ in 0..3 {
        effort::begin();
        let (mut program, mut ends) = (Vec::new(), vec![0]);
        let mut starts: Vec<u64> = (1..40).map(|at| at << 20).collect();
        random.shuffle(&mut starts);
        for start in starts {
            if random.u8(..4) == 0 {
                sequence(&mut program, &mut random, 0, 300);
            }
            let rows = random.usize(..4000);
            ends.push(sequence(&mut program, &mut random, start, rows));
        }
        assert!(program.len() > 5 * APART);
        let table = table(program);
        let mut marks = Marks::default();
        for _ in 0..60 {
            let end = ends[random.usize(..ends.len())];
            let addr = (end & !0xf_ffff) + random.u64(..(end & 0xf_ffff) + 40);
            let near = [0, 0, 4096][random.usize(..3)];
            let found = table.row_at(addr, near, &mut marks).unwrap();
            let found = found.map(|(row, has_columns)| (row, has_columns && near > 0));
            assert_eq!(found, by_all_rows(&table, addr, near), "{addr:#x}, {near}");
        }
    }
}

/// Check that a second question reads a part of a large table only, whether or not there is a row.
#[test]
fn large_tables_are_read_once() {
    effort::begin();
    let mut program = Vec::new();
    let mut random = Rng::with_seed(3);
    let end = sequence(&mut program, &mut random, 1 << 20, 500_000);
    let table = table(program);
    let mut marks = Marks::default();
    assert!(table.row_at(end, 0, &mut marks).unwrap().is_none());
    for addr in [end - 1, (1 << 20) + 5, end, end / 2 + (1 << 19)] {
        effort::leave(40 * APART as u64);
        let found = table.row_at(addr, 4096, &mut marks).unwrap();
        assert_eq!(found.is_some(), addr < end, "{addr:#x}");
        assert!(!effort::is_spent());
    }
    effort::leave(40 * APART as u64);
    let anew = table.row_at(end - 1, 0, &mut Marks::default());
    assert_eq!(anew, Err(TooMuch::Effort));
    effort::begin();
}

/// Check that a table that is damaged further behind answers for what stands before that, each time.
#[test]
fn damaged_behind() {
    effort::begin();
    let mut program = Vec::new();
    let mut random = Rng::with_seed(5);
    let end = sequence(&mut program, &mut random, 1 << 20, 30_000);
    program.extend([0, 9, dw::DW_LNE_set_address.0, 1]);
    let table = table(program);
    let mut marks = Marks::default();
    for _ in 0..3 {
        let found = table.row_at(end - 1, 4096, &mut marks).unwrap();
        assert!(found.is_some());
        assert_eq!(table.row_at(end, 0, &mut marks), Err(TooMuch::Damaged));
    }
}
