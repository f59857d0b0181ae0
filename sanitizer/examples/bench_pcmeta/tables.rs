//! The metadata of the detector as a compiler would write it.

use super::elf::put_uleb128;

/// `sanmd_covered2` at this address: functions by their first byte and size, all of them analyzed for atomics.
pub fn covered(functions: &[(u64, u64)], address: u64) -> Vec<u8> {
    let mut section = Vec::new();
    for &(start, size) in functions {
        put_offset(&mut section, address, start);
        put_uleb128(&mut section, size);
        section.push(1);
    }
    section
}

/// `sanmd_atomics2` at this address: instructions.
pub fn atomics(pcs: &[u64], address: u64) -> Vec<u8> {
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
