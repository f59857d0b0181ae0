//! One entry of a metadata section: bytes in, numbers out.

use super::format::{Features, Format};
use crate::image::Encoding;

/// What is wrong with the bytes of an entry.
pub(super) type Trouble = &'static str;

/// A decoded entry and where the next one starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Distance from the entry's own address to the code; zero for padding.
    pub(super) offset: i64,
    /// Size of the function in bytes; zero for atomics.
    pub(super) size: u64,
    /// Feature mask of the function; zero for atomics.
    pub(super) features: u64,
    /// How many bytes of arguments the function takes on the stack, where the entry says.
    pub(super) stack_args: Option<u64>,
    /// Offset of the next entry within the section.
    pub(super) next: usize,
}

/// The entry of a covered function at `at`.
#[inline]
pub(super) fn covered<const VERSION: u8, const WIDE: bool, const BIG: bool>(
    data: &[u8],
    at: usize,
) -> Result<Entry, Trouble> {
    let mut entry = atomic::<WIDE, BIG>(data, at)?;
    if entry.offset == 0 {
        return Ok(entry);
    }
    let number = if VERSION == 1 {
        u32_number::<BIG>
    } else {
        uleb128
    };
    (entry.size, entry.next) = number(data, entry.next)?;
    (entry.features, entry.next) = number(data, entry.next)?;
    let has_stack_args = if VERSION == 1 {
        Features::USE_AFTER_RETURN
    } else {
        Features::STACK_ARGS_SIZE
    };
    if entry.features & u64::from(has_stack_args.0) != 0 {
        let (stack_args, next) = number(data, entry.next)?;
        entry.stack_args = Some(stack_args);
        entry.next = next;
    }
    Ok(entry)
}

/// The entry of an atomic instruction at `at`.
#[inline]
pub(super) fn atomic<const WIDE: bool, const BIG: bool>(
    data: &[u8],
    at: usize,
) -> Result<Entry, Trouble> {
    let tail = data.get(at..).unwrap_or_default();
    let (offset, width) = if WIDE {
        let offset = |bytes: &[u8; 8]| match BIG {
            true => i64::from_be_bytes(*bytes),
            false => i64::from_le_bytes(*bytes),
        };
        (tail.first_chunk().map(offset), 8)
    } else {
        let offset = |bytes: &[u8; 4]| match BIG {
            true => i32::from_be_bytes(*bytes).into(),
            false => i32::from_le_bytes(*bytes).into(),
        };
        (tail.first_chunk().map(offset), 4)
    };
    match offset {
        Some(offset) => Ok(Entry {
            offset,
            size: 0,
            features: 0,
            stack_args: None,
            next: at + width,
        }),
        // Alignment at the section's end.
        None if !tail.is_empty() && tail.iter().all(|&byte| byte == 0) => Ok(Entry {
            offset: 0,
            size: 0,
            features: 0,
            stack_args: None,
            next: data.len(),
        }),
        None => Err("the section ends within a code offset"),
    }
}

/// [`covered`] for a layout that is known only at run time.
pub(super) fn covered_as(
    format: Format,
    encoding: Encoding,
    data: &[u8],
    at: usize,
) -> Result<Entry, Trouble> {
    let wide = format.offset_size(encoding) == 8;
    match (format.version, wide, encoding.is_big_endian) {
        (1, false, false) => covered::<1, false, false>(data, at),
        (1, true, false) => covered::<1, true, false>(data, at),
        (_, false, false) => covered::<2, false, false>(data, at),
        (_, true, false) => covered::<2, true, false>(data, at),
        (1, false, true) => covered::<1, false, true>(data, at),
        (1, true, true) => covered::<1, true, true>(data, at),
        (_, false, true) => covered::<2, false, true>(data, at),
        (_, true, true) => covered::<2, true, true>(data, at),
    }
}

/// [`atomic`] for a layout that is known only at run time.
pub(super) fn atomic_as(
    format: Format,
    encoding: Encoding,
    data: &[u8],
    at: usize,
) -> Result<Entry, Trouble> {
    match (format.offset_size(encoding), encoding.is_big_endian) {
        (8, false) => atomic::<true, false>(data, at),
        (8, true) => atomic::<true, true>(data, at),
        (_, false) => atomic::<false, false>(data, at),
        (_, true) => atomic::<false, true>(data, at),
    }
}

