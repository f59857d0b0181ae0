//! What may be spent on the processes of a machine, and how far that can be set.

use std::ops::RangeInclusive;

use super::pressure::{HIGH, Pressure};

/// What an administrator may set each share of [`Budget`] to. Above it, the promise that watching does not hurt would be his alone.
pub const SHARE: RangeInclusive<f64> = 0.0001..=0.1;
/// So much of the CPU time of a process may a lease cost it at most, while it lasts.
pub const LEASE_SHARE: RangeInclusive<f64> = 0.001..=0.2;
/// Leases at the same time: as many slots as the tables of the gates have.
pub const LEASES: RangeInclusive<u64> = 1..=4;
/// Pressure above which nobody is watched, as a share of time.
pub const PRESSURE: RangeInclusive<f64> = 0.05..=1.0;

/// What all of gwp-race may take of the machine's memory, bytes: it takes about half of the least without watching anybody.
pub const MEMORY: RangeInclusive<u64> = 64 << 20..=16 << 30;

/// What the agent may keep of what is not sent yet, bytes.
pub const SPOOL: RangeInclusive<u64> = 4 << 20..=16 << 30;

/// What may be spent; 1 is all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Of the machine's CPU time.
    pub host: f64,
    /// Of the CPU time of a process, in the long run.
    pub process: f64,
    /// Of the CPU time of a process, while it has a lease.
    pub lease: f64,
}

/// How a machine's processes are watched, but for the rules that say which.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// What may be spent.
    pub budget: Budget,
    /// Leases at the same time.
    pub leases: usize,
    /// Nobody is watched any more while all of gwp-race takes more memory than this, bytes.
    pub memory: u64,
    /// What the agent keeps of what is not sent yet, bytes.
    pub spool: u64,
    /// Above it nobody is watched.
    pub pressure: Pressure,
    /// Another tool that takes breakpoints gets all of them for a while.
    pub yields_breakpoints: bool,
    /// Reports tell the bytes that were watched, which may be secrets.
    pub values: bool,
    /// The share of the machines that watch at all.
    pub rollout: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget: Budget {
                host: 0.01,
                process: 0.01,
                lease: 0.05,
            },
            leases: 4,
            memory: 150 << 20,
            spool: 64 << 20,
            pressure: HIGH,
            yields_breakpoints: true,
            values: false,
            rollout: 1.0,
        }
    }
}
