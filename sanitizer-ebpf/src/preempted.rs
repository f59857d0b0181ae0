//! Threads of the watched process that were taken from their processor in the midst of user code, and have not got one again.

use core::sync::atomic::AtomicU64;

use crate::TrapRegs;

/// How many are noted at a time, a power of two; one that has no place, because another thread has it, is not noted.
pub const PREEMPTED: usize = 256;

/// In [`PreemptedThread::flags`]: a signal waits for it.
pub const SIGNAL_PENDING: u64 = 1;

/// What is noted of a thread. The gate alone writes it.
#[repr(C)]
pub struct PreemptedThread {
    /// Odd while the rest is whole and the thread off its processors; one more each time that this ends or begins.
    pub turn: AtomicU64,
    /// The kernel's pointer to it; 0 where the place is free.
    pub task: AtomicU64,
    /// What [`crate::control::Preemption::wanted`] was then: what was noted before that changed may be out of date.
    pub epoch: AtomicU64,
    /// The thread.
    pub tid: u64,
    /// When it was taken from its processor, CLOCK_MONOTONIC ns.
    pub out_ns: u64,
    /// [`SIGNAL_PENDING`], or 0.
    pub flags: u64,
    /// Address of its `struct rseq`; 0: it has none.
    pub rseq: u64,
    /// The thread pointer, 0 where unknown.
    pub fs_base: u64,
    /// Registers with which it goes on.
    pub regs: TrapRegs,
}

/// The place of a task in the table.
#[must_use]
#[inline(always)]
pub const fn place_of(task: u64) -> u32 {
    /// 2^64 divided by the golden ratio. Tasks lie at regular distances; multiplied once, those may still fall together.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = task.wrapping_mul(SPREAD);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(SPREAD);
    (mixed >> (64 - PREEMPTED.trailing_zeros())) as u32
}

/// Whether a thread that leaves its processor goes on with the next instruction of its user code, and nothing but a signal can come
/// before that: it could run on (`state`, as the scheduler has it, is 0: `TASK_RUNNING`), and has come into the kernel from user
/// mode by an interrupt or a fault, for which the kernel notes no system call (`orig_rax` is negative).
#[must_use]
#[inline(always)]
pub const fn stands_in_user_code(state: u64, regs: &TrapRegs) -> bool {
    /// The privilege bits of a code segment: 3 in user mode.
    const RING: u64 = 3;
    state as u32 == 0 && regs.cs & RING == RING && (regs.orig_rax as i64) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a thread counts only where it could run on, was in user mode, and was not in a system call.
    #[test]
    fn who_stands_in_user_code() {
        let user = TrapRegs {
            cs: 0x33,
            orig_rax: u64::MAX,
            ..TrapRegs::default()
        };
        assert!(stands_in_user_code(0, &user));
        // The upper half of the argument is not the state's.
        assert!(stands_in_user_code(1 << 32, &user));
        for state in [1, 2, 4, 8, 0x402] {
            assert!(!stands_in_user_code(state, &user));
        }
        for orig_rax in [0, 202, 1 << 40] {
            assert!(!stands_in_user_code(0, &TrapRegs { orig_rax, ..user }));
        }
        assert!(!stands_in_user_code(0, &TrapRegs { cs: 0x10, ..user }));
    }

    /// Check that tasks that lie behind each other have places of their own, as a rule.
    #[test]
    fn places_are_spread() {
        for distance in [0x1f80, 0x2000, 0x2940, 0x3400, 0x4000] {
            let mut taken = [0_u8; PREEMPTED];
            for index in 0..64 {
                let place = place_of(0xffff_8881_0000_0000 + index * distance) as usize;
                taken[place] += 1;
            }
            let alone = taken.iter().filter(|count| **count == 1).count();
            assert!(alone > 35, "{distance:#x}: {alone}");
        }
    }
}
