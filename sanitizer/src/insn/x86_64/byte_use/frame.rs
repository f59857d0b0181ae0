//! How a function names places in its frame.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::super::function::Function;

/// Where an operand in memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Not in the frame, or there is none.
    Elsewhere,
    /// So far from a register that stands for the frame.
    Slot((Register, u64)),
    /// At an index.
    SomeSlot,
}

/// What is known of a function's frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    has_frame_pointer: bool,
    /// A pointer to the frame is made: what is stored there may be meant for others.
    pub(super) is_shared: bool,
}

impl Frame {
    pub(super) fn of(function: Function<'_>) -> Self {
        let mut factory = InstructionInfoFactory::new();
        // The frame pointer is set up once, and given back. Without one, rbp is a register as any other.
        let (mut set_up, mut set_otherwise, mut is_base) = (false, false, false);
        for instruction in function.instructions() {
            let info = factory.info(&instruction);
            is_base |= info
                .used_memory()
                .iter()
                .any(|memory| [memory.base(), memory.index()].contains(&Register::RBP));
            let writes = info.used_registers().iter().any(|used| {
                used.register().full_register() == Register::RBP
                    && !matches!(
                        used.access(),
                        OpAccess::Read | OpAccess::CondRead | OpAccess::None
                    )
            });
            if writes {
                match instruction.mnemonic() {
                    Mnemonic::Pop | Mnemonic::Leave => {}
                    _ if is_made_of_stack_pointer(&instruction) => set_up = true,
                    _ => set_otherwise = true,
                }
            }
        }
        let mut frame = Self {
            has_frame_pointer: set_up && !set_otherwise,
            is_shared: false,
        };
        // A part of a function that was laid out elsewhere leaves the setting up to the first one.
        let may_be_set_elsewhere = is_base && !set_up && !set_otherwise;
        frame.is_shared = may_be_set_elsewhere
            || function
                .instructions()
                .any(|instruction| frame.is_pointer_made(&instruction));
        frame
    }

    fn stands_for(self, register: Register) -> bool {
        match register.full_register() {
            Register::RSP => true,
            Register::RBP => self.has_frame_pointer,
            _ => false,
        }
    }

    fn is_pointer_made(self, instruction: &Instruction) -> bool {
        use Mnemonic as M;
        let mnemonic = instruction.mnemonic();
        let source = match mnemonic {
            M::Lea => {
                self.stands_for(instruction.memory_base())
                    || self.stands_for(instruction.memory_index())
            }
            M::Cmp | M::Test => false,
            _ => (1..instruction.op_count()).any(|i| {
                instruction.op_kind(i) == OpKind::Register
                    && self.stands_for(instruction.op_register(i))
            }),
        };
        let stays = instruction.op0_kind() == OpKind::Register
            && self.stands_for(instruction.op0_register());
        source && !stays
    }

    /// Where the operand in memory of an instruction is.
    pub(super) fn place(self, instruction: &Instruction) -> Place {
        let is_memory =
            (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        match (self.stands_for(base), self.stands_for(index)) {
            _ if !is_memory => Place::Elsewhere,
            (true, false) if index == Register::None => {
                Place::Slot((base, instruction.memory_displacement64()))
            }
            (false, false) => Place::Elsewhere,
            _ => Place::SomeSlot,
        }
    }
}

fn is_made_of_stack_pointer(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Enter => true,
        Mnemonic::Mov => {
            instruction.op1_kind() == OpKind::Register
                && instruction.op1_register() == Register::RSP
        }
        Mnemonic::Lea => {
            instruction.memory_base() == Register::RSP
                && instruction.memory_index() == Register::None
        }
        _ => false,
    }
}
