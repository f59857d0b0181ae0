//! Writes an ELF file with the tables of a very large program, for `cargo xtask bench inspect`:
//! 2,000,000 functions that are covered and analyzed, each with five basic blocks and a symbol; 200,000 atomic
//! instructions; and 1,000,000 records of stack maps, four a function, as a linker leaves the maps of 1,000 inputs.
//! Prints the bytes of these tables, without those of the symbols.
//!
//! `cargo run --release -p gwp-race --example large_tables FILE`

#[path = "../bench_pcmeta/elf.rs"]
mod elf;
#[path = "../bench_pcmeta/random.rs"]
mod random;
#[path = "../bench_pcmeta/tables.rs"]
mod tables;

use std::path::PathBuf;

use anyhow::Context as _;

use elf::{Section, TEXT_ADDRESS, put, put_uleb128};
use random::Random;

const FUNCTIONS: usize = 2_000_000;
const BLOCKS_PER_FUNCTION: usize = 5;
const ATOMICS: usize = 200_000;
const STACK_MAPS: usize = 1_000;
const FUNCTIONS_PER_MAP: usize = 250;
const RECORDS_PER_FUNCTION: u64 = 4;

/// `SHT_LLVM_BB_ADDR_MAP`.
const BLOCK_MAP: u64 = 0x6fff_4c0a;
/// `SHF_LINK_ORDER`: the section belongs to the one that it links to.
const LINK_ORDER: u64 = 0x80;
/// The code's index in the table of sections.
const TEXT_INDEX: u64 = 1;
const SYMBOL_TABLE: u64 = 2;
const STRING_TABLE: u64 = 3;

struct Function {
    start: u64,
    blocks: [u64; BLOCKS_PER_FUNCTION],
}

impl Function {
    fn size(&self) -> u64 {
        self.blocks.iter().sum()
    }
}

fn main() -> anyhow::Result<()> {
    let path = std::env::args_os().nth(1).map(PathBuf::from);
    let path = path.context("say which file to write")?;
    let mut random = Random(1);
    let mut end = TEXT_ADDRESS;
    let functions: Vec<Function> = (0..FUNCTIONS)
        .map(|_| {
            let blocks = std::array::from_fn(|_| 3 + random.below(30));
            let function = Function { start: end, blocks };
            end = (end + function.size()).next_multiple_of(16);
            function
        })
        .collect();
    let text_size = end - TEXT_ADDRESS;
    let extents: Vec<(u64, u64)> = (functions.iter())
        .map(|function| (function.start, function.size()))
        .collect();
    let atomics = tables::choose_atomics(&extents, ATOMICS, &mut random);

    let block_map = Section {
        kind: BLOCK_MAP,
        flags: LINK_ORDER,
        link: TEXT_INDEX,
        ..Section::loaded(".llvm_bb_addr_map", block_map(&functions)?)
    };
    let stack_maps = Section::loaded(".llvm_stackmaps", stack_maps(&functions, &mut random)?);
    let mut sections = Vec::from(tables::sections(&extents, &atomics, text_size));
    sections.extend([stack_maps, block_map]);
    let bytes: usize = sections.iter().map(|section| section.data.len()).sum();
    let (symbols, strings) = symbols(&functions)?;
    let strings_index = TEXT_INDEX + 1 + sections.len() as u64 + 1;
    sections.push(Section {
        kind: SYMBOL_TABLE,
        flags: 0,
        link: strings_index,
        info: 1,
        entry_size: 24,
        ..Section::loaded(".symtab", symbols)
    });
    sections.push(Section {
        kind: STRING_TABLE,
        flags: 0,
        ..Section::loaded(".strtab", strings)
    });
    elf::write(&path, text_size, &sections)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("{bytes}");
    Ok(())
}

/// Entries of version 2 without features, as clang 18 to 20 write them.
fn block_map(functions: &[Function]) -> anyhow::Result<Vec<u8>> {
    let mut section = Vec::new();
    for function in functions {
        section.extend([2, 0]);
        put(&mut section, 8, &[function.start])?;
        put_uleb128(&mut section, BLOCKS_PER_FUNCTION as u64);
        for (id, &size) in (0..).zip(&function.blocks) {
            // Its number, the gap before it, its size, and whether it returns.
            put_uleb128(&mut section, id);
            put_uleb128(&mut section, 0);
            put_uleb128(&mut section, size);
            section.push(u8::from(id as usize == BLOCKS_PER_FUNCTION - 1));
        }
    }
    Ok(section)
}

/// Maps of version 3. A record has three live values, on the stack and in a register, and one register that
/// is needed after it.
fn stack_maps(functions: &[Function], random: &mut Random) -> anyhow::Result<Vec<u8>> {
    let mut section = Vec::new();
    for map in functions.chunks(FUNCTIONS_PER_MAP).take(STACK_MAPS) {
        section.extend([3, 0, 0, 0]);
        let records = map.len() as u64 * RECORDS_PER_FUNCTION;
        put(&mut section, 4, &[map.len() as u64, 0, records])?;
        for function in map {
            let frame = 16 * random.below(20);
            let words = [function.start, frame, RECORDS_PER_FUNCTION];
            put(&mut section, 8, &words)?;
        }
        for function in map {
            for id in 0..RECORDS_PER_FUNCTION {
                put(&mut section, 8, &[id])?;
                put(&mut section, 4, &[random.below(function.size())])?;
                put(&mut section, 2, &[0, 3])?;
                for (kind, register) in [(1, 3), (3, 6), (4, 0)] {
                    // A register (rbx), memory by rbp, a constant.
                    section.extend([kind, 0]);
                    put(&mut section, 2, &[8, register, 0])?;
                    put(&mut section, 4, &[8 * random.below(16)])?;
                }
                // Aligned; no more than one register is alive behind it.
                put(&mut section, 4, &[0])?;
                put(&mut section, 2, &[0, 1])?;
                put(&mut section, 2, &[7])?;
                section.extend([0, 8]);
            }
        }
    }
    Ok(section)
}

/// A global function each, and its name.
fn symbols(functions: &[Function]) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let (mut symbols, mut strings) = (vec![0; 24], vec![0]);
    for (number, function) in functions.iter().enumerate() {
        put(&mut symbols, 4, &[strings.len() as u64])?;
        symbols.extend([0x12, 0]); // STB_GLOBAL, STT_FUNC
        put(&mut symbols, 2, &[TEXT_INDEX])?;
        put(&mut symbols, 8, &[function.start, function.size()])?;
        strings.extend(format!("_ZN6server8function{number:07}Ev").bytes());
        strings.push(0);
    }
    Ok((symbols, strings))
}
