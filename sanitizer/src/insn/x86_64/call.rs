//! Telling return addresses from other words: they stand behind a call instruction, which says
//! what was called.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

use super::flow::transfer;
use super::registers::{self, GprSet};
use crate::insn::{Regs, Transfer};

/// The lengths of near calls in bytes: direct (5), and indirect through a register or memory.
pub const CALL_LENGTHS: [u64; 6] = [5, 2, 3, 6, 7, 4];

/// Whether `code` begins with a call instruction of `len` bytes.
///
/// ```
/// use gwp_race::insn::x86_64::is_call;
///
/// assert!(is_call(&[0xe8, 0, 0, 0, 0], 5));
/// assert!(is_call(&[0xff, 0xd0], 2)); // call rax
/// assert!(!is_call(&[0xff, 0xe0], 2)); // jmp rax
/// ```
#[must_use]
pub fn is_call(code: &[u8], len: u64) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    if !decoder.can_decode() {
        return false;
    }
    let instruction = decoder.decode();
    instruction.len() as u64 == len
        && matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        )
}

/// What the call that ends at `return_address` has called. `code` are the bytes from
/// `function_start` to at least there, decoded forward from the start; `caller` are the caller's
/// registers behind the call, of which those that calls preserve may name the target.
#[must_use]
pub fn call_before(
    function_start: u64,
    code: &[u8],
    return_address: u64,
    caller: &Regs,
) -> Option<Transfer> {
    let mut decoder = Decoder::with_ip(64, code, function_start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() && decoder.ip() < return_address {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
    }
    let is_call = matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    );
    if decoder.ip() != return_address || !is_call {
        return None;
    }
    let mut preserved = GprSet::default();
    for register in [
        Register::RBX,
        Register::RBP,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ] {
        preserved.insert(register);
    }
    match instruction.op0_kind() {
        OpKind::Register if preserved.contains(instruction.op0_register()) => {
            registers::value(caller, instruction.op0_register()).map(Transfer::To)
        }
        _ => transfer(&instruction),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::assemble;
    use super::*;

    /// Check what is called, and that neither other instructions nor the middle of one, nor a
    /// register that a call does not preserve, say so.
    #[test]
    fn the_call_before_a_return_address() {
        const START: u64 = 0x1000;
        let code =
            assemble("nop\n.byte 0xe8, 0, 1, 0, 0\ncall [rip + 0x20]\ncall rbx\ncall rax\nnop");
        let caller = Regs {
            rbx: 0x4444,
            rax: 0x5555,
            ..Regs::default()
        };
        let before = |address| call_before(START, &code, address, &caller);
        assert_eq!(before(START + 6), Some(Transfer::To(START + 0x106)));
        assert_eq!(before(START + 12), Some(Transfer::Through(START + 0x2c)));
        assert_eq!(before(START + 14), Some(Transfer::To(0x4444)));
        for address in [0, 1, 2, 16, 17, 99] {
            assert_eq!(before(START + address), None, "{address}");
        }
    }
}
