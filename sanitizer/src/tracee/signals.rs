//! Sets of signals and what a process does with them, as proc_pid_status(5) shows them.

use std::fmt;

use nix::sys::signal::Signal;

/// A set of signals, as the kernel's 64-bit `sigset_t`: bit N-1 is signal N.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalSet(pub u64);

impl SignalSet {
    /// Whether a signal is in it.
    #[must_use]
    pub fn contains(self, signal: Signal) -> bool {
        self.contains_number(signal as i32)
    }

    /// Whether the signal with a number (1 to 64, so real-time signals too) is in it.
    #[must_use]
    pub fn contains_number(self, number: i32) -> bool {
        (1..=64).contains(&number) && self.0 >> (number - 1) & 1 == 1
    }
}

/// What happens when a signal reaches a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// What signal(7) says (`SIG_DFL`).
    Default,
    /// Nothing (`SIG_IGN`).
    Ignored,
    /// The program's own handler.
    Caught,
}

impl fmt::Display for Disposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Ignored => "ignored",
            Self::Caught => "caught by the program's own handler",
        })
    }
}
