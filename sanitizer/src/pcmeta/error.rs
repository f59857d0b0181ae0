//! Why the metadata of a file cannot be used, where, and what to do about it.

use std::path::{Path, PathBuf};

use crate::addr::LinkAddr;
use crate::image::Image;

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
    /// The relocations of an object file were stripped, and with them the addresses.
    #[error(
        "{}: section {section}: it has no addresses, as if its relocations were stripped; take the file as \
         the compiler wrote it, or link it",
        file.display()
    )]
    NoRelocations {
        /// The file.
        file: PathBuf,
        /// The section.
        section: String,
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
    /// There is more of it than is kept in memory.
    #[error(
        "{}: its metadata has {} MiB, over the limit of {} MiB; split the program into shared libraries", file.display(),
        .bytes >> 20, .limit >> 20
    )]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// What it has, in bytes.
        bytes: u64,
        /// What is read at most, in bytes.
        limit: u64,
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
    /// No address in the section is one of code.
    #[error(
        "{}: section {section} at offset 0x0: no address in it is one of this file's code, as if its \
         relocations were stripped, or of a form that is not known; take the file as the compiler or the \
         linker wrote it, link it with --pack-dyn-relocs=none, or update gwp-race",
        file.display()
    )]
    Nowhere {
        /// The file.
        file: PathBuf,
        /// The section.
        section: String,
    },
    /// The section does not hold what its description says: nothing in a file tells what is in a PC
    /// section.
    #[error(
        "{}: section {section} at offset {offset:#x}: {what}: it does not hold what \
         {description:?} says; look up what the program writes there (!pcsections in its IR), and \
         describe all kinds of entries that it has: NAME[!C]=ENTRY|ENTRY",
        file.display()
    )]
    Misdescribed {
        /// The file.
        file: PathBuf,
        /// The section.
        section: String,
        /// Byte offset within the section.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
        /// What was said to be there.
        description: String,
    },
    /// A version that came after this code.
    #[error(
        "{}: section {section} at offset {offset:#x}: it has version {version} from here on, and the \
         newest that is known is {newest}; rebuild the file with clang 16 to 22, or update gwp-race",
        file.display()
    )]
    UnknownVersion {
        /// The file.
        file: PathBuf,
        /// The section.
        section: String,
        /// Byte offset within the section.
        offset: usize,
        /// The version there.
        version: u8,
        /// The newest version that can be read.
        newest: u8,
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

/// What is told of each table, or part of a table, that is left out because it cannot be read.
pub type OnError<'a> = &'a mut dyn FnMut(TableError);

/// What `load` reads, or the first error that it tells of.
pub(super) fn strictly<T>(load: impl FnOnce(OnError<'_>) -> T) -> Result<T, TableError> {
    let mut first = None;
    let loaded = load(&mut |error| {
        first.get_or_insert(error);
    });
    first.map_or(Ok(loaded), Err)
}

impl TableError {
    /// An error for a version at the start of what is read next, if that is newer than `newest`.
    pub(super) fn check_version(
        reader: &super::reader::Reader<'_>,
        newest: u8,
        file: &Path,
        section: &str,
    ) -> Result<(), Self> {
        match reader.clone().u8() {
            Ok(version) if version > newest => Err(Self::UnknownVersion {
                file: file.into(),
                section: section.into(),
                offset: reader.at(),
                version,
                newest,
            }),
            _ => Ok(()),
        }
    }

    /// An error if there are addresses in a section of an image, and none of them is one of code: as zeros are, where
    /// relocations are missing.
    pub(super) fn check_places(
        image: &Image,
        section: &str,
        mut addresses: impl Iterator<Item = LinkAddr>,
    ) -> Result<(), Self> {
        let Some(first) = addresses.next() else {
            return Ok(());
        };
        let text = image.text_ranges();
        let is_code = |address: LinkAddr| {
            let after = text.partition_point(|range| range.start <= address);
            let nearest = after.checked_sub(1).and_then(|index| text.get(index));
            // Functions without instructions may be at an end.
            nearest.is_some_and(|range| address <= range.end)
        };
        if is_code(first) || addresses.any(is_code) {
            return Ok(());
        }
        Err(Self::Nowhere {
            file: image.name().into(),
            section: section.into(),
        })
    }

    pub(super) fn malformed(file: &Path, section: &str, offset: usize, what: &'static str) -> Self {
        Self::Malformed {
            file: file.into(),
            section: section.into(),
            offset,
            what,
        }
    }
}
