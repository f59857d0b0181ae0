//! On which bytes of its operands each byte of a vector instruction's result depends: lane by lane, with
//! the shuffles by which compilers take members out of vectors. (Intel SDM vol. 2.)

mod arithmetic;
mod bitwise;
mod moves;
mod shuffles;
mod tables;
mod widths;

use iced_x86::{Instruction, OpKind, Register};

use super::constants::{Constant, ReadOnly, in_memory};
use super::origins::{Bytes, Origin, Origins, is_constant, origin, size};

/// A vector instruction's operands.
struct Vector<'a> {
    instruction: &'a Instruction,
    known: &'a dyn Fn(Register) -> Option<Constant>,
    read_only: &'a ReadOnly<'a>,
    /// Bytes of the result.
    width: usize,
    /// Those that are combined, without a constant behind them.
    sources: Vec<u32>,
    immediate: u64,
}

/// What an instruction with a vector among its operands does.
pub(super) fn of(
    instruction: &Instruction,
    known: &dyn Fn(Register) -> Option<Constant>,
    read_only: &ReadOnly<'_>,
) -> Origins {
    if instruction.has_op_mask() {
        return Origins::Unknown;
    }
    let count = instruction.op_count();
    let last_is_constant = count > 0 && is_constant(instruction.op_kind(count - 1));
    let operands = count - u32::from(last_is_constant);
    let vector = Vector {
        instruction,
        known,
        read_only,
        width: size(instruction, 0),
        sources: (u32::from(operands > 2)..operands).collect(),
        immediate: if last_is_constant {
            instruction.immediate(count - 1)
        } else {
            0
        },
    };
    vector.origins().unwrap_or(Origins::Unknown)
}

impl Vector<'_> {
    fn at(&self, operand: u32, byte: usize) -> Origin {
        origin(self.instruction, operand, byte)
    }

    fn first(&self) -> u32 {
        self.sources.first().copied().unwrap_or(0)
    }

    fn last(&self) -> u32 {
        self.sources.last().copied().unwrap_or(0)
    }

    fn made(&self, byte: impl Fn(usize) -> Vec<Origin>) -> Option<Origins> {
        Some(Origins::Result {
            bytes: (0..self.width).map(byte).collect(),
            moved: false,
        })
    }

    fn moved(&self, byte: impl Fn(usize) -> Vec<Origin>) -> Option<Origins> {
        let bytes: Bytes = (0..self.width).map(byte).collect();
        Some(Origins::Result { bytes, moved: true })
    }

    /// One byte of the result from one of an operand.
    fn shuffled(&self, byte: impl Fn(usize) -> Option<(u32, usize)>) -> Option<Origins> {
        self.moved(|i| {
            byte(i)
                .map(|(operand, byte)| self.at(operand, byte))
                .into_iter()
                .collect()
        })
    }

    /// The value of an operand, where it is constant.
    fn constant(&self, operand: u32) -> Option<Constant> {
        match self.instruction.op_kind(operand) {
            OpKind::Register => (self.known)(self.instruction.op_register(operand)),
            OpKind::Memory if self.instruction.is_broadcast() => {
                let element = self.instruction.memory_size().element_size();
                let bytes = in_memory(self.instruction, element, self.read_only)?;
                let mut constant = [0; 64];
                for (i, slot) in constant.iter_mut().enumerate() {
                    *slot = *bytes.get(i % element.max(1))?;
                }
                Some(constant)
            }
            OpKind::Memory => {
                let size = self.instruction.memory_size().size();
                let bytes = in_memory(self.instruction, size, self.read_only)?;
                let mut constant = [0; 64];
                for (slot, byte) in constant.iter_mut().zip(bytes) {
                    *slot = byte;
                }
                Some(constant)
            }
            _ => None,
        }
    }

    fn origins(&self) -> Option<Origins> {
        self.moves()
            .or_else(|| self.bitwise())
            .or_else(|| self.arithmetic())
            .or_else(|| self.shuffles())
            .or_else(|| self.narrower())
            .or_else(|| self.by_table())
    }
}
