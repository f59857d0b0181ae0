//! How a file writes numbers: the class and the byte order of an ELF file (`EI_CLASS`, `EI_DATA`).

use super::bytes::array;

/// Width and order of the numbers of a file; as a rule 64 bits and the lowest byte first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// Addresses have four bytes instead of eight (`ELFCLASS32`).
    pub is_32_bit: bool,
    /// The highest byte of a number comes first (`ELFDATA2MSB`).
    pub is_big_endian: bool,
}

impl Encoding {
    /// How many bytes an address has.
    #[must_use]
    pub const fn address_size(self) -> usize {
        if self.is_32_bit { 4 } else { 8 }
    }

    /// The number that these bytes are, of which the lowest 64 bits count.
    #[must_use]
    pub fn number(self, bytes: &[u8]) -> u64 {
        let add = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
        match self.is_big_endian {
            true => bytes.iter().fold(0, add),
            false => bytes.iter().rev().fold(0, add),
        }
    }

    /// The `u16` at `offset`.
    pub(crate) fn u16_at(self, data: &[u8], offset: usize) -> Option<u16> {
        let bytes = array(data, offset)?;
        Some(match self.is_big_endian {
            true => u16::from_be_bytes(bytes),
            false => u16::from_le_bytes(bytes),
        })
    }

    /// The `u32` at `offset`.
    pub(crate) fn u32_at(self, data: &[u8], offset: usize) -> Option<u32> {
        let bytes = array(data, offset)?;
        Some(match self.is_big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        })
    }

    /// The `u64` at `offset`.
    pub(crate) fn u64_at(self, data: &[u8], offset: usize) -> Option<u64> {
        let bytes = array(data, offset)?;
        Some(match self.is_big_endian {
            true => u64::from_be_bytes(bytes),
            false => u64::from_le_bytes(bytes),
        })
    }

    /// The number at `offset` that has the size of an address.
    pub(crate) fn word_at(self, data: &[u8], offset: usize) -> Option<u64> {
        match self.is_32_bit {
            true => self.u32_at(data, offset).map(u64::from),
            false => self.u64_at(data, offset),
        }
    }

    /// The signed number at `offset` that has the size of an address.
    pub(crate) fn signed_word_at(self, data: &[u8], offset: usize) -> Option<i64> {
        match self.is_32_bit {
            true => self
                .u32_at(data, offset)
                .map(|word| word.cast_signed().into()),
            false => self.u64_at(data, offset).map(u64::cast_signed),
        }
    }
}
