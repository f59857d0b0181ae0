//! Where a stack ends although no unwind table says so: at a return address that nobody's call has left
//! there, and in code that goes nowhere else.
//!
//! Libraries begin a fibre (`makecontext`, Boost.Context, libco) by writing a return address to an empty
//! stack, and assembly begins threads and programs without tables (musl's `clone` and `_start`).

use super::unwind_rules::Registers;
use super::walked_code::Code;
use crate::insn::x86_64::{CALL_LENGTHS, ends_program, is_call};
use gimli::X86_64;

/// Instructions behind a thread's first call that lead to its end: as many bytes as C libraries need.
const END_SIZE: u64 = 64;
/// How far before the first call of a thread or program its beginning may be.
const BEGINNING_SIZE: u64 = 64;
/// `xor %ebp, %ebp`: marks the outermost frame (System V ABI for x86-64, 3.4.1).
const CLEARS_FRAME_POINTER: [u8; 2] = [0x31, 0xed];

/// Whether no call ends at the return address `pc`: it was written there by hand, and what stands
/// there was not called by anybody. False where the code is not known.
pub(super) fn is_written_by_hand(code: &dyn Code, pc: u64) -> bool {
    let mut calls = CALL_LENGTHS.iter().map(|&len| {
        let bytes = code.bytes(pc.checked_sub(len)?, len)?;
        Some(is_call(&bytes, len))
    });
    // A return address at the very start of a module's code has nothing before it.
    code.is_code(pc) && calls.all(|call| call == Some(false))
}

/// Whether code without unwind tables, returned to at `pc`, is what a thread or a program begins with.
pub(super) fn is_beginning(code: &dyn Code, pc: u64, registers: &Registers) -> bool {
    let leads_to_end = || {
        let bytes = code.bytes(pc, END_SIZE)?;
        Some(ends_program(&bytes))
    };
    let marks_outermost = || {
        let before = code.bytes(pc.checked_sub(BEGINNING_SIZE)?, BEGINNING_SIZE)?;
        let marks = before
            .windows(CLEARS_FRAME_POINTER.len())
            .any(|bytes| bytes == CLEARS_FRAME_POINTER);
        Some(marks && registers.get(X86_64::RBP) == Some(0))
    };
    leads_to_end() == Some(true) || marks_outermost() == Some(true)
}
