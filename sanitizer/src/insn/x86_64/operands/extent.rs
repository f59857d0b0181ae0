//! How far an operand reaches.

use iced_x86::{Instruction, Mnemonic, OpAccess, OpKind, UsedMemory};

use super::{Extent, is_repeated_string, memory_bytes};

pub(super) fn extent(instruction: &Instruction, memory: &UsedMemory) -> Extent {
    if is_repeated_string(instruction) {
        let element = memory_bytes(instruction);
        return match instruction.mnemonic() {
            Mnemonic::Cmpsb
            | Mnemonic::Cmpsw
            | Mnemonic::Cmpsd
            | Mnemonic::Cmpsq
            | Mnemonic::Scasb
            | Mnemonic::Scasw
            | Mnemonic::Scasd
            | Mnemonic::Scasq => Extent::RepeatedUntil(element),
            _ => Extent::Repeated(element),
        };
    }
    if memory.vsib_size() != 0 {
        return Extent::Gathered;
    }
    if is_fxsave_area(instruction.mnemonic()) || moves_segment_register(instruction) {
        return Extent::Unknown;
    }
    let Ok(size @ 1..) = u32::try_from(memory.memory_size().size()) else {
        return Extent::Unknown;
    };
    if instruction.has_op_mask() || is_mask_move(instruction.mnemonic()) {
        return Extent::Masked(size);
    }
    // Conditional moves load whatever the condition says, and compare-exchange always stores
    // (SDM: the old value where the comparison fails); every other conditional access is one
    // that a mask or processor state decides.
    match memory.access() {
        OpAccess::CondRead | OpAccess::CondWrite if !is_conditional_move(instruction) => {
            Extent::Masked(size)
        }
        _ => Extent::Bytes(size),
    }
}

fn is_conditional_move(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Cmovo
            | M::Cmovno
            | M::Cmovb
            | M::Cmovae
            | M::Cmove
            | M::Cmovne
            | M::Cmovbe
            | M::Cmova
            | M::Cmovs
            | M::Cmovns
            | M::Cmovp
            | M::Cmovnp
            | M::Cmovl
            | M::Cmovge
            | M::Cmovle
            | M::Cmovg
    )
}

/// Segment registers on the stack, `push fs` or `retf`: a selector has 2 bytes, and whether the
/// rest of its word is accessed is the processor's choice (SDM vol. 2, PUSH; of the 8 bytes that
/// `pop gs` moves rsp by, a Xeon loads 2).
fn moves_segment_register(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Push | M::Pop => {
            instruction.op0_kind() == OpKind::Register
                && instruction.op0_register().is_segment_register()
        }
        M::Retf | M::Iret | M::Iretd | M::Iretq => true,
        _ => false,
    }
}

/// The last 48 of the area's 512 bytes are the program's own, and some of the others are reserved.
fn is_fxsave_area(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Fxsave | M::Fxsave64 | M::Fxrstor | M::Fxrstor64
    )
}

fn is_mask_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Maskmovq
            | M::Maskmovdqu
            | M::Vmaskmovdqu
            | M::Vmaskmovps
            | M::Vmaskmovpd
            | M::Vpmaskmovd
            | M::Vpmaskmovq
    )
}
