//! On which bytes of its operands each byte of an instruction's result depends.

use iced_x86::{Instruction, OpKind, Register};

/// A byte of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// None: in memory.
    pub(super) register: Register,
    pub(super) byte: usize,
}

/// What the bytes of a result depend on, each on the operands' bytes that are listed for it.
pub(super) type Bytes = Vec<Vec<Origin>>;

/// What an instruction makes of its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origins {
    /// Its first operand is written so.
    Result {
        bytes: Bytes,
        /// It is copied, or moved to other places.
        moved: bool,
    },
    /// It only looks at these, for the flags.
    Looks(Vec<Origin>),
    /// Not known: it may depend on all that it reads.
    Unknown,
}

pub(super) fn origin(instruction: &Instruction, operand: u32, byte: usize) -> Origin {
    let register = match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand),
        _ => Register::None,
    };
    Origin { register, byte }
}

/// How many bytes an operand has.
pub(super) fn size(instruction: &Instruction, operand: u32) -> usize {
    match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand).size(),
        OpKind::Memory => instruction.memory_size().size(),
        _ => 0,
    }
}

pub(super) fn is_constant(kind: OpKind) -> bool {
    !matches!(kind, OpKind::Register | OpKind::Memory)
}
