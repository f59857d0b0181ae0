//! Code that is mapped from a file and is no module, with the reason.

use std::path::PathBuf;
use std::sync::Arc;

use crate::addr::RuntimeAddr;
use crate::image::ImageError;
use crate::tracee::mapped_file::{MODULES, MappedFileError};
use crate::tracee::maps::Mapping;

/// Why code that is mapped from a file is not a module.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// The mapped file cannot be opened.
    #[error(transparent)]
    File(#[from] MappedFileError),
    /// The file is no ELF file for this machine, or a damaged one.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Whoever has read it says why it is none, or why nobody reads it.
    #[error("{0}")]
    Told(String),
    /// Nobody can read it for now.
    #[error("{0}")]
    NotYet(String),
    /// Nobody was asked about it: whoever looked had no time for that.
    #[error(
        "a file was not read, because something else was wanted; it is read when it is looked at again"
    )]
    Unasked,
    /// The code is not where the file's program headers would put it.
    #[error(
        "{path}: its code is mapped at {start} from file offset {offset:#x}, which none of its \
         loadable segments explains; code in it is not watched"
    )]
    NotLoaded {
        /// The file, as the target names it.
        path: PathBuf,
        /// Where the code is mapped.
        start: RuntimeAddr,
        /// From where in the file.
        offset: u64,
    },
    /// There are too many.
    #[error(
        "code in more than {MODULES} files, or copies of files, is mapped; what lies behind them is not watched"
    )]
    TooMany,
}

impl ModuleError {
    /// Whether another try may go better at once: the memory map changed under our hands, or nobody was asked.
    pub(super) const fn is_of_the_moment(&self) -> bool {
        matches!(
            self,
            Self::File(MappedFileError::Unmapped { .. }) | Self::Unasked
        )
    }

    /// Whether another try may go better some time: who was to read it could not be had.
    #[must_use]
    pub const fn is_not_yet(&self) -> bool {
        matches!(self, Self::NotYet(_))
    }
}

/// Code from a file that could not be made a module, with the reason.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// The code.
    pub mapping: Mapping,
    /// The reason.
    pub reason: Arc<ModuleError>,
}
