//! What instructions make of a value among their operands: the table behind a proof of use.

use iced_x86::{Instruction, Mnemonic, OpKind};

/// What an instruction does with a value that it reads from a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Copies it.
    Move,
    /// Makes another value of it that depends on all of it.
    Keep,
    /// Makes another value of it that depends on some of it.
    Narrow,
    /// Sets the flags by it.
    Compare,
    /// May make it irrelevant, or is not known.
    Mask,
}

/// How many bytes of a vector register a scalar instruction reads.
pub(super) const fn scalar_bytes(mnemonic: Mnemonic) -> Option<usize> {
    use Mnemonic as M;
    match mnemonic {
        M::Movd
        | M::Vmovd
        | M::Movss
        | M::Vmovss
        | M::Addss
        | M::Subss
        | M::Mulss
        | M::Divss
        | M::Sqrtss
        | M::Vaddss
        | M::Vsubss
        | M::Vmulss
        | M::Vdivss
        | M::Cvtss2sd
        | M::Vcvtss2sd => Some(4),
        M::Movq
        | M::Vmovq
        | M::Movsd
        | M::Vmovsd
        | M::Addsd
        | M::Subsd
        | M::Mulsd
        | M::Divsd
        | M::Sqrtsd
        | M::Vaddsd
        | M::Vsubsd
        | M::Vmulsd
        | M::Vdivsd
        | M::Cvtsd2ss
        | M::Vcvtsd2ss => Some(8),
        _ => None,
    }
}

pub(in crate::insn::x86_64) fn is_set_on_condition(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Seto
            | M::Setno
            | M::Setb
            | M::Setae
            | M::Sete
            | M::Setne
            | M::Setbe
            | M::Seta
            | M::Sets
            | M::Setns
            | M::Setp
            | M::Setnp
            | M::Setl
            | M::Setge
            | M::Setle
            | M::Setg
    )
}

/// What an instruction makes of the value among its operands.
pub(super) fn effect(instruction: &Instruction) -> Effect {
    use Mnemonic as M;
    if instruction.has_op_mask() {
        return Effect::Mask;
    }
    let constant = (0..instruction.op_count()).any(|i| is_immediate(instruction.op_kind(i)));
    let same_register = instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register();
    match instruction.mnemonic() {
        M::Mov
        | M::Movzx
        | M::Movsx
        | M::Movsxd
        | M::Movbe
        | M::Movd
        | M::Movq
        | M::Movss
        | M::Movsd
        | M::Movaps
        | M::Movapd
        | M::Movups
        | M::Movupd
        | M::Movdqa
        | M::Movdqu
        | M::Lddqu
        | M::Movntdq
        | M::Movnti
        | M::Vmovd
        | M::Vmovq
        | M::Vmovss
        | M::Vmovsd
        | M::Vmovaps
        | M::Vmovapd
        | M::Vmovups
        | M::Vmovupd
        | M::Vmovdqa
        | M::Vmovdqu
        | M::Vmovdqu8
        | M::Vmovdqu16
        | M::Vmovdqu32
        | M::Vmovdqu64
        | M::Vmovdqa32
        | M::Vmovdqa64 => Effect::Move,
        M::Add
        | M::Sub
        | M::Xor
        | M::Inc
        | M::Dec
        | M::Neg
        | M::Not
        | M::Bswap
        | M::Rol
        | M::Ror
        | M::Rorx
        | M::Lea
        | M::Addss
        | M::Addsd
        | M::Subss
        | M::Subsd
        | M::Mulss
        | M::Mulsd
        | M::Divss
        | M::Divsd
        | M::Vaddss
        | M::Vaddsd
        | M::Vsubss
        | M::Vsubsd
        | M::Vmulss
        | M::Vmulsd
        | M::Vdivss
        | M::Vdivsd
        | M::Addps
        | M::Addpd
        | M::Subps
        | M::Subpd
        | M::Vaddps
        | M::Vaddpd
        | M::Vsubps
        | M::Vsubpd
        | M::Paddb
        | M::Paddw
        | M::Paddd
        | M::Paddq
        | M::Psubb
        | M::Psubw
        | M::Psubd
        | M::Psubq
        | M::Vpaddb
        | M::Vpaddw
        | M::Vpaddd
        | M::Vpaddq
        | M::Vpsubb
        | M::Vpsubw
        | M::Vpsubd
        | M::Vpsubq => Effect::Keep,
        M::Cvtss2sd | M::Cvtsd2ss | M::Vcvtss2sd | M::Vcvtsd2ss | M::Sqrtsd | M::Sqrtss => {
            Effect::Keep
        }
        M::Cvtsi2sd
        | M::Cvtsi2ss
        | M::Cvttsd2si
        | M::Cvttss2si
        | M::Vcvtsi2sd
        | M::Vcvtsi2ss
        | M::Vcvttsd2si
        | M::Vcvttss2si
        | M::Imul
        | M::Shl
        | M::Shr
        | M::Sar
        | M::Shlx
        | M::Shrx
        | M::Sarx
        | M::Cbw
        | M::Cwde
        | M::Cdqe
        | M::Cwd
        | M::Cdq
        | M::Cqo => Effect::Narrow,
        // With a constant these pick bits; with a register they may be a selection.
        M::And | M::Or if constant || same_register => Effect::Narrow,
        M::Test if constant || same_register => Effect::Compare,
        M::Cmp
        | M::Bt
        | M::Ucomiss
        | M::Ucomisd
        | M::Comiss
        | M::Comisd
        | M::Vucomiss
        | M::Vucomisd
        | M::Vcomiss
        | M::Vcomisd => Effect::Compare,
        _ if is_set_on_condition(instruction) => Effect::Narrow,
        _ => Effect::Mask,
    }
}

const fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate8_2nd
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}
