//! Why debug information is not read: it asks for more than may be spent on it. Reports say so where its functions and
//! lines would stand.

use thiserror::Error;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum TooMuch {
    /// A section would be too large when it is decompressed.
    #[error(
        "{section} is compressed and has {} MiB, over the limit of {} MiB", .size >> 20, .limit >> 20
    )]
    Compressed {
        section: String,
        size: u64,
        limit: u64,
    },
    /// A section claims to have grown beyond belief.
    #[error("{section} claims to have {size} bytes when its {packed} bytes are decompressed")]
    Growth {
        section: String,
        size: u64,
        packed: u64,
    },
    /// There are too many units.
    #[error("it has more than {limit} units")]
    Units { limit: usize },
    /// The unit with the address is too large to be searched.
    #[error("a unit has {} MiB, over the limit of {} MiB", .size >> 20, .limit >> 20)]
    UnitSize { size: u64, limit: u64 },
    /// A table of abbreviations is.
    #[error("a table of abbreviations is larger than any compiler's")]
    Abbreviations,
    /// Calls are inlined into each other without end.
    #[error("more than {limit} calls are inlined into each other")]
    Inlined { limit: usize },
    /// A question took too long.
    #[error("finding an address in it takes too long")]
    Effort,
    /// It is not as it should be. Nobody is told: what is damaged says nothing at all.
    #[error("it is damaged")]
    Damaged,
}

impl From<gimli::Error> for TooMuch {
    fn from(_: gimli::Error) -> Self {
        match super::effort::is_spent() {
            true => Self::Effort,
            false => Self::Damaged,
        }
    }
}
