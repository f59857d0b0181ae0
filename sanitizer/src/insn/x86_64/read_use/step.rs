//! What one instruction does with what is followed.

use iced_x86::{
    ConditionCode, FlowControl, Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register,
};

use crate::insn::x86_64::operands::operands;
use crate::insn::x86_64::registers::{ARGUMENTS, CALLER_SAVED};

use super::effect::{Effect, effect, scalar_bytes};
use super::{Follow, Share, Step, is_set_on_condition, unoptimized};

impl<'a> Follow<'a> {
    pub(super) fn step(
        &mut self,
        instruction: &Instruction,
        info: &InstructionInfo,
        is_entry: &dyn Fn(u64) -> bool,
    ) -> Step {
        let next = Step::Next(instruction.next_ip());
        match instruction.flow_control() {
            FlowControl::Next => {}
            FlowControl::UnconditionalBranch => {
                let target = instruction.near_branch_target();
                if self.function.contains(target) {
                    return Step::Next(target);
                }
                if !is_entry(target) {
                    return Step::End;
                }
                // To another function: a call whose result is returned.
                return self.argument().map_or(Step::End, Step::Proof);
            }
            FlowControl::ConditionalBranch => {
                // Those without a condition code count rcx down.
                return if instruction.condition_code() == ConditionCode::None {
                    Step::End
                } else {
                    Step::Branch {
                        on_value: self.flags.is_some(),
                    }
                };
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                if matches!(instruction.mnemonic(), Mnemonic::Call) {
                    if let Some(share) = self.named(instruction) {
                        return Step::Proof(share);
                    }
                    if let Some(share) = self.argument() {
                        return Step::Proof(share);
                    }
                    self.clobber();
                    return next;
                }
                return Step::End;
            }
            FlowControl::IndirectBranch => {
                return self.named(instruction).map_or(Step::End, Step::Proof);
            }
            FlowControl::Return => {
                let result = [Register::RAX, Register::RDX, Register::XMM0, Register::XMM1];
                let held = result
                    .into_iter()
                    .filter_map(|register| self.handed_over(register))
                    .max();
                return held.map_or(Step::End, Step::Proof);
            }
            _ => return Step::End,
        }

        if instruction.mnemonic() == Mnemonic::Nop {
            return next;
        }
        if let Some(share) = self.address(info) {
            let accesses = operands(instruction, info);
            if accesses
                .iter()
                .any(|operand| operand.kind.writes() && !operand.stack_implicit)
            {
                return Step::Proof(share);
            }
            // A load through the value: its own value must now be proven to be used.
            let chained = match effect(instruction) {
                Effect::Move | Effect::Keep if share != Share::Part => {
                    Share::Whole(u32::try_from(instruction.memory_size().size()).unwrap_or(0))
                }
                Effect::Move | Effect::Keep => Share::Part,
                Effect::Narrow | Effect::Compare => Share::Part,
                Effect::Mask => return Step::End,
            };
            self.leave(instruction, info, Some(chained));
            return next;
        }

        let read = self.read(instruction, info);
        let reads_flags = self.flags.is_some() && instruction.rflags_read() != 0;
        if reads_flags && !is_set_on_condition(instruction) {
            return Step::End;
        }
        let Some(share) = read.or(if reads_flags { self.flags } else { None }) else {
            self.leave(instruction, info, None);
            return next;
        };
        match instruction.mnemonic() {
            // A dummy push keeps the stack aligned; a real one saves a register.
            Mnemonic::Push => {
                self.leave(instruction, info, None);
                return next;
            }
            Mnemonic::Xchg => return Step::End,
            _ => {}
        }
        if instruction.op0_kind() == OpKind::Memory && info.op0_access() != OpAccess::Read {
            return self.store(instruction, info, share);
        }
        let result = match effect(instruction) {
            Effect::Move | Effect::Keep => scalar_bytes(instruction.mnemonic())
                .map_or(share, |bytes| share.seen_through(bytes)),
            Effect::Narrow | Effect::Compare => Share::Part,
            Effect::Mask => return Step::End,
        };
        self.leave(instruction, info, Some(result));
        next
    }

