//! Why an engine cannot begin or go on.

use crate::hunt::modules::RefreshError;
use crate::kernel::KernelError;
use crate::tracee::TargetError;

/// Why an engine cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A system call.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The target's files in `/proc`.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Its modules.
    #[error(transparent)]
    Modules(#[from] RefreshError),
    /// No thread of it is left.
    #[error("process {0} has ended before it could be watched")]
    Gone(u32),
    /// Another process has its id by now.
    #[error("process {0} has ended before it could be watched, and another one has its number")]
    Replaced(u32),
    /// Another instruction set.
    #[error(
        "process {0} is not a 64-bit x86 program, and only those can be watched: build it for \
         x86-64"
    )]
    Foreign(u32),
}

impl EngineError {
    /// Whether others have all breakpoints of a thread or processor.
    #[must_use]
    pub fn is_out_of_breakpoints(&self) -> bool {
        matches!(self, Self::Kernel(error) if error.is_out_of_breakpoints())
    }

    /// Whether the process, or the thread that was asked about, is gone.
    pub(super) fn is_gone(&self) -> bool {
        match self {
            Self::Kernel(error) => error.is_gone(),
            Self::Target(error) => error.is_vanished(),
            Self::Gone(_) => true,
            Self::Modules(_) | Self::Replaced(_) | Self::Foreign(_) => false,
        }
    }
}
