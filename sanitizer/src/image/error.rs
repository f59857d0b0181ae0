//! Why a file is no usable image, which file, where, and what to do about it.

use std::path::PathBuf;

/// A file that cannot be used as an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file cannot be opened or mapped.
    #[error(
        "cannot read {}: {source}; check the path, and run as root or as the file's owner",
        file.display()
    )]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is something else.
    #[error(
        "{}: not an ELF file; give an executable or a shared library (of a script, its interpreter)",
        file.display()
    )]
    NotElf {
        /// The file.
        file: PathBuf,
    },
    /// An ELF file of a kind that no detector here can work with.
    #[error("{}: {what}; {mend}", file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// What it is.
        what: String,
        /// What to do.
        mend: &'static str,
    },
    /// A header points outside of the file.
    #[error(
        "{}: {part} at offset {offset:#x} with {size:#x} bytes does not fit the file's {file_size:#x} \
         bytes; the file is cut short or damaged: build it or copy it again",
        file.display()
    )]
    Truncated {
        /// The file.
        file: PathBuf,
        /// The section, segment or table.
        part: String,
        /// Where it should start.
        offset: u64,
        /// How long it should be.
        size: u64,
        /// How long the file is.
        file_size: u64,
    },
    /// A place in a section that cannot be filled in.
    #[error(
        "{}: section {section} at offset {offset:#x}: the relocation of type {number} is not known, \
         or does not fit the section; link the file into a program, or update gwp-race",
        file.display()
    )]
    Relocation {
        /// The file.
        file: PathBuf,
        /// The section.
        section: String,
        /// The place within the section.
        offset: u64,
        /// The type of the relocation, as the machine's ABI numbers it.
        number: u32,
    },
}
