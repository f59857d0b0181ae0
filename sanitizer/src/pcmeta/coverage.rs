//! The points that SanitizerCoverage counts: `__sancov_pcs`, the table that
//! `-fsanitize-coverage=pc-table` makes.
//!
//! Source: clang's SanitizerCoverage page, "Tracing PCs with PC-Table": two words a point, its PC and
//! flags. A point has the index of its guard or counter.

use std::path::Path;

use super::RawSection;
use super::error::{OnError, TableError, strictly};
use super::reader::Reader;
use crate::addr::LinkAddr;
use crate::image::{Encoding, Image};

const SECTION: &str = "__sancov_pcs";
const FLAG_FUNCTION_ENTRY: u64 = 1;

/// A block of code that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoveragePoint {
    /// Where it starts.
    pub pc: LinkAddr,
    /// Its flags; the lowest says that it is the entry of a function, the others are not defined.
    pub flags: u64,
}

impl CoveragePoint {
    /// Whether it is the entry of a function.
    #[must_use]
    pub fn is_function_entry(&self) -> bool {
        self.flags & FLAG_FUNCTION_ENTRY != 0
    }
}

/// The points of an image, in the order of the file, which is that of the counters.
#[derive(Default)]
pub struct Coverage {
    points: Vec<CoveragePoint>,
}

impl Coverage {
    /// Reads the points of an image. An image without any gives none.
    ///
    /// # Errors
    /// The section is damaged.
    pub fn load(image: &Image) -> Result<Self, TableError> {
        strictly(|on_error| Self::load_readable(image, on_error))
    }

    /// Reads as much as can be read; `on_error` is told what is left out.
    pub fn load_readable(image: &Image, on_error: OnError<'_>) -> Self {
        let mut coverage = Self::default();
        for section in image.sections().filter(|section| section.name == SECTION) {
            let data = image.relocated(&section).map_err(TableError::from);
            if let Err(error) =
                data.and_then(|data| coverage.add(&data, image.encoding(), image.name()))
            {
                on_error(error);
            }
        }
        let pcs = coverage.points.iter().map(|point| point.pc);
        if let Err(error) = TableError::check_places(image, SECTION, pcs) {
            on_error(error);
            return Self::default();
        }
        coverage
    }

    /// Reads the points in `sections`; `file` is what messages call their file.
    ///
    /// # Errors
    /// As [`Coverage::load`].
    pub fn decode(sections: &[RawSection<'_>], file: &Path) -> Result<Self, TableError> {
        let mut coverage = Self::default();
        for section in sections {
            coverage.add(section.data, section.encoding, file)?;
        }
        Ok(coverage)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// All of them.
    #[must_use]
    pub fn points(&self) -> &[CoveragePoint] {
        &self.points
    }

    fn add(&mut self, data: &[u8], encoding: Encoding, file: &Path) -> Result<(), TableError> {
        self.points
            .reserve_exact(data.len() / (2 * encoding.address_size()));
        let mut reader = Reader::new(data, 0, encoding);
        while !reader.is_at_end() {
            let point = reader.word().and_then(|pc| {
                Ok(CoveragePoint {
                    pc: LinkAddr(pc),
                    flags: reader.word()?,
                })
            });
            let malformed = |what| TableError::malformed(file, SECTION, reader.at(), what);
            self.points.push(point.map_err(malformed)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
