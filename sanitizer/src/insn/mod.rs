//! One machine instruction: which bytes it reads and writes, given registers.
//!
//! Pure code: bytes and registers in, facts out. One folder an architecture.

mod access;
mod byte_use;
mod read_use;
mod transfer;
pub mod x86_64;

pub use access::{Attributed, MemAccess, Undetermined, ranges_overlap};
pub use byte_use::{ByteUse, Destination, MOST_BYTES};
pub use read_use::ReadUse;
pub use transfer::{Exit, Transfer};

use serde::{Deserialize, Serialize};

/// The user-mode registers of a stopped thread, x86-64: what `struct pt_regs` and
/// `struct user_regs_struct` have in common, in the kernel's names.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Regs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rip: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub fs_base: u64,
    pub gs_base: u64,
}

/// The resume flag: a breakpoint on the instruction has trapped, and it was not executed since (SDM vol. 3, "Instruction-Breakpoint Exception
/// Condition"). Linux sets it when it is done with such a trap; the processor clears it when an instruction is complete, and
/// shows it to whatever interrupts before that.
const EFLAGS_RF: u64 = 1 << 16;

impl Regs {
    /// Whether the thread has executed nothing since a breakpoint on its next instruction has trapped.
    #[must_use]
    pub const fn has_just_trapped(&self) -> bool {
        self.eflags & EFLAGS_RF != 0
    }

    /// The sixteen general registers in the order of their DWARF numbers (System V ABI for x86-64, figure
    /// 3.36).
    #[must_use]
    pub const fn in_dwarf_order(&self) -> [u64; 16] {
        [
            self.rax, self.rdx, self.rcx, self.rbx, self.rsi, self.rdi, self.rbp, self.rsp,
            self.r8, self.r9, self.r10, self.r11, self.r12, self.r13, self.r14, self.r15,
        ]
    }
}

/// What an access does to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// Loads only.
    Read,
    /// Stores only.
    Write,
    /// Loads and stores the same bytes in one instruction.
    ReadWrite,
}

impl AccessKind {
    /// Whether the access stores.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}
