//! What the tracer is woken for.

use crate::{CREATOR_STACK, TrapRegs};

/// What the gates tell the tracer through the ring buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// One of the `EVENT_` constants.
    pub kind: u32,
    /// The thread or process concerned.
    pub tid: u32,
    /// The thread that caused it.
    pub by: u32,
    /// Keeps the layout free of implicit padding.
    pub reserved: u32,
    /// A program counter, or a generation.
    pub value: u64,
}

/// Where a thread was created, told before its [`EVENT_THREAD`] where there is room for it, in a ring buffer of its own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Creation {
    /// The thread.
    pub tid: u32,
    /// The thread that has called the kernel for it.
    pub by: u32,
    /// When that was, ns, CLOCK_BOOTTIME: with the id, tells the thread from a later one.
    pub boot_ns: u64,
    /// The name of that one.
    pub comm: [u8; 16],
    /// Its registers in user mode; all 0 where they are not known.
    pub regs: TrapRegs,
    /// Bytes of the stack that are valid.
    pub stack_len: u64,
    /// Bytes from `regs.rsp` up.
    pub stack: [u8; CREATOR_STACK],
}

/// A thread was created in the watched process.
pub const EVENT_THREAD: u32 = 1;
/// A sample fell outside all known modules at `value`.
pub const EVENT_UNKNOWN_PC: u32 = 3;
/// The owner made its access in generation `value`.
pub const EVENT_CONFIRMED: u32 = 4;
/// The stall of generation `value` has trapped [`crate::TRAPS_PER_STALL`] times, or in idle times the site
/// that is waited at [`crate::TRAPS_PER_SITE`] times.
pub const EVENT_BUSY: u32 = 5;
/// It is known whether the address is shared that stays watched since `value`, ns, and by whom.
pub const EVENT_SHARED: u32 = 6;
/// The bytes of the stall of generation `value` were accessed, and the thread does not stop for it: by the kernel in a system call, and whether that is
/// evidence is for the tracer to tell, or while the stalled thread is off its processor.
pub const EVENT_HIT: u32 = 7;
/// Others have come [`crate::TRAPS_PER_STALL`] times to where the owner of generation `value` is waited for.
pub const EVENT_CROWDED: u32 = 8;
/// The thread of the stall of generation `value`, which nobody holds, has got a processor: the stall is over.
pub const EVENT_BACK: u32 = 12;
/// In the stall of generation `value` an access was made of which it is known that it races.
pub const EVENT_KNOWN: u32 = 9;
/// The watched process creates more threads than are allowed to be taken in; told once until some are again.
pub const EVENT_THREADS_LEFT: u32 = 10;
/// A probe that stands is hot.
pub const EVENT_HOT: u32 = 13;
/// Thread `tid` of the watched process, which is not held, executes another program; no process is watched from then on.
pub const EVENT_EXEC: u32 = 11;
