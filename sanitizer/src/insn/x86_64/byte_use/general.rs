//! What results depend on of moves and arithmetic of general registers. Vectors: [`lanes`]. (Intel SDM vol. 2.)

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::super::read_use::is_set_on_condition;
use super::constants::{Constant, ReadOnly};
use super::lanes;
use super::origins::{Bytes, Origin, Origins, is_constant, origin, size};

/// What an instruction does. `known` tells constants in vector registers.
pub(super) fn of(
    instruction: &Instruction,
    known: &dyn Fn(Register) -> Option<Constant>,
    read_only: &ReadOnly<'_>,
) -> Origins {
    let vector = (0..instruction.op_count()).any(|i| {
        instruction.op_kind(i) == OpKind::Register
            && instruction.op_register(i).is_vector_register()
    });
    if vector {
        return lanes::of(instruction, known, read_only);
    }
    general(instruction).unwrap_or(Origins::Unknown)
}

/// The operands that arithmetic combines: those before it where there are three, or both.
fn sources(instruction: &Instruction) -> Vec<u32> {
    let count = instruction.op_count();
    let first = u32::from(count > 2);
    (first..count)
        .filter(|&i| !is_constant(instruction.op_kind(i)))
        .collect()
}

fn general(instruction: &Instruction) -> Option<Origins> {
    use Mnemonic as M;
    let o = |operand, byte| origin(instruction, operand, byte);
    let width = size(instruction, 0);
    let constant = (0..instruction.op_count())
        .rev()
        .find(|&i| is_constant(instruction.op_kind(i)))
        .map(|i| instruction.immediate(i));
    let same = instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register();
    let result = |f: &dyn Fn(usize) -> Vec<Origin>| -> Bytes { (0..width).map(f).collect() };
    // The bytes from `first` to `last` of the first operand.
    let span = |first: usize, last: usize| -> Vec<Origin> {
        (first..=last.min(width.saturating_sub(1)))
            .map(|byte| o(0, byte))
            .collect()
    };
    let moved = |bytes| Some(Origins::Result { bytes, moved: true });
    let made = |bytes| {
        Some(Origins::Result {
            bytes,
            moved: false,
        })
    };
    match instruction.mnemonic() {
        M::Mov | M::Movnti => moved(result(&|i| vec![o(1, i)])),
        M::Movbe => moved(result(&|i| vec![o(1, width - 1 - i)])),
        M::Movzx => {
            let from = size(instruction, 1);
            moved(result(&|i| {
                if i < from { vec![o(1, i)] } else { vec![] }
            }))
        }
        M::Movsx | M::Movsxd => {
            let from = size(instruction, 1);
            made(result(&|i| vec![o(1, i.min(from - 1))]))
        }
        M::Cbw | M::Cwde | M::Cdqe => {
            let (register, from, to) = match instruction.mnemonic() {
                M::Cbw => (Register::AX, 1, 2),
                M::Cwde => (Register::EAX, 2, 4),
                _ => (Register::RAX, 4, 8),
            };
            let extended = |i: usize| {
                let byte = i.min(from - 1);
                vec![Origin { register, byte }]
            };
            made((0..to).map(extended).collect())
        }
        M::Lea => {
            let index_by = instruction.memory_index_scale().trailing_zeros() as usize;
            made(result(&|i| {
                let upto = |register: Register, bits: usize| {
                    let last = (register != Register::None)
                        .then(|| (8 * i + 7).checked_sub(bits))
                        .flatten();
                    last.into_iter().flat_map(move |last| {
                        (0..=last / 8).map(move |byte| Origin { register, byte })
                    })
                };
                upto(instruction.memory_base(), 0)
                    .chain(upto(instruction.memory_index(), index_by))
                    .collect()
            }))
        }
        M::Xor | M::Sub if same => made(result(&|_| vec![])),
        M::And | M::Or | M::Xor | M::Not | M::Andn => {
            let operands = sources(instruction);
            let keeps = |i: usize| match (instruction.mnemonic(), constant) {
                (M::And, Some(mask)) => mask.to_le_bytes().get(i) != Some(&0),
                (M::Or, Some(mask)) => mask.to_le_bytes().get(i) != Some(&0xff),
                _ => true,
            };
            made(result(&|i| {
                if keeps(i) {
                    operands.iter().map(|&operand| o(operand, i)).collect()
                } else {
                    vec![]
                }
            }))
        }
        M::Add | M::Sub | M::Adc | M::Imul | M::Neg | M::Inc | M::Dec
            if instruction.mnemonic() != M::Imul || instruction.op_count() > 1 =>
        {
            let operands = sources(instruction);
            made(result(&|i| {
                let upto = |&operand: &u32| (0..=i).map(move |byte| o(operand, byte));
                operands.iter().flat_map(upto).collect()
            }))
        }
        M::Shl | M::Sal if constant.is_some() => {
            let by = shift(constant?, width);
            made(result(&|i| {
                (8 * i + 7).checked_sub(by).map_or_else(Vec::new, |last| {
                    span((8 * i).saturating_sub(by) / 8, last / 8)
                })
            }))
        }
        M::Shr | M::Sar if constant.is_some() => {
            let by = shift(constant?, width);
            let sign = matches!(instruction.mnemonic(), M::Sar);
            made(result(&|i| {
                let first = (8 * i + by) / 8;
                let mut bytes = span(first, (8 * i + 7 + by) / 8);
                if sign && bytes.is_empty() {
                    bytes.push(o(0, width - 1));
                }
                bytes
            }))
        }
        M::Rol | M::Ror | M::Rorx if constant.is_some() => {
            let operand = u32::from(instruction.mnemonic() == M::Rorx);
            let bits = 8 * width;
            let by = shift(constant?, width) % bits;
            let right = if instruction.mnemonic() == M::Rol {
                bits - by
            } else {
                by
            };
            made(result(&|i| {
                let first = (8 * i + right) / 8;
                let last = (8 * i + 7 + right) / 8;
                (first..=last)
                    .map(|byte| o(operand, byte % width))
                    .collect()
            }))
        }
        M::Bswap => moved(result(&|i| vec![o(0, width - 1 - i)])),
        M::Test => {
            let keeps =
                |i: usize| constant.is_none_or(|mask| mask.to_le_bytes().get(i) != Some(&0));
            Some(Origins::Looks(both(instruction, width, &keeps)))
        }
        M::Cmp => Some(Origins::Looks(both(instruction, width, &|_| true))),
        M::Bt if constant.is_some() => {
            let byte = shift(constant?, width) / 8;
            Some(Origins::Looks(vec![o(0, byte)]))
        }
        mnemonic if is_conditional_move(mnemonic) => made(result(&|i| vec![o(0, i), o(1, i)])),
        _ if is_set_on_condition(instruction) => made(result(&|_| vec![])),
        _ => None,
    }
}

/// The same bytes of both operands, as far as they are kept.
fn both(instruction: &Instruction, width: usize, keeps: &dyn Fn(usize) -> bool) -> Vec<Origin> {
    let o = |operand, byte| origin(instruction, operand, byte);
    let operands = (0..2).filter(|&i| !is_constant(instruction.op_kind(i)));
    operands
        .flat_map(|operand| (0..width).filter(|&i| keeps(i)).map(move |i| o(operand, i)))
        .collect()
}

/// By how many bits is shifted (SDM: modulo 32, or 64).
fn shift(count: u64, width: usize) -> usize {
    let modulus = if width == 8 { 63 } else { 31 };
    (count & modulus) as usize
}

fn is_conditional_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Cmova
            | M::Cmovae
            | M::Cmovb
            | M::Cmovbe
            | M::Cmove
            | M::Cmovg
            | M::Cmovge
            | M::Cmovl
            | M::Cmovle
            | M::Cmovne
            | M::Cmovno
            | M::Cmovnp
            | M::Cmovns
            | M::Cmovo
            | M::Cmovp
            | M::Cmovs
    )
}
