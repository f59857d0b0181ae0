//! Evidence: a conflicting access, as a gate has recorded it.

use gwp_race_abi::TrapRegs;

use crate::insn::Regs;

/// A conflicting access, copied out of the shared memory.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The generation it was recorded in.
    pub generation: u64,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: [u8; 16],
    /// The gate has sent it a signal: it stops.
    pub stopping: bool,
    /// The kernel made the access, in the system call `regs.orig_rax`.
    pub in_kernel: bool,
    /// It was made before the stall, when the thread was claimed that is stalled in it.
    pub early: bool,
    /// The eight bytes from the watched address on, after the access.
    pub value: u64,
    /// Registers after the access; for one of the kernel, those with which the program has called it.
    pub regs: TrapRegs,
    /// The thread pointer, 0 where unknown.
    pub fs_base: u64,
    /// Stack bytes from `regs.rsp` up.
    pub stack: Vec<u8>,
}

impl Hit {
    /// The registers after the access.
    #[must_use]
    pub const fn registers(&self) -> Regs {
        user_registers(&self.regs, self.fs_base)
    }
}

/// The registers at a trap in user mode, with the thread pointer, 0 where unknown.
#[must_use]
pub const fn user_registers(regs: &TrapRegs, fs_base: u64) -> Regs {
    Regs {
        r15: regs.r15,
        r14: regs.r14,
        r13: regs.r13,
        r12: regs.r12,
        rbp: regs.rbp,
        rbx: regs.rbx,
        r11: regs.r11,
        r10: regs.r10,
        r9: regs.r9,
        r8: regs.r8,
        rax: regs.rax,
        rcx: regs.rcx,
        rdx: regs.rdx,
        rsi: regs.rsi,
        rdi: regs.rdi,
        rip: regs.rip,
        eflags: regs.eflags,
        rsp: regs.rsp,
        fs_base,
        gs_base: 0,
    }
}
