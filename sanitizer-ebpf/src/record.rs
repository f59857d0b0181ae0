//! A conflicting access, as a gate keeps it.

use core::sync::atomic::AtomicU64;

use crate::STACK_BYTES;

/// General-purpose registers at the trap, in the order of `struct pt_regs`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct TrapRegs {
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
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// A conflicting access, as the gate saw it.
#[repr(C)]
pub struct HitRecord {
    /// The generation it belongs to; written last.
    pub generation: AtomicU64,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Thread.
    pub tid: u32,
    /// 1: the thread was sent a signal and stops.
    pub stopping: u32,
    /// The eight bytes at the watched address (aligned down to its length) after the access.
    pub value: u64,
    /// Stack bytes that are valid.
    pub stack_len: u32,
    /// The thread's name is in `comm`.
    pub comm: [u8; 16],
    /// 1: the kernel made the access, in the system call `regs.orig_rax`.
    pub in_kernel: u32,
    /// 1: it was made before the stall, when the thread was claimed that is stalled in it.
    pub early: u32,
    /// Registers after the access; for one of the kernel, those with which the program has called it.
    pub regs: TrapRegs,
    /// The thread pointer, 0 where unknown. The kernel's copy: a program that moved it with
    /// `wrfsbase` since its last switch has another one, and what it accessed by it is not matched.
    pub fs_base: u64,
    /// Bytes from `regs.rsp` up.
    pub stack: [u8; STACK_BYTES],
}
