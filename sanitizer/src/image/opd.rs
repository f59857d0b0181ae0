//! Reading the table of function descriptors, `.opd`.
//!
//! Source: 64-bit PowerPC ELF Application Binary Interface Supplement 1.9, 3.2.5.

use super::descriptors::Descriptors;
use super::headers::{Headers, Section};
use super::machine::{Form, Machine};
use super::relocations;
use super::symbol::Entry;

/// Where descriptors are.
const SECTION: &str = ".opd";

/// The descriptors of a file whose sections have their addresses.
pub(super) fn read(data: &[u8], headers: &Headers) -> Descriptors {
    if headers.machine != Machine::PowerPc64 {
        return Descriptors::default();
    }
    let is_table = |section: &Section| headers.section_name(data, section) == SECTION;
    let Some(index) = headers.sections.iter().position(is_table) else {
        return Descriptors::default();
    };
    let found = match headers.is_object {
        true => by_relocations(data, headers, index),
        false => by_content(data, headers, index),
    };
    Descriptors::new(found)
}

fn by_relocations(data: &[u8], headers: &Headers, index: usize) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let Some(section) = headers.sections.get(index) else {
        return found;
    };
    let tables = headers.sections.iter();
    for table in tables.filter(|table| table.info as usize == index) {
        let Some(symbols) = headers.sections.get(table.link as usize) else {
            continue;
        };
        let (relocations, _) = relocations::of_table(data, headers, table);
        for relocation in relocations {
            let form = Form::of(headers.machine, relocation.kind);
            let symbol = Entry::nth(symbols.data(data), headers.encoding, relocation.symbol);
            let (Some(Form::Address(_)), Some(symbol)) = (form, symbol) else {
                continue;
            };
            let (table, number) = (table.link as usize, relocation.symbol as usize);
            let code = headers.section_of_symbol(data, table, number, symbol.section);
            if let Some(code) = code.filter(|code| code.flags.executable) {
                let place = section.address.0.wrapping_add(relocation.offset);
                let start = code.address.0.wrapping_add(symbol.value);
                found.push((place, start.wrapping_add(relocation.addend.unwrap_or(0))));
            }
        }
    }
    found
}

/// Every place counts that may begin a descriptor: those of linkers have two words or three.
fn by_content(data: &[u8], headers: &Headers, index: usize) -> Vec<(u64, u64)> {
    let Some(section) = headers.sections.get(index) else {
        return Vec::new();
    };
    let size = headers.encoding.address_size();
    let words = section.data(data).chunks_exact(size).enumerate();
    let executable = headers.sections.iter().filter(|s| s.flags.executable);
    let mut code: Vec<(u64, u64)> = executable.map(|s| (s.address.0, s.size)).collect();
    code.sort_unstable();
    let is_code = |address: u64| {
        let after = code.partition_point(|&(start, _)| start <= address);
        let nearest = after.checked_sub(1).and_then(|index| code.get(index));
        nearest.is_some_and(|&(start, size)| address - start < size)
    };
    words
        .map(|(place, word)| {
            let place = section.address.0.wrapping_add((place * size) as u64);
            (place, headers.encoding.number(word))
        })
        .filter(|&(_, code)| is_code(code))
        .collect()
}
