//! Which bytes of the load are in what an instruction reads.

use iced_x86::{Instruction, InstructionInfo, OpAccess, OpKind};

use super::frame::Place;
use super::state::State;

pub(super) fn union(result: &[u64]) -> u64 {
    result.iter().fold(0, |all, bytes| all | bytes)
}

pub(super) fn sources_moved(instruction: &Instruction, state: &State) -> bool {
    (0..instruction.op_count())
        .filter(|&i| instruction.op_kind(i) == OpKind::Register)
        .filter(|&i| i > 0 || instruction.op_count() == 1)
        .all(|i| state.is_moved(instruction.op_register(i)))
}

pub(super) fn age_read(info: &InstructionInfo, state: &mut State) {
    for used in info.used_registers() {
        if used.access() != OpAccess::Write {
            state.age_register(used.register());
        }
    }
}

/// What is in registers that make an address.
pub(super) fn address_taint(info: &InstructionInfo, state: &State) -> u64 {
    info.used_memory()
        .iter()
        .flat_map(|memory| [memory.base(), memory.index()])
        .fold(0, |all, register| all | state.register(register))
}

/// What is in the operand of a call or jump.
pub(super) fn operand_taint(instruction: &Instruction, state: &State) -> u64 {
    match instruction.op0_kind() {
        OpKind::Register => state.register(instruction.op0_register()),
        OpKind::Memory => {
            state.register(instruction.memory_base()) | state.register(instruction.memory_index())
        }
        _ => 0,
    }
}

/// All that an instruction reads of the value.
pub(super) fn read_taint(
    instruction: &Instruction,
    info: &InstructionInfo,
    state: &State,
    is_load: bool,
    place: Place,
) -> u64 {
    let registers = info
        .used_registers()
        .iter()
        .filter(|used| used.access() != OpAccess::Write)
        .fold(0, |all, used| all | state.register(used.register()));
    let size = instruction.memory_size().size();
    let memory = if is_load {
        u64::MAX >> (64 - size.clamp(1, 64))
    } else {
        (0..size).fold(0, |all, byte| all | held_at(place, state, byte))
    };
    registers | memory
}

/// What a byte of an operand in memory depends on.
pub(super) fn held_at(place: Place, state: &State, byte: usize) -> u64 {
    match place {
        Place::Elsewhere => 0,
        Place::Slot(slot) => state.in_frame(slot, byte),
        Place::SomeSlot => state.in_all_of_frame(),
    }
}
