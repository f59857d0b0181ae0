//! What the scheduler is told, and what it says.

use std::time::Duration;

/// A process, as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

/// A build of a program: the processes that execute the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId(pub u32);

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// There is a process that may be watched.
    Began {
        /// The process.
        process: ProcessId,
        /// What it executes.
        build: BuildId,
        /// CPU time that it has used before anybody looked.
        cpu: Duration,
    },
    /// A process was looked at.
    Used {
        /// The process.
        process: ProcessId,
        /// CPU time that it has used since it was started.
        cpu: Duration,
    },
    /// A process has ended, or is not to be watched any more.
    Ended {
        /// The process.
        process: ProcessId,
    },
    /// A lease has cost something since the last time.
    Charged {
        /// The process that has it.
        process: ProcessId,
        /// CPU time and time in which threads of it stood.
        cost: Duration,
        /// Something came of it that was not known.
        is_new: bool,
        /// How many new races were to be expected of what was done for that.
        expected: f64,
    },
    /// A lease is over, by whatever reason; its slot is free.
    LeaseEnded {
        /// The process that had it.
        process: ProcessId,
    },
    /// gwp-race itself has used CPU time otherwise.
    Overhead {
        /// So much since the last time.
        cost: Duration,
    },
    /// So many slots are not to be had: somebody else has them, or who would serve them is not there.
    Taken {
        /// How many.
        slots: usize,
    },
    /// Whether gwp-race takes more memory than it may: no lease begins then, and those that run go on.
    Full {
        /// See there.
        is_full: bool,
    },
    /// A process is let alone for a while, as one that had to be released before its time.
    Rests {
        /// The process.
        process: ProcessId,
        /// Until when.
        until: Duration,
    },
    /// A build is never leased again.
    LeftAlone {
        /// The build.
        build: BuildId,
    },
    /// A build of which there are no processes does not come again.
    Forgotten {
        /// The build.
        build: BuildId,
    },
    /// Whether the machine is short of something.
    Pressure {
        /// See there.
        is_high: bool,
    },
    /// Another tool has taken breakpoints: it gets all of them for a while.
    BreakpointsTaken,
    /// Nothing is leased until then, or until [`Event::Resumed`].
    Paused {
        /// Until when.
        until: Option<Duration>,
    },
    /// A pause is over.
    Resumed,
}

/// Why a lease ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It has lasted as long as any may.
    Longest,
    /// What was set aside for it is spent.
    Spent,
    /// Nothing new comes of it.
    Quiet,
    /// Its slot is wanted by somebody who does not live long.
    Displaced,
    /// Its slot is not to be had any more.
    Taken,
    /// The machine is short of something.
    Pressure,
    /// Another tool wants the breakpoints.
    Breakpoints,
    /// Somebody has said so.
    Paused,
    /// Its build is left alone.
    LeftAlone,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// A lease begins.
    Begin {
        /// Of this process.
        process: ProcessId,
        /// It costs so much at most.
        most: Duration,
        /// And at any time at most this share of the CPU time that the process has used since it began.
        share: f64,
    },
    /// A lease ends. Its slot is taken until [`Event::LeaseEnded`].
    End {
        /// Of this process.
        process: ProcessId,
        /// Why.
        reason: Reason,
    },
}
