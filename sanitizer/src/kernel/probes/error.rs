//! Why code is not probed, and bursts fail.

use super::link;
use crate::kernel::{KernelError, foreign::ForeignError};

/// Why code is not probed.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// Nothing is mapped there, or not any more.
    #[error("there is no mapping {0:#x}-{1:#x} any more; it is looked at again if it returns")]
    Unmapped(u64, u64),
    /// It is not a file's, may be written, or is shared: what is changed in it could be lost, or reach others.
    #[error(
        "its code is not that of a file, mapped privately and not to be written ({0}); such code is not probed"
    )]
    Unsuited(String),
    /// The kernel knows by its memory which threads are to be probed, and it has none any more.
    #[error(
        "the process's first thread has ended, by which the kernel knows the process; it is not probed any more"
    )]
    FirstThreadEnded,
    /// Threads return by a second stack, which the kernel's emulation does not keep.
    #[error(
        "the process has a shadow stack, and is not probed; switch it off: GLIBC_TUNABLES=glibc.cpu.x86_shstk=off"
    )]
    ShadowStack,
    /// A probe would break them up.
    #[error("its code is on huge pages, which probes would break up; such code is not probed")]
    HugePages,
    /// The file may not be opened.
    #[error("the file of the code is not opened: {0}")]
    File(#[from] ForeignError),
    /// The places are those of other code: what would be put there could be in the midst of an instruction.
    #[error(
        "its file is another one than was read, or has changed since ({0:#x}-{1:#x}); it is not probed"
    )]
    Replaced(u64, u64),
    /// None of the places is left.
    #[error(
        "none of the places can be probed: the program has changed its code, or it is not what it was taken for; it is not probed there"
    )]
    NoPlace,
}

impl Obstacle {
    /// Whether nothing can be probed in the whole process. Otherwise other places may well be, or these some other time.
    #[must_use]
    pub const fn is_of_process(&self) -> bool {
        matches!(self, Self::ShadowStack | Self::FirstThreadEnded)
    }

    /// Whether nothing can be probed at these places, as long as this code stands there.
    #[must_use]
    pub const fn is_of_place(&self) -> bool {
        !self.is_of_process() && !matches!(self, Self::Unmapped(..))
    }
}

/// Why there was no burst.
#[derive(Debug, thiserror::Error)]
pub enum BurstError {
    /// The code must not be touched.
    #[error("{0}")]
    Obstacle(#[from] Obstacle),
    /// A call failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl BurstError {
    /// Whether nothing can be probed in the process any more.
    #[must_use]
    pub const fn is_of_process(&self) -> bool {
        matches!(self, Self::Obstacle(why) if why.is_of_process())
    }

    /// Whether none of the places can be probed, as long as this code stands there. Otherwise they may well be, some other time.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Obstacle(why) => why.is_of_place(),
            Self::Kernel(error) => link::is_refusal(error),
        }
    }
}
