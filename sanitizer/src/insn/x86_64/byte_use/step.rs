//! What one instruction does with the bytes that are followed.

use iced_x86::{FlowControl, Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register};

use super::frame::Place;
use super::origins::{Origin, Origins};
use super::state::State;
use super::taint::{address_taint, age_read, held_at, read_taint, sources_moved, union};
use super::{
    Follow, LONGEST_EPILOGUE, constants, general, gives_back_frame, is_in_a_row, moves_frame,
    written,
};

impl Follow<'_> {
    pub(super) fn step(&mut self, instruction: &Instruction, state: &mut State) {
        let is_load = instruction.ip() == self.load;
        let info = self.factory.info(instruction).clone();
        match instruction.mnemonic() {
            Mnemonic::Nop | Mnemonic::Endbr64 => return,
            Mnemonic::Vzeroupper => return state.keep_lower_halves(),
            _ => {}
        }
        self.found.used |= state.flags(instruction.rflags_read());
        self.found.used |= address_taint(&info, state);
        if moves_frame(instruction, &info) {
            let left = state.forget_frame();
            if !gives_back_frame(instruction) {
                self.found.used |= left;
            } else if !self.leaves(instruction) {
                self.found.unclear |= left;
            }
        }
        let known =
            |register| constants::in_register(self.function, instruction, register, self.read_only);
        let origins = general::of(instruction, &known, self.read_only);
        let place = self.frame.place(instruction);
        let holds = |origin: Origin, state: &State| match origin.register {
            Register::None if is_load => 1u64.checked_shl(origin.byte as u32).unwrap_or(0),
            Register::None => held_at(place, state, origin.byte),
            register => state.byte(register, origin.byte),
        };
        let read = read_taint(instruction, &info, state, is_load, place);
        let (result, moved) = match origins {
            Origins::Unknown => {
                self.found.unclear |= read;
                self.overwrite(instruction, &info, state);
                return;
            }
            Origins::Looks(bytes) => {
                for origin in bytes {
                    self.found.used |= holds(origin, state);
                }
                self.overwrite(instruction, &info, state);
                return;
            }
            Origins::Result { bytes, moved } => {
                let result: Vec<u64> = bytes
                    .iter()
                    .map(|byte| {
                        byte.iter()
                            .fold(0, |all, &origin| all | holds(origin, state))
                    })
                    .collect();
                let sources_moved = moved && sources_moved(instruction, state);
                (result, sources_moved)
            }
        };
        let flags = match instruction.mnemonic() {
            // Those of the result alone.
            Mnemonic::And | Mnemonic::Andn | Mnemonic::Or | Mnemonic::Xor => union(&result),
            _ => read,
        };
        state.set_flags(instruction.rflags_modified(), flags);
        match instruction.op0_kind() {
            OpKind::Memory => self.store(instruction, &info, state, &result, moved, place),
            _ => {
                age_read(&info, state);
                let register = written(instruction);
                let vex = !matches!(instruction.encoding(), iced_x86::EncodingKind::Legacy);
                state.write(register, &result, moved, vex);
            }
        }
    }

    fn store(
        &mut self,
        instruction: &Instruction,
        info: &InstructionInfo,
        state: &mut State,
        result: &[u64],
        moved: bool,
        place: Place,
    ) {
        age_read(info, state);
        let all = union(result);
        if let Place::Slot(slot) = place {
            state.put_in_frame(slot, result);
            if !self.frame.is_shared {
                return;
            }
        }
        if info.op0_access() != OpAccess::Write || !(moved && is_in_a_row(result)) {
            self.found.used |= all;
        } else {
            self.found.copied |= all;
            if all != 0 {
                self.copies.insert(instruction.ip());
            }
        }
    }

    /// Whether the code goes straight on to where the function is left, with a frame that was given back.
    fn leaves(&self, instruction: &Instruction) -> bool {
        let mut pc = instruction.next_ip();
        for _ in 0..LONGEST_EPILOGUE {
            let Some(next) = self.function.at(pc) else {
                return false;
            };
            match next.flow_control() {
                FlowControl::Next => pc = next.next_ip(),
                FlowControl::Return => return true,
                FlowControl::UnconditionalBranch => {
                    return !self.function.contains(next.near_branch_target());
                }
                _ => return false,
            }
        }
        false
    }

    /// Forgets what an instruction overwrites whose result does not depend on the value.
    fn overwrite(&self, instruction: &Instruction, info: &InstructionInfo, state: &mut State) {
        age_read(info, state);
        for used in info.used_registers() {
            if matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite) {
                state.clear(used.register());
            }
        }
        state.set_flags(instruction.rflags_modified(), 0);
    }
}
