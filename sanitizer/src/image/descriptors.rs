//! Function descriptors: on big-endian PowerPC with 64 bits the symbol of a function is no code but an entry of `.opd`, which
//! begins with the address of the code.
//!
//! Source: 64-bit PowerPC ELF Application Binary Interface Supplement 1.9, 3.2.5.

/// The address of each descriptor and that of its code, sorted.
#[derive(Default)]
pub(super) struct Descriptors(Vec<(u64, u64)>);

impl Descriptors {
    /// Those found: the address of each, and that of its code.
    pub(super) fn new(mut found: Vec<(u64, u64)>) -> Self {
        found.retain(|&(_, code)| code != 0);
        found.sort_unstable();
        Self(found)
    }

    /// The address of the code that the symbol of a function at `address` stands for.
    pub(super) fn code(&self, address: u64) -> u64 {
        let found = self.0.binary_search_by_key(&address, |&(place, _)| place);
        let found = found.ok().and_then(|index| self.0.get(index));
        found.map_or(address, |&(_, code)| code)
    }
}
