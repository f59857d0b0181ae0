//! Constants in vector registers, by which shuffles and masks choose lanes. They are loaded once,
//! often before a loop, or made of ones.

use std::collections::HashMap;

use iced_x86::{EncodingKind, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::super::function::Function;
use super::broadcast::broadcast;
use super::origins::size;

/// The value of a vector register.
pub(super) type Constant = [u8; 64];

/// Reads a program's constants: as many bytes from a run-time address as are asked for, where
/// they cannot be written.
pub type ReadOnly<'a> = dyn Fn(u64, usize) -> Option<Vec<u8>> + 'a;

/// How many constants may be made of one another.
const DEPTH: u32 = 4;

/// The constant in a register before an instruction.
pub(super) fn in_register(
    function: Function<'_>,
    user: &Instruction,
    register: Register,
    read_only: &ReadOnly<'_>,
) -> Option<Constant> {
    reaching(function, user.ip(), register, read_only, DEPTH)
}

/// By the only instruction whose result the register can have there.
fn reaching(
    function: Function<'_>,
    pc: u64,
    register: Register,
    read_only: &ReadOnly<'_>,
    depth: u32,
) -> Option<Constant> {
    let depth = depth.checked_sub(1)?;
    let made = maker(function, pc, register)?;
    // Without VEX, what is beyond 16 bytes stays what it was.
    if made.encoding() == EncodingKind::Legacy && register.size() > 16 {
        return None;
    }
    value(function, &made, read_only, depth)
}

/// The instruction by which the register was last written on every way that leads to `pc`, without a call since; None
/// where there is not just one, or the ways are not known.
fn maker(function: Function<'_>, pc: u64, register: Register) -> Option<Instruction> {
    let code: Vec<Instruction> = function.instructions().collect();
    let mut jumps: HashMap<u64, Vec<usize>> = HashMap::new();
    for (i, instruction) in code.iter().enumerate() {
        match instruction.flow_control() {
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => jumps
                .entry(instruction.near_branch_target())
                .or_default()
                .push(i),
            // It may lead anywhere.
            FlowControl::IndirectBranch => return None,
            _ => {}
        }
    }
    let full = register.full_register();
    let mut made = None;
    let mut seen = vec![false; code.len()];
    let mut ways = vec![code.binary_search_by_key(&pc, Instruction::ip).ok()?];
    while let Some(at) = ways.pop() {
        if std::mem::replace(seen.get_mut(at)?, true) {
            continue;
        }
        // Before the first one is the caller.
        let before = at.checked_sub(1)?;
        let falls = goes_on(code.get(before)?).then_some(before);
        let jumped = jumps.get(&code.get(at)?.ip());
        let mut from = falls.iter().chain(jumped.into_iter().flatten()).peekable();
        // Nothing that is seen leads there: a landing pad.
        from.peek()?;
        for &from in from {
            let instruction = code.get(from)?;
            if writes(instruction, full) {
                if made.is_some_and(|made| made != from) {
                    return None;
                }
                made = Some(from);
            } else if loses_vectors(instruction) {
                return None;
            } else {
                ways.push(from);
            }
        }
    }
    code.get(made?).copied()
}

fn writes(instruction: &Instruction, full: Register) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == full
        && !only_looks(instruction)
}

fn goes_on(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception
    )
}

/// Whether vector registers may be others behind it, without being named.
fn loses_vectors(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    let goes_within = matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    );
    !goes_within
        || matches!(
            instruction.mnemonic(),
            M::Vzeroupper
                | M::Vzeroall
                | M::Pcmpistrm
                | M::Pcmpestrm
                | M::Vpcmpistrm
                | M::Vpcmpestrm
                | M::Fxrstor
                | M::Fxrstor64
                | M::Xrstor
                | M::Xrstor64
        )
}

fn only_looks(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Ptest
            | M::Vptest
            | M::Comiss
            | M::Comisd
            | M::Ucomiss
            | M::Ucomisd
            | M::Vcomiss
            | M::Vcomisd
            | M::Vucomiss
            | M::Vucomisd
    )
}

