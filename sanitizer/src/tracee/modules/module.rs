//! One module: a file whose code is mapped, and where.

use std::ops::Range;
use std::path::PathBuf;

use crate::addr::{LinkAddr, RuntimeAddr};
use crate::image::Image;
use crate::kernel::foreign::{FileIdentity, Via};

use super::contents::Contents;
use crate::tracee::maps::Mapping;

/// A file (or the vdso) whose code is mapped into a process, with what is known of it.
#[derive(Clone, Debug)]
pub struct Module<C = Image> {
    /// Its name as the target sees it (inside its own mount namespace).
    pub path: PathBuf,
    /// How the same file can be opened while it is mapped: by its name in the root of the process,
    /// or through the mapping where the file was deleted or replaced. No file for the vdso.
    pub via: Via,
    /// The lowest run-time address of its segments.
    pub start: RuntimeAddr,
    /// The first run-time address after its segments (`.bss` included).
    pub end: RuntimeAddr,
    /// The run-time addresses of its code, ascending and apart from each other.
    pub executable: Vec<Range<u64>>,
    /// The load bias: run-time address = link address + bias (wrapping).
    pub bias: u64,
    /// The device of the file, as `/proc/PID/maps` has it; 0 for the vdso.
    pub dev: u64,
    /// The inode number of the file; 0 for the vdso.
    pub inode: u64,
    /// What tells the file from another one, and from itself after a change; `None` for the vdso.
    pub identity: Option<FileIdentity>,
    /// The file itself. It stays mapped here, so its inode is not used again meanwhile.
    pub image: C,
    /// Whether the file has been deleted or replaced since it was mapped.
    pub deleted: bool,
}

impl<C: Contents> Module<C> {
    /// The linker's build id.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.image.build_id()
    }
}

impl<C> Module<C> {
    /// Whether an address is within the module.
    #[must_use]
    pub fn contains(&self, address: RuntimeAddr) -> bool {
        self.start <= address && address < self.end
    }

    /// Whether an address is within the module's code.
    #[must_use]
    pub fn contains_code(&self, address: RuntimeAddr) -> bool {
        self.executable
            .iter()
            .any(|range| range.contains(&address.0))
    }

    /// The link address that a run-time address has.
    #[must_use]
    pub fn link_address(&self, address: RuntimeAddr) -> LinkAddr {
        LinkAddr(address.0.wrapping_sub(self.bias))
    }

    /// The run-time address that a link address has.
    #[must_use]
    pub fn runtime_address(&self, address: LinkAddr) -> RuntimeAddr {
        RuntimeAddr(address.0.wrapping_add(self.bias))
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.key() == other.key() && self.bias == other.bias && self.executable == other.executable
    }

    fn key(&self) -> (u64, u64, RuntimeAddr) {
        (self.dev, self.inode, self.start)
    }
}

/// Whether code is part of a module already found.
pub(super) fn belongs<C>(mapping: &Mapping, module: &Module<C>) -> bool {
    (mapping.dev, mapping.inode) == (module.dev, module.inode)
        && module.contains(mapping.start)
        && (mapping.is_file() || mapping.start == module.start)
}

/// Adds a range that follows the others, joining it to the last one where they touch.
pub(super) fn push_range(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
