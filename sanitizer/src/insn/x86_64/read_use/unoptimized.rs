//! Signs that a function was compiled without optimization: then there is a load in the code
//! where there is one in the source. No table says so, the habits of the code do.

use std::collections::{BTreeSet, HashMap};

use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::super::function::Function;

/// So many signs are asked for: a volatile variable of an optimized function makes one.
const SIGNS: usize = 2;

/// A place in the function's frame: base register and displacement.
type Slot = (Register, u64);

/// Whether the function shows habits that no optimizer has, and uses none of the registers that
/// calls preserve. The habits: to read from the frame what a register still holds or what is a
/// constant, and to jump to the next instruction.
pub(super) fn is_unoptimized(function: Function<'_>, factory: &mut InstructionInfoFactory) -> bool {
    if !has_registers_left(function) {
        return false;
    }
    let targets: BTreeSet<u64> = function
        .instructions()
        .filter(is_direct_jump)
        .map(|jump| jump.near_branch_target())
        .collect();
    let mut stored = Stored::default();
    let mut in_vain: BTreeSet<u64> = BTreeSet::new();
    let mut jumps_to_next = 0;
    for instruction in function.instructions() {
        if targets.contains(&instruction.ip()) {
            stored.forget();
        }
        if instruction.flow_control() != FlowControl::Next {
            jumps_to_next += usize::from(
                instruction.flow_control() == FlowControl::UnconditionalBranch
                    && instruction.near_branch_target() == instruction.next_ip(),
            );
            stored.forget();
            continue;
        }
        let info = factory.info(&instruction);
        in_vain.extend(stored.read_in_vain(&instruction, info));
        stored.execute(&instruction, info);
    }
    in_vain.len() + jumps_to_next >= SIGNS
}

/// What is known to stand in frame slots, since the last place where control flow may join.
#[derive(Default)]
struct Stored(HashMap<Slot, Value>);

/// A stored value and its size in bytes.
#[derive(Clone, Copy)]
struct Value {
    /// The register that still holds it; None for a constant.
    register: Option<Register>,
    size: usize,
}

impl Stored {
    fn forget(&mut self) {
        self.0.clear();
    }

    /// The slot that the instruction need not have read.
    fn read_in_vain(&self, instruction: &Instruction, info: &InstructionInfo) -> Option<u64> {
        let slot = frame_slot(instruction)?;
        let value = self.0.get(&slot)?;
        let reads = (0..instruction.op_count()).any(|i| {
            instruction.op_kind(i) == OpKind::Memory
                && matches!(info.op_access(i), OpAccess::Read | OpAccess::ReadWrite)
        });
        let size = instruction.memory_size().size();
        (reads && (1..=value.size).contains(&size)).then_some(slot.1)
    }

    fn execute(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        for used in info.used_registers() {
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
                let full = used.register().full_register();
                self.0.retain(|slot, value| {
                    let held_in = value.register.map(Register::full_register);
                    slot.0 != full && held_in != Some(full)
                });
            }
        }
        let stores = instruction.op0_kind() == OpKind::Memory
            && !matches!(
                info.op0_access(),
                OpAccess::None | OpAccess::Read | OpAccess::NoMemAccess
            );
        if !stores {
            return;
        }
        let Some(slot) = frame_slot(instruction) else {
            // It may go through a pointer to a slot.
            self.0.clear();
            return;
        };
        let size = instruction.memory_size().size();
        self.0.retain(|&(_, other), value| {
            let apart = |low: u64, high: u64, size: usize| high.wrapping_sub(low) >= size as u64;
            apart(slot.1, other, size) && apart(other, slot.1, value.size)
        });
        let register = match instruction.op1_kind() {
            OpKind::Register if instruction.op1_register().is_gpr() => {
                Some(instruction.op1_register())
            }
            OpKind::Register | OpKind::Memory => return,
            _ => None,
        };
        if instruction.mnemonic() == Mnemonic::Mov {
            self.0.insert(slot, Value { register, size });
        }
    }
}

/// Whether the function never touches a register that calls preserve (System V ABI): compilers
/// that allocate registers spill only when these are used up.
pub(super) fn has_registers_left(function: Function<'_>) -> bool {
    let mut end = function.start;
    for instruction in function.instructions() {
        let preserved = (0..instruction.op_count()).any(|i| {
            instruction.op_kind(i) == OpKind::Register
                && matches!(
                    instruction.op_register(i).full_register(),
                    Register::RBX | Register::R12 | Register::R13 | Register::R14 | Register::R15
                )
        });
        if preserved {
            return false;
        }
        end = instruction.next_ip();
    }
    // What could not be decoded may use them.
    end.wrapping_sub(function.start) == function.code.len() as u64
}

fn is_direct_jump(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    )
}

fn frame_slot(instruction: &Instruction) -> Option<Slot> {
    let base = instruction.memory_base();
    (matches!(base, Register::RBP | Register::RSP) && instruction.memory_index() == Register::None)
        .then(|| (base, instruction.memory_displacement64()))
}
