//! Numbers out of a section, one behind the other, each checked against its end.

use super::entry::Trouble;
use crate::image::Encoding;

/// A place in the bytes of a section. What fails leaves the place where it was, so that it can
/// be told.
#[derive(Clone, Copy)]
pub(super) struct Reader<'data> {
    data: &'data [u8],
    at: usize,
    encoding: Encoding,
}

impl<'data> Reader<'data> {
    pub(super) fn new(data: &'data [u8], at: usize, encoding: Encoding) -> Self {
        Self { data, at, encoding }
    }

    /// The same bytes at another place.
    pub(super) fn at_offset(&self, at: usize) -> Self {
        Self { at, ..*self }
    }

    /// The offset of the next byte.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn remaining(&self) -> usize {
        self.data.len().saturating_sub(self.at)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.remaining() == 0
    }

    /// The next `size` bytes.
    #[inline]
    pub(super) fn bytes(&mut self, size: usize) -> Result<&'data [u8], Trouble> {
        let end = self.at.checked_add(size);
        let bytes = end.and_then(|end| self.data.get(self.at..end));
        let bytes = bytes.ok_or("the section ends before all of this is there")?;
        self.at += size;
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Trouble> {
        let tail = self.data.get(self.at..).unwrap_or_default();
        let bytes = tail
            .first_chunk()
            .ok_or("the section ends within a number")?;
        self.at += N;
        Ok(*bytes)
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Result<u8, Trouble> {
        self.array().map(u8::from_le_bytes)
    }

    #[inline]
    pub(super) fn u16(&mut self) -> Result<u16, Trouble> {
        let bytes = self.array()?;
        Ok(match self.encoding.is_big_endian {
            true => u16::from_be_bytes(bytes),
            false => u16::from_le_bytes(bytes),
        })
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32, Trouble> {
        let bytes = self.array()?;
        Ok(match self.encoding.is_big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        })
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Result<u64, Trouble> {
        let bytes = self.array()?;
        Ok(match self.encoding.is_big_endian {
            true => u64::from_be_bytes(bytes),
            false => u64::from_le_bytes(bytes),
        })
    }

    /// A number of the size of an address.
    #[inline]
    pub(super) fn word(&mut self) -> Result<u64, Trouble> {
        match self.encoding.is_32_bit {
            true => self.u32().map(u64::from),
            false => self.u64(),
        }
    }

    /// A number of `size` bytes, of which the lowest 64 bits count.
    pub(super) fn number(&mut self, size: usize) -> Result<u64, Trouble> {
        let encoding = self.encoding;
        self.bytes(size).map(|bytes| encoding.number(bytes))
    }

    #[inline]
    pub(super) fn uleb128(&mut self) -> Result<u64, Trouble> {
        // Most numbers of these tables have one byte.
        if let Some(&byte) = self.data.get(self.at)
            && byte < 0x80
        {
            self.at += 1;
            return Ok(byte.into());
        }
        let (value, next) = super::entry::uleb128(self.data, self.at)?;
        self.at = next;
        Ok(value)
    }

    /// A signed LEB128 number.
    pub(super) fn sleb128(&mut self) -> Result<i64, Trouble> {
        let before = self.at;
        let mut value = 0i64;
        for shift in (0..).step_by(7) {
            let byte = self.u8().inspect_err(|_| self.at = before)?;
            let bits = byte & 0x7f;
            // The tenth byte has one bit of the number, and copies of it.
            if shift > 63 || (shift == 63 && bits != 0 && bits != 0x7f) {
                self.at = before;
                return Err("a LEB128 number has more than 64 bits");
            }
            value |= i64::from(bits) << shift;
            if byte & 0x80 == 0 {
                if shift < 57 && bits & 0x40 != 0 {
                    value |= -1 << (shift + 7);
                }
                break;
            }
        }
        Ok(value)
    }

    /// A ULEB128 number that the format keeps in 32 bits.
    #[inline]
    pub(super) fn uleb128_u32(&mut self) -> Result<u32, Trouble> {
        let before = self.at;
        let value = self.uleb128()?;
        u32::try_from(value).map_err(|_| {
            self.at = before;
            "a number has more than 32 bits"
        })
    }

    /// Checks a count of things of at least `least` bytes each against the bytes that are left,
    /// so that a damaged count makes nobody reserve memory for what cannot be there.
    #[inline]
    pub(super) fn count(&self, count: u64, least: usize) -> Result<usize, Trouble> {
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= self.remaining() / least.max(1))
            .ok_or("the section has fewer bytes than this count needs")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pcmeta::testing::put_sleb128;

    proptest! {
        /// Check that signed numbers of any width are read, and that none is read beyond the end.
        #[test]
        fn signed_numbers_of_any_width_are_read(value in any::<i64>(), shift in 0u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_sleb128(&mut bytes, value);
            let mut reader = Reader::new(&bytes, 0, Encoding::default());
            prop_assert_eq!(reader.sleb128(), Ok(value));
            prop_assert!(reader.is_at_end());
            bytes.pop();
            let mut reader = Reader::new(&bytes, 0, Encoding::default());
            prop_assert!(reader.sleb128().is_err());
            prop_assert_eq!(reader.at(), 0);
        }
    }

    #[test]
    fn signed_numbers_beyond_64_bits_are_refused() {
        assert!(
            Reader::new(&[0x80; 11], 0, Encoding::default())
                .sleb128()
                .is_err()
        );
        let mut bytes = [0xff; 10];
        bytes[9] = 0x7e;
        assert!(
            Reader::new(&bytes, 0, Encoding::default())
                .sleb128()
                .is_err()
        );
        bytes[9] = 0x7f;
        assert_eq!(
            Reader::new(&bytes, 0, Encoding::default()).sleb128(),
            Ok(-1)
        );
    }
}
