//! What the symbolizer needs to know of a mapped file: plain data, so that it depends on no
//! way of finding modules, and so that it can travel between processes.

use serde::{Deserialize, Serialize};

use crate::kernel::foreign::Via;

/// One file mapped into a process: an executable, a shared library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// The file's name as the target sees it; this is what reports print.
    pub path: String,
    /// How the same file can be opened. What it names itself is looked for in the same root only.
    pub via: Via,
    /// The lowest run-time address of the module's mappings.
    pub start: u64,
    /// The first run-time address past the module's mappings.
    pub end: u64,
    /// The load bias: run-time address = link-time address + bias (wrapping).
    pub bias: u64,
    /// The GNU build id, empty where the file has none.
    pub build_id: Vec<u8>,
}

impl ModuleInfo {
    /// Whether a run-time address is inside the module.
    #[must_use]
    pub const fn contains(&self, addr: u64) -> bool {
        self.start <= addr && addr < self.end
    }
}

/// The bytes of a thread's stack, copied while the thread was at a known instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackSnapshot {
    /// The run-time address of the first byte, usually the stack pointer.
    pub base: u64,
    /// The bytes from there upwards.
    pub bytes: Vec<u8>,
}