    /// The value goes to memory.
    fn store(&mut self, instruction: &Instruction, info: &InstructionInfo, share: Share) -> Step {
        let kept = match effect(instruction) {
            Effect::Move | Effect::Keep => true,
            Effect::Narrow | Effect::Compare | Effect::Mask => false,
        };
        let base = instruction.memory_base();
        if matches!(base, Register::RSP | Register::RBP) {
            // A spilled register looks the same.
            let general =
                instruction.op1_kind() == OpKind::Register && instruction.op1_register().is_gpr();
            if kept
                && general
                && info.op0_access() == OpAccess::Write
                && unoptimized::has_registers_left(self.function)
            {
                return Step::Proof(share.seen_through(instruction.memory_size().size()));
            }
            if !kept {
                return Step::End;
            }
            self.leave(instruction, info, None);
            return Step::Next(instruction.next_ip());
        }
        if kept || is_set_on_condition(instruction) {
            Step::Proof(share.seen_through(instruction.memory_size().size()))
        } else {
            Step::End
        }
    }

    /// The value in a register that makes the address of a memory operand.
    pub(super) fn address(&self, info: &InstructionInfo) -> Option<Share> {
        info.used_memory()
            .iter()
            .flat_map(|memory| [memory.base(), memory.index()])
            .filter_map(|register| self.held(register))
            .max()
    }

    /// The value in an operand of a call or jump.
    fn named(&self, instruction: &Instruction) -> Option<Share> {
        match instruction.op0_kind() {
            OpKind::Register => self.held(instruction.op0_register()),
            OpKind::Memory => [instruction.memory_base(), instruction.memory_index()]
                .into_iter()
                .filter_map(|register| self.held(register))
                .max(),
            _ => None,
        }
    }

    /// The value among the registers that an instruction reads.
    fn read(&self, instruction: &Instruction, info: &InstructionInfo) -> Option<Share> {
        if instruction.mnemonic() == Mnemonic::Lea {
            return [instruction.memory_base(), instruction.memory_index()]
                .into_iter()
                .filter_map(|register| self.held(register))
                .max();
        }
        info.used_registers()
            .iter()
            // What is overwritten under a condition is read under the other.
            .filter(|used| used.access() != OpAccess::Write)
            .filter(|used| !self.only_merges(instruction, used.register()))
            .filter_map(|used| self.held(used.register()))
            .max()
    }

    /// Scalar moves and conversions into a vector register keep its upper part, which is not a
    /// use of the value.
    fn only_merges(&self, instruction: &Instruction, register: Register) -> bool {
        use Mnemonic as M;
        matches!(
            instruction.mnemonic(),
            M::Movss
                | M::Movsd
                | M::Cvtsi2sd
                | M::Cvtsi2ss
                | M::Cvtss2sd
                | M::Cvtsd2ss
                | M::Sqrtsd
                | M::Sqrtss
        ) && instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().full_register() == register.full_register()
            && instruction.op1_kind() == OpKind::Register
            && instruction.op1_register().full_register() != register.full_register()
    }

    /// The value in a register that the System V ABI passes an argument in.
    fn argument(&self) -> Option<Share> {
        let vectors = [
            Register::XMM0,
            Register::XMM1,
            Register::XMM2,
            Register::XMM3,
            Register::XMM4,
            Register::XMM5,
            Register::XMM6,
            Register::XMM7,
        ];
        ARGUMENTS
            .into_iter()
            .chain(vectors)
            .filter_map(|register| self.handed_over(register))
            .max()
    }

    /// Forgets what a call need not preserve.
    fn clobber(&mut self) {
        for register in CALLER_SAVED {
            if let Some(holder) = self.holder(register) {
                *holder = None;
            }
        }
        self.vectors = [None; 32];
        self.flags = None;
    }
}
