//! Instructions at which a probe of the kernel costs one trap and no more: it does itself what they do, instead of stepping over a copy of them.
//!
//! Source: `branch_setup_xol_ops` and `push_setup_xol_ops` in `arch/x86/kernel/uprobes.c`, Linux 6.10 and later.

use super::super::accesses::length;

/// Whether the kernel emulates an instruction, of which these are all bytes.
///
/// Left out, though it emulates some of them: calls, which it makes without a shadow stack; and longer nops. One of five bytes must never be probed: from Linux
/// 6.18 on the kernel makes a call of it, which writes where leaf functions keep variables (`can_optimize` there). Others stand before what is jumped to, where
/// most threads do not pass them. What has a prefix is left out, too: the kernel refuses some of them, and all probes with it that are wanted together.
pub(super) const fn is_emulated(instruction: &[u8]) -> bool {
    matches!(
        instruction,
        // nop, of one byte and of two
        [0x90] | [0x66, 0x90]
        // push of a general register
        | [0x50..=0x57] | [0x41, 0x50..=0x57]
        // jcc, short and near
        | [0x70..=0x7f, _] | [0x0f, 0x80..=0x8f, _, _, _, _]
        // jmp, short and near
        | [0xeb, _] | [0xe9, _, _, _, _]
    )
}

/// Whether `code` begins with an instruction at which a thread can be seen by a probe of the kernel at the cost of one trap, and without harm.
#[must_use]
pub fn may_be_probed(code: &[u8]) -> bool {
    let instruction = length(code).and_then(|length| code.get(..length));
    instruction.is_some_and(is_emulated)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::assemble;
    use super::*;

    /// Check which instructions are probed, and above all which are not.
    #[test]
    fn what_is_emulated() {
        for source in [
            "nop",
            "push rax",
            "push rsp",
            "push r15",
            "1: je 1b",
            "1: jmp 1b",
            ".byte 0x0f, 0x8f, 0, 1, 0, 0",
            ".byte 0xe9, 0, 1, 0, 0",
            "xchg ax, ax",
        ] {
            assert!(is_emulated(&assemble(source)), "{source}");
        }
        for source in [
            // Of five bytes, as compilers and the kernel write it, and of others.
            ".byte 0x0f, 0x1f, 0x44, 0, 0",
            ".byte 0x66, 0x66, 0x66, 0x66, 0x90",
            "nop dword ptr [rax]",
            ".byte 0xe8, 0, 1, 0, 0",
            "call rax",
            "jmp rax",
            "ret",
            "mov eax, [rdi]",
            "pop rax",
            "push 1",
            "push qword ptr [rax]",
            "xchg r8, rax",
            "pause",
            "endbr64",
            "1: jrcxz 1b",
            "1: loop 1b",
            "leave",
            // Prefixes: a hint, bnd, data size.
            ".byte 0x3e, 0x74, 0",
            ".byte 0x2e, 0x74, 0",
            ".byte 0xf2, 0xe9, 0, 0, 0, 0",
            ".byte 0x66, 0x50",
            ".byte 0x48, 0x50",
            ".byte 0x66, 0xe9, 0, 0",
        ] {
            assert!(!is_emulated(&assemble(source)), "{source}");
        }
        assert!(!is_emulated(&[]));
    }
}
