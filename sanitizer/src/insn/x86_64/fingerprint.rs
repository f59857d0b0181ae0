//! What tells the code of a function from other code, wherever it and all else stands: the same source, compiled the same, has the same fingerprint in the next build.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};

use super::sites::SITE_CODE;

/// The constants of FNV-1a of 64 bits (RFC 9923).
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Immediate operands below this are no addresses, in programs that are not relocated either: nothing is mapped there as a rule (`vm.mmap_min_addr` is 65,536).
const LEAST_ADDRESS: u64 = 0x1_0000;

/// The fingerprint of a function that begins at a run-time address; of its first [`SITE_CODE`] bytes. What leads out of it is left out: where calls and jumps
/// to other functions go, displacements from the instruction pointer, and what may be an address.
#[must_use]
pub fn fingerprint(start: u64, code: &[u8]) -> u64 {
    let code = code.get(..SITE_CODE).unwrap_or(code);
    let end = start.wrapping_add(code.len() as u64);
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut hash = BASIS;
    let mut at = 0;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let length = instruction.len();
        let offsets = decoder.get_constant_offsets(&instruction);
        let displacement = (offsets.has_displacement() && leads_away(&instruction)).then(|| {
            offsets.displacement_offset()
                ..offsets.displacement_offset() + offsets.displacement_size()
        });
        let is_address =
            is_target_outside(&instruction, start..end) || may_be_address(&instruction);
        let immediate = (offsets.has_immediate() && is_address).then(|| {
            offsets.immediate_offset()..offsets.immediate_offset() + offsets.immediate_size()
        });
        let is_left_out = |index: &usize| {
            let ranges = [&displacement, &immediate];
            ranges
                .into_iter()
                .flatten()
                .any(|range| range.contains(index))
        };
        let bytes = code.get(at..at + length).unwrap_or_default();
        for (index, byte) in bytes.iter().enumerate() {
            let byte = if is_left_out(&index) { 0 } else { *byte };
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        at += length;
    }
    hash
}

/// Whether the displacement of its memory operand is where something stands: from the instruction pointer, or from nothing.
fn leads_away(instruction: &Instruction) -> bool {
    use iced_x86::Register;
    instruction.is_ip_rel_memory_operand()
        || instruction.memory_base() == Register::None && instruction.memory_displ_size() >= 4
}

/// Whether it is a direct call, or a jump to somewhere else.
fn is_target_outside(instruction: &Instruction, function: std::ops::Range<u64>) -> bool {
    let is_branch = instruction.op_count() == 1 && instruction.op0_kind() == OpKind::NearBranch64;
    is_branch && (instruction.is_call_near() || !function.contains(&instruction.near_branch64()))
}

/// Whether an immediate operand may be where something stands.
fn may_be_address(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic;
    let takes_any = matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Push);
    let kinds = instruction.op_kinds();
    kinds.enumerate().any(|(operand, kind)| match kind {
        OpKind::Immediate64 => true,
        OpKind::Immediate32 | OpKind::Immediate32to64 => {
            let value = instruction.immediate(operand as u32);
            takes_any && value >= LEAST_ADDRESS && i32::try_from(value).is_ok()
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x40_1000;

    /// Check that the same code has the same fingerprint wherever it stands and whatever it leads to, and other code another one.
    #[test]
    fn same_code_is_known_again() {
        // push rbx; mov edi, 0x402010; call elsewhere; mov rax, [rip + x]; add eax, 7; je within; jmp elsewhere; pop rbx; ret
        let code = |address: [u8; 4], call: [u8; 4], variable: [u8; 4], add: u8, jump: [u8; 4]| {
            let mut code = vec![0x53, 0xbf];
            code.extend(address);
            code.push(0xe8);
            code.extend(call);
            code.extend([0x48, 0x8b, 0x05]);
            code.extend(variable);
            code.extend([0x83, 0xc0, add, 0x74, 0x05, 0xe9]);
            code.extend(jump);
            code.extend([0x5b, 0xc3]);
            code
        };
        let usual = code(
            [0x10, 0x20, 0x40, 0],
            [0, 1, 0, 0],
            [4, 0, 0, 0],
            7,
            [0, 2, 0, 0],
        );
        let known = fingerprint(START, &usual);
        let moved = code(
            [0x20, 0x30, 0x40, 0],
            [0, 7, 0, 0],
            [8, 1, 0, 0],
            7,
            [0, 9, 0, 0],
        );
        assert_eq!(known, fingerprint(START, &moved));
        assert_eq!(known, fingerprint(0x7f00_1234_5670, &usual));
        let another = code(
            [0x10, 0x20, 0x40, 0],
            [0, 1, 0, 0],
            [4, 0, 0, 0],
            8,
            [0, 2, 0, 0],
        );
        assert_ne!(known, fingerprint(START, &another));
        // No address: a number of its own.
        let number = code(
            [0x10, 0x20, 0, 0],
            [0, 1, 0, 0],
            [4, 0, 0, 0],
            7,
            [0, 2, 0, 0],
        );
        assert_ne!(known, fingerprint(START, &number));
        // It jumps to itself, by so much.
        let inner = |by: u8| [0x90, 0xeb, by, 0x90, 0x90, 0xc3];
        assert_ne!(fingerprint(START, &inner(1)), fingerprint(START, &inner(2)));
        assert_ne!(fingerprint(START, &usual[..5]), known);
        assert_eq!(fingerprint(START, &[]), BASIS);
    }
}
