//! Where the bytes that an instruction loads are stored as they are.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind};

use super::super::function::Function;
use super::super::operands::operands;
use super::super::registers::{GprSet, written};
use super::constants::is_whole_move;
use crate::insn::{ByteUse, Destination, Regs};

/// How many instructions may stand between a load and the store of what it loads.
const FARTHEST: usize = 32;

/// Where what the instruction at `pc` loads is copied to, byte by byte.
/// `bytes` is what is known of the load, `regs` those before or right after it; `code` are the bytes of its function,
/// from `function_start` on. None where there are several such places, or the address is not known.
#[must_use]
pub fn copied_to(
    function_start: u64,
    code: &[u8],
    pc: u64,
    bytes: &ByteUse,
    regs: &Regs,
) -> Option<Destination> {
    let function = Function {
        start: function_start,
        code,
    };
    let store_pc = pc.checked_add(bytes.copied_by?.into())?;
    let load = function.at(pc)?;
    let is_load = is_move(&load, 1) && load.op0_kind() == OpKind::Register;
    if !is_load || load.memory_size().size() != load.op0_register().size() {
        return None;
    }
    let mut factory = InstructionInfoFactory::new();
    // What the address is made of must still be what it was at the load.
    let mut changed = GprSet::default();
    changed.insert(load.op0_register());
    let mut at = load.next_ip();
    for _ in 0..FARTHEST {
        let instruction = function.at(at)?;
        let info = factory.info(&instruction);
        if at == store_pc {
            let is_store = is_move(&instruction, 0)
                && instruction.op1_kind() == OpKind::Register
                && instruction.op1_register() == load.op0_register();
            let operands = operands(&instruction, info);
            let [operand] = operands.as_slice() else {
                return None;
            };
            if !is_store || changed.intersects(operand.address_registers()) {
                return None;
            }
            return Some(Destination {
                address: operand.address(regs)?,
                stored: instruction.next_ip(),
            });
        }
        let target = load.op0_register().full_register();
        let ends = instruction.flow_control() != FlowControl::Next;
        if ends || written(info).any(|register| register == target) {
            return None;
        }
        written(info).for_each(|register| changed.insert(register));
        at = instruction.next_ip();
    }
    None
}

/// Whether an instruction moves a register's whole value from or to memory, which is its operand of that number.
fn is_move(instruction: &Instruction, memory: u32) -> bool {
    let mnemonic = instruction.mnemonic();
    let moves = mnemonic == Mnemonic::Mov || is_whole_move(mnemonic);
    moves && instruction.op_count() == 2 && instruction.op_kind(memory) == OpKind::Memory
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::assemble;
    use super::super::byte_use;
    use super::*;

    const START: u64 = 0x40_0000;

    fn destination(source: &str) -> Option<u64> {
        let code = assemble(source);
        let regs = Regs {
            rsi: 0x2000,
            rsp: 0x7000,
            ..Regs::default()
        };
        let bytes = byte_use(START, &code, START, &|_, _| None, false);
        let copy = copied_to(START, &code, START, &bytes, &regs)?;
        assert!(copy.stored > START);
        Some(copy.address)
    }

    /// Check that a copy's place is told where it is one, by registers that are still the same.
    #[test]
    fn places() {
        for (source, expected) in [
            ("mov rax, [rdi]\nmov [rsi + 8], rax\nret", Some(0x2008)),
            (
                "mov rax, [rdi]\nmov [rsp], rax\nmov rdi, rsp\ncall 1f\n1: ret",
                Some(0x7000),
            ),
            (
                "movups xmm0, [rdi]\nmov rcx, [rdx]\nmovaps [rsi], xmm0\nret",
                Some(0x2000),
            ),
            (
                "vmovdqu64 zmm1, [rdi]\nvmovdqu64 [rsi], zmm1\nret",
                Some(0x2000),
            ),
            // The address is another one by now, or made of what was loaded.
            ("mov rax, [rdi]\nadd rsi, 8\nmov [rsi], rax\nret", None),
            ("mov rsi, [rdi]\nmov [rsi], rsi\nret", None),
            // There are two copies, or a part of it is another's.
            (
                "mov rax, [rdi]\nmov [rsi], rax\nmov [rsi + 8], rax\nret",
                None,
            ),
            ("mov rax, [rdi]\nmov al, 1\nmov [rsi], rax\nret", None),
            ("mov rax, [rdi]\nshr rax, 8\nmov [rsi], rax\nret", None),
            // On one of two ways only.
            (
                "mov rax, [rdi]\ntest edx, edx\nje 1f\nmov [rsi], rax\n1: ret",
                None,
            ),
            ("mov rax, [rdi]\nmov ecx, eax\nret", None),
        ] {
            assert_eq!(destination(source), expected, "{source}");
        }
    }
}
