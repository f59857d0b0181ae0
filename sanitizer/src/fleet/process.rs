//! A process, as far as that decides whether it is watched.

use std::path::PathBuf;

/// What a program has in its environment that is not to be watched.
pub const OPT_OUT: &str = "GWP_RACE=off";

/// A process that executes a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its name, as the kernel keeps it.
    pub comm: String,
    /// The program's file, as the process sees it.
    pub exe: PathBuf,
    /// The effective user, as this machine counts them.
    pub user: u32,
    /// Its control group: that of the unified hierarchy, or of the first one that it is in.
    pub cgroup: String,
}

/// What an id in `/proc` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A process that executes a program.
    Program(Process),
    /// A thread of the kernel.
    Kernel,
    /// A process that has ended, for which nobody has waited yet.
    Ended,
    /// A process of gwp-race.
    Own,
    /// It may not be looked into.
    Hidden,
}
