//! What is known about a hit when it is judged.

use serde::{Deserialize, Serialize};

use crate::insn::{AccessKind, ByteUse, ReadUse};
use crate::pcmeta::Atomicity;

/// Whether the compiler recorded which accesses around a PC are atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Analyzed {
    /// In a covered function that was analyzed for atomics.
    Yes,
    /// In a function without that, or in a module without metadata.
    No,
    /// In a memory routine (memcpy and its kin) or by the kernel in a system call: plain accesses on
    /// behalf of the caller.
    ForCaller {
        /// Whether the caller's code was analyzed.
        caller_analyzed: bool,
    },
    /// In no known module.
    Unknown,
}

/// One of the two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Run-time address of the instruction.
    pub pc: u64,
    /// Run-time address of the first byte.
    pub address: u64,
    /// Number of bytes.
    pub size: u32,
    /// Load, store, or both.
    pub kind: AccessKind,
    /// What the metadata says; `Atomic` too where the instruction locks by itself.
    pub atomicity: Atomicity,
    /// Whether the metadata covers the instruction.
    pub analyzed: Analyzed,
    /// Whether the source is known to ask for the load; of no interest for a store.
    pub read_use: ReadUse,
    /// Which bytes of a load something uses; of no interest for a store.
    pub bytes: ByteUse,
    /// Whether `address` is the access's own; otherwise the access is only known to overlap the
    /// watch.
    pub address_exact: bool,
}

/// How the hit came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Run-time address and length of the watchpoint that was hit.
    pub watch: (u64, u32),
    /// The stalled thread itself made the hit.
    pub same_thread: bool,
    /// The hit carries the stall's generation and lies within its time.
    pub in_stall: bool,
    /// The stalled thread made its access when it was released.
    pub completed: bool,
}

/// What the user wants reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Races between a plain and an atomic access.
    pub mixed: bool,
    /// Races with code that was not analyzed, taking its accesses for plain.
    pub unanalyzed: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mixed: true,
            unanalyzed: false,
        }
    }
}
