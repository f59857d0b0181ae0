//! One row of unwind tables (DWARF 5, 6.4.1) as far as it is of a usual form: where the caller's registers are. Nothing is
//! evaluated that a file could make as long as it likes.

use gimli::{Register, X86_64};
use serde::{Deserialize, Serialize};

use crate::insn::Regs;
use crate::symbols::StackSnapshot;
use crate::symbols::unwind_rules::{Memory as _, Registers};

/// The registers that a call preserves (System V ABI for x86-64, figure 3.4), beside the stack pointer.
pub(super) const SAVED: [Register; 6] = [
    X86_64::RBX,
    X86_64::RBP,
    X86_64::R12,
    X86_64::R13,
    X86_64::R14,
    X86_64::R15,
];

/// Where the frame ends: the stack pointer before the call (canonical frame address).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Frame {
    /// So far from where a register points.
    At(u8, i32),
    /// The same, of what stands there: of frames that were aligned anew.
    Behind(u8, i32),
    /// In a stub of the linker: so far above the stack pointer, and eight bytes further from this byte of sixteen on.
    Stub(i32, u8),
}

/// What a register had in the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Saved {
    /// What it has now.
    Same,
    /// What stands so far from the frame's end.
    At(i32),
    /// The address so far from there.
    Address(i32),
    /// What another one has.
    In(u8),
    /// What stands so far from where another one points.
    Behind(u8, i32),
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Rule {
    pub(super) frame: Frame,
    pub(super) return_address: Saved,
    pub(super) saved: [Saved; SAVED.len()],
}

impl Rule {
    /// The caller's registers as far as a call preserves them; nothing where memory is wanted for one that is not known.
    pub(super) fn caller(&self, regs: &Regs, stack: &StackSnapshot) -> Option<Regs> {
        let registers = Registers::new(regs);
        let register = |number: u8| registers.get(Register(number.into()));
        let near = |number, offset: i32| Some(register(number)?.wrapping_add_signed(offset.into()));
        let read = |address| stack.read(address, 8);
        let end = match self.frame {
            Frame::At(number, offset) => near(number, offset)?,
            Frame::Behind(number, offset) => read(near(number, offset)?)?,
            Frame::Stub(offset, from) => {
                let is_pushed = regs.rip & 15 >= u64::from(from);
                let pushed = if is_pushed { 8 } else { 0 };
                regs.rsp
                    .wrapping_add_signed(offset.into())
                    .wrapping_add(pushed)
            }
        };
        let behind = |offset: i32| end.wrapping_add_signed(offset.into());
        let value = |rule, own: Register| match rule {
            Saved::Same => registers.get(own),
            Saved::At(offset) => read(behind(offset)),
            Saved::Address(offset) => Some(behind(offset)),
            Saved::In(other) => register(other),
            Saved::Behind(other, offset) => read(near(other, offset)?),
        };
        let [rbx, rbp, r12, r13, r14, r15] = self.saved;
        Some(Regs {
            rip: value(self.return_address, X86_64::RA)?,
            rsp: end,
            rbx: value(rbx, X86_64::RBX)?,
            rbp: value(rbp, X86_64::RBP)?,
            r12: value(r12, X86_64::R12)?,
            r13: value(r13, X86_64::R13)?,
            r14: value(r14, X86_64::R14)?,
            r15: value(r15, X86_64::R15)?,
            ..Regs::default()
        })
    }
}
