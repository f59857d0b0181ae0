//! Takes from the calling process whatever it can do but compute, and read and write what it has open or is given: for a process
//! that reads what may be hostile.
//!
//! Each of these stands by itself, so that what one kernel lacks, or one layer lets through, the others still forbid.

mod filter;
mod landlock;

use std::{fmt, fs};

use nix::{
    sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit},
    unistd::{SysconfVar, sysconf},
};

use super::{KernelError, process, rights};

/// What it may have of memory of its own, in bytes: with the pages of its program that is less than 100 MB.
pub const MEMORY: u64 = 64 << 20;
/// The same for whoever reads all of a file's tables at once: those of programs of hundreds of megabytes.
pub const LARGE_MEMORY: u64 = 256 << 20;
/// What it may reserve beside that: what is reserved is not used.
const RESERVED: u64 = 32 << 20;
/// Bytes of the stack, which counts by itself.
const STACK: u64 = 8 << 20;
/// Files that it may have open: some for each of those that it reads at a time.
const FILES: u64 = 512;
/// Seconds of CPU time that whoever reads all of a file's tables has: his answer is waited for a third of that.
const CPU: u64 = 60;
/// Bytes of a file that it writes: what was compressed in another one.
const FILE_SIZE: u64 = 2 << 30;

/// How much there is to be for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Memory of its own, in bytes.
    pub memory: u64,
    /// Of its address space for files that are mapped for reading. (Memory that does not count as its own is not to be had: see the filter.)
    files: u64,
    /// Bytes of a file that it writes.
    written: u64,
    /// Seconds of CPU time that it has.
    cpu: u64,
}

impl Room {
    /// For questions about a file and its debug file, of which small ones are mapped.
    pub const USUAL: Self = Self {
        memory: MEMORY,
        files: 2 * (64 << 20),
        written: FILE_SIZE,
        cpu: RLIM_INFINITY,
    };
    /// For all that is told of a file at once, which is only read.
    pub const LARGE: Self = Self {
        memory: LARGE_MEMORY,
        files: 64 << 30,
        written: 0,
        cpu: CPU,
    };

    /// One of the two.
    #[must_use]
    pub const fn of(is_large: bool) -> Self {
        if is_large { Self::LARGE } else { Self::USUAL }
    }
}

/// A part of the sandbox that there is not on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The part.
    pub part: &'static str,
    /// Why.
    pub why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.part, self.why)
    }
}

/// Enters the sandbox, for good. The calling thread must be the only one that does anything from now on. What of it there is not on
/// this machine is told, and done without.
#[must_use]
pub fn enter(room: Room) -> Vec<Missing> {
    type Step<'a> = &'a dyn Fn() -> Result<(), KernelError>;
    let steps: [(&str, Step<'_>); 5] = [
        ("limits", &|| limit(room)),
        ("no capabilities", &rights::drop_all),
        ("no new privileges", &no_new_privileges),
        ("Landlock", &landlock::forbid_all),
        ("seccomp", &filter::install),
    ];
    #[cfg(all(test, target_env = "gnu"))]
    keep_heaps();
    // Whoever may look into this process could make it do things. (It takes nothing from it, and is not undone by what follows.)
    process::keep_private();
    let mut missing = Vec::new();
    for (part, step) in steps {
        if let Err(error) = step() {
            let why = error.to_string();
            missing.push(Missing { part, why });
        }
    }
    missing
}

/// What of the sandbox this kernel does not have, without entering it.
#[must_use]
pub fn missing() -> Vec<Missing> {
    let parts = [
        ("Landlock", landlock::version().map(drop)),
        ("seccomp", filter::is_there()),
    ];
    let missing = parts.into_iter().filter_map(|(part, there)| {
        let why = there.err()?.to_string();
        Some(Missing { part, why })
    });
    missing.collect()
}

/// Readers of tests are threads, and before the C library makes the heap of a thread smaller, it opens a file (`check_may_shrink_heap` in `arena.c`); that of a process's first
/// thread it makes smaller without.
#[cfg(all(test, target_env = "gnu"))]
fn keep_heaps() {
    // SAFETY: it sets a number.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) };
}

fn limit(room: Room) -> Result<(), KernelError> {
    let failed = |cause: nix::Error| KernelError::other("setrlimit", "this process", cause);
    let addresses = mapped().saturating_add(room.memory + RESERVED + room.files);
    let limits = [
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_NPROC, 0),
        (Resource::RLIMIT_NOFILE, FILES),
        (Resource::RLIMIT_FSIZE, room.written),
        (Resource::RLIMIT_DATA, room.memory),
        (Resource::RLIMIT_CPU, room.cpu),
        (Resource::RLIMIT_STACK, STACK),
        (Resource::RLIMIT_AS, addresses),
    ];
    for (resource, most) in limits {
        // Whoever has started us may allow less.
        let (_, before) = getrlimit(resource).map_err(failed)?;
        let most = most.min(before);
        setrlimit(resource, most, most).map_err(failed)?;
    }
    Ok(())
}

/// Bytes of the address space that are mapped (proc_pid_statm(5)).
fn mapped() -> u64 {
    /// More than any program has.
    const UNKNOWN: u64 = 1 << 30;
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    let bytes = pages.zip(size.and_then(|size| u64::try_from(size).ok()));
    bytes.map_or(UNKNOWN, |(pages, size)| pages.saturating_mul(size))
}

fn no_new_privileges() -> Result<(), KernelError> {
    nix::sys::prctl::set_no_new_privs()
        .map_err(|cause| KernelError::other("prctl(PR_SET_NO_NEW_PRIVS)", "this process", cause))
}
