//! Why the metadata of a file cannot be used, where, and what to do about it.

use std::path::{Path, PathBuf};

/// Metadata that cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The section is not laid out as its version says.
    #[error(
        "{}: section {section} at offset {offset:#x}: {what}; the file is damaged or was written by \
         a compiler that this version does not know: rebuild it with clang 16 to 22 and \
         -fexperimental-sanitize-metadata=atomics",
        file.display()
    )]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The section.
        section: String,
        /// Byte offset within the section.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// A version that came after this code.
    #[error(
        "{}: section {section}: unknown version {version} of the metadata; rebuild the file with \
         clang 16 to 22, or update gwp-race",
        file.display()
    )]
    UnknownVersion {
        /// The file.
        file: PathBuf,
        /// The section.
        section: String,
        /// The version number.
        version: u64,
    },
    /// The tables hold 32-bit offsets.
    #[error(
        "{}: the code spans {span:#x} bytes, more than the 4 GiB that the tables can address; split \
         the program into shared libraries",
        file.display()
    )]
    TextTooLarge {
        /// The file.
        file: PathBuf,
        /// Distance from the first to the last byte of code.
        span: u64,
    },
    /// The section's addresses cannot be found out.
    #[error(transparent)]
    Image(#[from] crate::image::ImageError),
}

/// A table about code, other than the metadata of the detector, that cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The section is not laid out as its format says.
    #[error(
        "{}: section {section} at offset {offset:#x}: {what}; the file is damaged or was written by \
         a compiler that this version does not know: rebuild the file, or update gwp-race",
        file.display()
    )]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The section.
        section: String,
        /// Byte offset within the section.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// The tables hold 32-bit offsets.
    #[error(
        "{}: the code spans {span:#x} bytes, more than the 4 GiB that the tables can address; split \
         the program into shared libraries",
        file.display()
    )]
    TextTooLarge {
        /// The file.
        file: PathBuf,
        /// Distance from the first to the last byte of code.
        span: u64,
    },
    /// The section's addresses cannot be found out.
    #[error(transparent)]
    Image(#[from] crate::image::ImageError),
}

impl TableError {
    pub(super) fn malformed(file: &Path, section: &str, offset: usize, what: &'static str) -> Self {
        Self::Malformed {
            file: file.into(),
            section: section.into(),
            offset,
            what,
        }
    }
}