fn u32_number<const BIG: bool>(data: &[u8], at: usize) -> Result<(u64, usize), Trouble> {
    match data.get(at..).and_then(<[u8]>::first_chunk) {
        Some(bytes) if BIG => Ok((u32::from_be_bytes(*bytes).into(), at + 4)),
        Some(bytes) => Ok((u32::from_le_bytes(*bytes).into(), at + 4)),
        None => Err("the section ends within a number"),
    }
}

#[inline]
pub(super) fn uleb128(data: &[u8], at: usize) -> Result<(u64, usize), Trouble> {
    let mut value = 0u64;
    let mut shift = 0u32;
    for (index, &byte) in data.get(at..).unwrap_or_default().iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        if shift > 63 || (shift == 63 && bits > 1) {
            return Err("a ULEB128 number has more than 64 bits");
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok((value, at + index + 1));
        }
        shift += 7;
    }
    Err("the section ends within a ULEB128 number")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pcmeta::testing::put_uleb128;

    fn put(
        out: &mut Vec<u8>,
        (format, encoding): (Format, Encoding),
        offset: i64,
        size: u32,
        features: u8,
        args: u32,
    ) {
        let mut put = |bytes: &[u8]| match encoding.is_big_endian {
            true => out.extend(bytes.iter().rev()),
            false => out.extend(bytes),
        };
        if format.offset_size(encoding) == 8 {
            put(&offset.to_le_bytes());
        } else {
            put(&(offset as i32).to_le_bytes());
        }
        let args_bit = if format.version == 1 { 0b10 } else { 0b100 };
        let mut numbers = vec![size, features.into()];
        if features & args_bit != 0 {
            numbers.push(args);
        }
        for number in numbers {
            let mut bytes = number.to_le_bytes().to_vec();
            if format.version != 1 {
                bytes.clear();
                put_uleb128(&mut bytes, number.into());
            } else if encoding.is_big_endian {
                bytes.reverse();
            }
            out.extend(bytes);
        }
    }

    fn format() -> impl Strategy<Value = (Format, Encoding)> {
        let encoding = any::<[bool; 2]>().prop_map(|[is_32_bit, is_big_endian]| Encoding {
            is_32_bit,
            is_big_endian,
        });
        (prop::sample::select(&Format::UNVERSIONED[..]), encoding)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            (format, encoding) in format(),
            written in prop::collection::vec((any::<i32>(), any::<u32>(), 0u8..8, any::<u32>()), 0..20),
        ) {
            let mut bytes = Vec::new();
            for &(offset, size, features, args) in &written {
                // Zero is padding, which has nothing after it.
                put(&mut bytes, (format, encoding), i64::from(offset).max(1), size, features, args);
            }
            let mut at = 0;
            for &(offset, size, features, args) in &written {
                let entry = covered_as(format, encoding, &bytes, at).unwrap();
                prop_assert_eq!(entry.offset, i64::from(offset).max(1));
                prop_assert_eq!(entry.size, u64::from(size));
                prop_assert_eq!(entry.features, u64::from(features));
                let args_bit = if format.version == 1 { 0b10 } else { 0b100 };
                let has_args = features & args_bit != 0;
                prop_assert_eq!(entry.stack_args, has_args.then_some(args.into()));
                at = entry.next;
            }
            prop_assert_eq!(at, bytes.len());
        }

        #[test]
        fn any_bytes_give_an_entry_that_moves_on_or_an_error(
            (format, encoding) in format(),
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            at in 0usize..50,
        ) {
            let entries = [covered_as(format, encoding, &bytes, at), atomic_as(format, encoding, &bytes, at)];
            for entry in entries.into_iter().flatten() {
                prop_assert!(entry.next > at && entry.next <= bytes.len());
            }
        }

        #[test]
        fn numbers_of_any_width_are_read(value in any::<u64>()) {
            let mut bytes = Vec::new();
            put_uleb128(&mut bytes, value);
            prop_assert_eq!(uleb128(&bytes, 0), Ok((value, bytes.len())));
            bytes.pop();
            prop_assert!(uleb128(&bytes, 0).is_err());
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        assert!(uleb128(&[0xff; 9], 0).is_err());
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert!(uleb128(&bytes, 0).is_err());
        bytes[9] = 1;
        assert_eq!(uleb128(&bytes, 0), Ok((u64::MAX, 10)));
    }
}
