//! The metadata of the detector as a compiler would write it.

use super::elf::{self, Section, put_uleb128};
use super::random::Random;

/// So many instructions of these functions, given by their first byte and size, in the order of the code.
pub fn choose_atomics(functions: &[(u64, u64)], count: usize, random: &mut Random) -> Vec<u64> {
    let mut atomics: Vec<u64> = (0..count)
        .map(|_| {
            let (start, size) = functions[random.below(functions.len() as u64) as usize];
            start + random.below(size)
        })
        .collect();
    atomics.sort_unstable();
    atomics
}

/// The sections of the detector, version 2, that come first behind a code of `text_size` bytes.
pub fn sections(functions: &[(u64, u64)], atomics: &[u64], text_size: u64) -> [Section; 2] {
    let address = elf::address_behind(text_size);
    let covered = self::covered(functions, address);
    let atomics = self::atomics(atomics, address + covered.len() as u64);
    [
        Section::loaded("sanmd_covered2", covered),
        Section::loaded("sanmd_atomics2", atomics),
    ]
}

/// `sanmd_covered2` at this address: all functions are analyzed for atomics.
fn covered(functions: &[(u64, u64)], address: u64) -> Vec<u8> {
    let mut section = Vec::new();
    for &(start, size) in functions {
        put_offset(&mut section, address, start);
        put_uleb128(&mut section, size);
        section.push(1);
    }
    section
}

/// `sanmd_atomics2` at this address: instructions.
fn atomics(pcs: &[u64], address: u64) -> Vec<u8> {
    let mut section = Vec::new();
    for &pc in pcs {
        put_offset(&mut section, address, pc);
    }
    section
}

/// Appends the distance from where it is put to `target`.
fn put_offset(section: &mut Vec<u8>, address: u64, target: u64) {
    let here = address + section.len() as u64;
    section.extend((target.wrapping_sub(here) as i32).to_le_bytes());
}
