//! Telling return addresses from other words: they stand behind a call instruction.

use iced_x86::{Decoder, DecoderOptions, FlowControl};

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
