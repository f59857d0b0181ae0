//! Addresses that code computes without looking at what is there, as it does to give them to another function: of variables, and of members of objects.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use super::registers;
use crate::insn::Regs;

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// It follows from the instruction, and the registers that were given.
    Is(u64),
    /// It stands at this address: a variable that is a pointer, or an entry of the global offset table.
    At(u64),
}

/// Decodes code, the first byte of which stands at `start`, and tells of such addresses, in their order. `regs` are those at one instruction of it: elsewhere
/// in the code they may have been others, and some of what is told is no address then.
pub fn pointers(code: &[u8], start: u64, regs: &Regs, tell: &mut dyn FnMut(Pointer)) {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return;
        }
        if let Some(pointer) = pointer(&instruction, regs) {
            tell(pointer);
        }
    }
}

fn pointer(instruction: &Instruction, regs: &Regs) -> Option<Pointer> {
    if instruction.op_count() != 2 || instruction.op0_kind() != OpKind::Register {
        return None;
    }
    let is_address = instruction.op0_register().full_register().is_gpr64();
    match (instruction.mnemonic(), instruction.op1_kind()) {
        _ if !is_address => None,
        (Mnemonic::Lea, OpKind::Memory) => of_operand(instruction, regs).map(Pointer::Is),
        (Mnemonic::Mov, OpKind::Memory) if instruction.is_ip_rel_memory_operand() => {
            let is_whole = instruction.op0_register().is_gpr64();
            is_whole.then(|| Pointer::At(instruction.ip_rel_memory_address()))
        }
        (Mnemonic::Mov, OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64) => {
            Some(Pointer::Is(instruction.immediate(1)))
        }
        _ => None,
    }
}

/// The address of an operand that is no element of an array.
fn of_operand(instruction: &Instruction, regs: &Regs) -> Option<u64> {
    if instruction.is_ip_rel_memory_operand() {
        return Some(instruction.ip_rel_memory_address());
    }
    if instruction.memory_index() != Register::None {
        return None;
    }
    let displacement = instruction.memory_displacement64();
    match instruction.memory_base() {
        Register::None => Some(displacement),
        base => Some(registers::value(regs, base)?.wrapping_add(displacement)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::assemble;
    use super::*;

    /// Check which instructions tell of an address, and which do not.
    #[test]
    fn addresses_of_variables_and_members() {
        const START: u64 = 0x40_0000;
        let regs = Regs {
            rbx: 0x7000,
            ..Regs::default()
        };
        let told = |source: &str| {
            let mut told = Vec::new();
            pointers(&assemble(source), START, &regs, &mut |pointer| {
                told.push(pointer);
            });
            told
        };
        assert_eq!(
            told("lea rdi, [rip + 0x100]"),
            [Pointer::Is(START + 7 + 0x100)]
        );
        assert_eq!(told("lea rdi, [rbx + 40]"), [Pointer::Is(0x7028)]);
        assert_eq!(told("mov edi, 0x404060"), [Pointer::Is(0x40_4060)]);
        assert_eq!(
            told("movabs rdi, 0x555500001234"),
            [Pointer::Is(0x5555_0000_1234)]
        );
        assert_eq!(
            told("nop\nmov rax, [rip + 0x20]"),
            [Pointer::At(START + 8 + 0x20)]
        );
        for other in [
            "lea rdi, [rbx + 8*rcx]",
            "mov eax, [rip + 0x20]",
            "mov rax, [rbx + 8]",
            "mov [rip + 0x20], rax",
            "add rdi, 40",
            "mov rdi, rbx",
        ] {
            assert_eq!(told(other), [], "{other}");
        }
    }
}
