//! How much stack each function takes: the section `.stack_sizes` that `-fstack-size-section` makes.
//!
//! Source: LLVM's CodeGenerator page, "Emitting function stack size information": a whole address
//! and a ULEB128 number a function.

use std::path::Path;

use super::RawSection;
use super::error::{OnError, TableError, strictly};
use super::reader::Reader;
use crate::addr::LinkAddr;
use crate::image::{Encoding, Image};

const SECTION: &str = ".stack_sizes";

/// The frame of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackSize {
    /// Its first byte.
    pub function: LinkAddr,
    /// The size of its frame in bytes, without what grows while it runs.
    pub size: u64,
}

/// The frames of an image's functions, in the order of addresses.
#[derive(Default)]
pub struct StackSizes {
    sizes: Vec<StackSize>,
    section_bytes: usize,
}

impl StackSizes {
    /// Reads the stack sizes of an image. An image without any gives none.
    ///
    /// # Errors
    /// The section is damaged.
    pub fn load(image: &Image) -> Result<Self, TableError> {
        strictly(|on_error| Self::load_readable(image, on_error))
    }

    /// Whether an image has a section of this kind.
    #[must_use]
    pub fn is_in(image: &Image) -> bool {
        image.sections().any(|section| section.name == SECTION)
    }

    /// Reads as much as can be read; `on_error` is told what is left out.
    pub fn load_readable(image: &Image, on_error: OnError<'_>) -> Self {
        let mut sizes = Self::default();
        for section in image.sections().filter(|section| section.name == SECTION) {
            let data = image.relocated(&section).map_err(TableError::from);
            if let Err(error) =
                data.and_then(|data| sizes.add(&data, image.encoding(), image.name()))
            {
                on_error(error);
            }
        }
        let functions = sizes.sizes.iter().map(|size| size.function);
        if let Err(error) = TableError::check_places(image, SECTION, functions) {
            on_error(error);
            return Self::default();
        }
        sizes.finish();
        sizes
    }

    /// Reads the stack sizes in `sections`; `file` is what messages call their file.
    ///
    /// # Errors
    /// As [`StackSizes::load`].
    pub fn decode(sections: &[RawSection<'_>], file: &Path) -> Result<Self, TableError> {
        let mut sizes = Self::default();
        for section in sections {
            sizes.add(section.data, section.encoding, file)?;
        }
        sizes.finish();
        Ok(sizes)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// All of them, sorted.
    #[must_use]
    pub fn sizes(&self) -> &[StackSize] {
        &self.sizes
    }

    /// How many bytes the sections have.
    #[must_use]
    pub fn section_bytes(&self) -> usize {
        self.section_bytes
    }

    /// The size of the frame of the function that starts at `function`; the largest where several
    /// were folded into one.
    #[must_use]
    pub fn of(&self, function: LinkAddr) -> Option<u64> {
        let after = self.sizes.partition_point(|size| size.function <= function);
        let found = self.sizes.get(after.checked_sub(1)?)?;
        (found.function == function).then_some(found.size)
    }

    fn add(&mut self, data: &[u8], encoding: Encoding, file: &Path) -> Result<(), TableError> {
        self.section_bytes += data.len();
        let mut reader = Reader::new(data, 0, encoding);
        while !reader.is_at_end() {
            let entry = reader.word().and_then(|function| {
                Ok(StackSize {
                    function: LinkAddr(function),
                    size: reader.uleb128()?,
                })
            });
            let malformed = |what| TableError::malformed(file, SECTION, reader.at(), what);
            self.sizes.push(entry.map_err(malformed)?);
        }
        Ok(())
    }

    fn finish(&mut self) {
        if !self.sizes.is_sorted() {
            self.sizes.sort_unstable();
        }
        self.sizes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(data: &[u8]) -> Result<StackSizes, TableError> {
        let section = RawSection {
            name: SECTION,
            address: LinkAddr(0),
            data,
            encoding: Encoding::default(),
        };
        StackSizes::decode(&[section], Path::new("the-file"))
    }

    proptest! {
        /// Check that sizes are read as they were written and found by their function.
        #[test]
        fn what_is_written_is_read_back(
            written in prop::collection::btree_map(any::<u64>(), 0u64..1 << 28, 0..20),
            seed in any::<u64>(),
        ) {
            let mut order: Vec<_> = written.iter().collect();
            order.sort_by_key(|(function, _)| function.wrapping_mul(seed | 1));
            let mut bytes = Vec::new();
            for (function, size) in order {
                bytes.extend(function.to_le_bytes());
                for shift in [0, 7, 14] {
                    bytes.push((size >> shift) as u8 | 0x80);
                }
                bytes.push((size >> 21) as u8 & 0x7f);
            }
            let read = decode(&bytes).unwrap();
            let found = read.sizes().iter().map(|size| (size.function.0, size.size));
            prop_assert!(found.eq(written.iter().map(|(function, size)| (*function, *size))));
            for (&function, &size) in &written {
                prop_assert_eq!(read.of(LinkAddr(function)), Some(size));
                let next = function.wrapping_add(1);
                prop_assert_eq!(read.of(LinkAddr(next)), written.get(&next).copied());
            }
        }

        /// Check that any bytes give sizes or an error with its place.
        #[test]
        fn any_bytes_give_sizes_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            match decode(&bytes) {
                Ok(read) => prop_assert!(read.sizes().len() * 9 <= bytes.len()),
                Err(error) => {
                    let message = error.to_string();
                    prop_assert!(message.contains("section .stack_sizes at offset 0x"), "{}", message);
                }
            }
        }
    }
}
