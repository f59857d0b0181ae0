//! iced's register names against the registers that an event records.

use iced_x86::{InstructionInfo, OpAccess, Register};

use crate::insn::Regs;

/// The direction flag: string instructions count down where it is set (SDM vol. 1, 3.4.3.2).
const EFLAGS_DF: u64 = 1 << 10;

/// General registers that hold the first arguments of a call (System V ABI for x86-64, 3.2.3).
pub(super) const ARGUMENTS: [Register; 6] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
];

/// A set of general registers, each standing for all of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GprSet(u16);

impl GprSet {
    /// Adds the full register of `register`; other kinds of registers are left out.
    pub(super) fn insert(&mut self, register: Register) {
        self.0 |= Self::bit(register);
    }

    pub(super) fn remove(&mut self, register: Register) {
        self.0 &= !Self::bit(register);
    }

    pub(super) fn contains(self, register: Register) -> bool {
        self.0 & Self::bit(register) != 0
    }

    pub(super) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn bit(register: Register) -> u16 {
        let full = register.full_register();
        if full.is_gpr64() {
            1u16.checked_shl(full.number() as u32).unwrap_or(0)
        } else {
            0
        }
    }
}

/// The full registers of all that an instruction writes, or may.
pub(super) fn written(info: &InstructionInfo) -> impl Iterator<Item = Register> {
    let used = info.used_registers().iter();
    let written = used.filter(|used| {
        !matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::None
        )
    });
    written.map(|used| used.register().full_register())
}

/// Whether string instructions count down.
pub(super) const fn counts_down(regs: &Regs) -> bool {
    regs.eflags & EFLAGS_DF != 0
}

/// The slot of a full general register in `regs`.
pub(super) fn slot(regs: &mut Regs, register: Register) -> Option<&mut u64> {
    Some(match register.full_register() {
        Register::RAX => &mut regs.rax,
        Register::RCX => &mut regs.rcx,
        Register::RDX => &mut regs.rdx,
        Register::RBX => &mut regs.rbx,
        Register::RSP => &mut regs.rsp,
        Register::RBP => &mut regs.rbp,
        Register::RSI => &mut regs.rsi,
        Register::RDI => &mut regs.rdi,
        Register::R8 => &mut regs.r8,
        Register::R9 => &mut regs.r9,
        Register::R10 => &mut regs.r10,
        Register::R11 => &mut regs.r11,
        Register::R12 => &mut regs.r12,
        Register::R13 => &mut regs.r13,
        Register::R14 => &mut regs.r14,
        Register::R15 => &mut regs.r15,
        _ => return None,
    })
}

/// The registers that a call may change (System V ABI for x86-64, figure 3.4).
pub(super) const CALLER_SAVED: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// The value of a general register or part of one, zero-extended; the base of a segment register
/// (only fs and gs have one in 64-bit mode). None for vector, mask and other registers.
pub(super) fn value(regs: &Regs, register: Register) -> Option<u64> {
    match register {
        Register::FS => return Some(regs.fs_base),
        Register::GS => return Some(regs.gs_base),
        Register::ES | Register::CS | Register::SS | Register::DS => return Some(0),
        _ => {}
    }
    let mut copy = *regs;
    let full = *slot(&mut copy, register)?;
    Some(match register {
        Register::AH | Register::BH | Register::CH | Register::DH => (full >> 8) & 0xff,
        _ => match register.size() {
            1 => full & 0xff,
            2 => full & 0xffff,
            4 => full & 0xffff_ffff,
            _ => full,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that parts of registers are cut out of the right place.
    #[test]
    fn parts_of_registers() {
        let regs = Regs {
            rax: 0x1122_3344_5566_7788,
            fs_base: 7,
            ..Regs::default()
        };
        assert_eq!(value(&regs, Register::AL), Some(0x88));
        assert_eq!(value(&regs, Register::AH), Some(0x77));
        assert_eq!(value(&regs, Register::AX), Some(0x7788));
        assert_eq!(value(&regs, Register::EAX), Some(0x5566_7788));
        assert_eq!(value(&regs, Register::RAX), Some(0x1122_3344_5566_7788));
        assert_eq!(value(&regs, Register::FS), Some(7));
        assert_eq!(value(&regs, Register::XMM0), None);
    }

    /// Check that a set knows a register by any of its parts.
    #[test]
    fn sets_hold_full_registers() {
        let mut set = GprSet::default();
        set.insert(Register::EBX);
        set.insert(Register::XMM3);
        assert!(set.contains(Register::BH) && set.contains(Register::RBX));
        assert!(!set.contains(Register::XMM3) && !set.contains(Register::R11));
        set.remove(Register::RBX);
        assert_eq!(set, GprSet::default());
    }
}