/// What an instruction leaves in its register, where that is always the same.
fn value(
    function: Function<'_>,
    made: &Instruction,
    read_only: &ReadOnly<'_>,
    depth: u32,
) -> Option<Constant> {
    use Mnemonic as M;
    if made.has_op_mask() {
        return None;
    }
    let width = size(made, 0);
    let sources: Vec<u32> = (0..made.op_count())
        .filter(|&i| made.op_kind(i) == OpKind::Register)
        .collect();
    let all_same = sources.len() > 1
        && (1..made.op_count()).all(|i| {
            made.op_kind(i) == OpKind::Register && made.op_register(i) == made.op_register(1)
        })
        && (made.op_count() > 2 || made.op0_register() == made.op1_register());
    match made.mnemonic() {
        M::Pcmpeqb
        | M::Pcmpeqw
        | M::Pcmpeqd
        | M::Pcmpeqq
        | M::Vpcmpeqb
        | M::Vpcmpeqw
        | M::Vpcmpeqd
        | M::Vpcmpeqq
            if all_same =>
        {
            Some(filled(width, |_| 0xff))
        }
        M::Vpternlogd | M::Vpternlogq if made.immediate(3) == 0xff => Some(filled(width, |_| 0xff)),
        M::Pxor
        | M::Vpxor
        | M::Xorps
        | M::Vxorps
        | M::Xorpd
        | M::Vxorpd
        | M::Vpxord
        | M::Vpxorq
            if all_same =>
        {
            Some([0; 64])
        }
        M::Psrlw
        | M::Psrld
        | M::Psrlq
        | M::Vpsrlw
        | M::Vpsrld
        | M::Vpsrlq
        | M::Psllw
        | M::Pslld
        | M::Psllq
        | M::Vpsllw
        | M::Vpslld
        | M::Vpsllq => {
            let last = made.op_count() - 1;
            if made.op_kind(last) != OpKind::Immediate8 {
                return None;
            }
            let from = made.op_register(if made.op_count() > 2 { 1 } else { 0 });
            let before = reaching(function, made.ip(), from, read_only, depth)?;
            shifted(made, &before)
        }
        mnemonic => {
            let operand = 1;
            if made.op_count() != 2 || made.op_kind(operand) != OpKind::Memory {
                if is_whole_move(mnemonic) && made.op_count() == 2 {
                    let from = made.op_register(operand);
                    let before = reaching(function, made.ip(), from, read_only, depth)?;
                    return Some(filled(width, |i| before.get(i).copied().unwrap_or(0)));
                }
                return None;
            }
            let element = made.memory_size().size();
            let bytes = in_memory(made, element, read_only)?;
            let repeated = element < width && is_broadcast(mnemonic);
            if !repeated && !is_load(mnemonic) {
                return None;
            }
            Some(filled(width, |i| {
                let i = if repeated { i % element } else { i };
                bytes.get(i).copied().unwrap_or(0)
            }))
        }
    }
}

/// A constant operand in memory.
pub(super) fn in_memory(
    instruction: &Instruction,
    size: usize,
    read_only: &ReadOnly<'_>,
) -> Option<Vec<u8>> {
    let fixed = instruction.is_ip_rel_memory_operand()
        || instruction.memory_base() == Register::None
            && instruction.memory_index() == Register::None
            && instruction.segment_prefix() == Register::None;
    fixed
        .then(|| read_only(instruction.memory_displacement64(), size))
        .flatten()
}

/// Whether memory is loaded as it is, and what the register has beyond is cleared.
fn is_load(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    is_whole_move(mnemonic)
        || matches!(
            mnemonic,
            M::Movd | M::Movq | M::Movss | M::Movsd | M::Vmovd | M::Vmovq | M::Vmovss | M::Vmovsd
        )
}

/// Whether all of a vector register or of its memory is moved.
pub(super) fn is_whole_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Movaps
            | M::Movups
            | M::Movapd
            | M::Movupd
            | M::Movdqa
            | M::Movdqu
            | M::Vmovaps
            | M::Vmovups
            | M::Vmovapd
            | M::Vmovupd
            | M::Vmovdqa
            | M::Vmovdqu
            | M::Vmovdqa32
            | M::Vmovdqa64
            | M::Vmovdqu8
            | M::Vmovdqu16
            | M::Vmovdqu32
            | M::Vmovdqu64
    )
}

fn is_broadcast(mnemonic: Mnemonic) -> bool {
    broadcast(mnemonic).is_some()
}

fn filled(width: usize, byte: impl Fn(usize) -> u8) -> Constant {
    let mut constant = [0; 64];
    for (i, slot) in constant.iter_mut().enumerate().take(width) {
        *slot = byte(i);
    }
    constant
}

/// Each lane shifted by an immediate count.
fn shifted(made: &Instruction, before: &Constant) -> Option<Constant> {
    use Mnemonic as M;
    let lane = match made.mnemonic() {
        M::Psrlw | M::Vpsrlw | M::Psllw | M::Vpsllw => 2,
        M::Psrld | M::Vpsrld | M::Pslld | M::Vpslld => 4,
        _ => 8,
    };
    let right = matches!(
        made.mnemonic(),
        M::Psrlw | M::Psrld | M::Psrlq | M::Vpsrlw | M::Vpsrld | M::Vpsrlq
    );
    let by = u32::try_from(made.immediate(made.op_count() - 1)).ok()?;
    let width = size(made, 0);
    let mut constant = [0; 64];
    for (from, to) in before
        .chunks_exact(lane)
        .zip(constant.chunks_exact_mut(lane))
        .take(width / lane)
    {
        let mut wide = [0; 8];
        for (slot, &byte) in wide.iter_mut().zip(from) {
            *slot = byte;
        }
        let value = u64::from_le_bytes(wide);
        let value = if right {
            value.checked_shr(by)
        } else {
            value.checked_shl(by)
        };
        for (slot, byte) in to.iter_mut().zip(value.unwrap_or(0).to_le_bytes()) {
            *slot = byte;
        }
    }
    Some(constant)
}
