//! The accesses that an instruction is about to make.

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory};

use super::MAX_INSTRUCTION_LEN;
use super::operands::{AddressForm, Member, Operand, Variable, operands};
use crate::insn::{MemAccess, Regs, Undetermined};

/// The first instruction of `code`, which stands at `pc`.
pub(super) fn decode(code: &[u8], pc: u64) -> Option<Instruction> {
    let code = code.get(..MAX_INSTRUCTION_LEN).unwrap_or(code);
    let instruction = Decoder::with_ip(64, code, pc, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// Length in bytes of the instruction that `code` starts with; None where it is not one.
#[must_use]
pub fn length(code: &[u8]) -> Option<usize> {
    decode(code, 0).map(|instruction| instruction.len())
}

/// The memory accesses that the instruction at `regs.rip` will make, in the order in which it
/// makes them. `code` are the bytes from there on, `regs` the registers before it executes.
///
/// Address computations, prefetches and nops access nothing. A repeated string instruction gives
/// one access an operand, with all the bytes of its `rcx` elements.
///
/// # Errors
///
/// What the registers given cannot decide: vector masks and indices, the extent of repeated
/// comparisons, the size of processor state.
pub fn accesses_before(code: &[u8], regs: &Regs) -> Result<Vec<MemAccess>, Undetermined> {
    let operands = operands_of(code, regs.rip).ok_or(Undetermined::Undecodable)?;
    accesses_of(&operands, regs)
}

/// The memory operands of the first instruction of `code`, which stands at `pc`; nothing where it is not one.
fn operands_of(code: &[u8], pc: u64) -> Option<Vec<Operand>> {
    let instruction = decode(code, pc)?;
    let mut factory = InstructionInfoFactory::new();
    Some(operands(&instruction, factory.info(&instruction)))
}

/// How the first instruction of `code` computes the address of its access that is not implied by the stack
/// pointer; nothing where that has a fixed address, or more than general registers take part in it, or there are two.
#[must_use]
pub fn address_form(code: &[u8], pc: u64) -> Option<AddressForm> {
    let operands = operands_of(code, pc)?;
    let mut explicit = operands.iter().filter(|operand| !operand.stack_implicit);
    let only = explicit.next()?;
    explicit.next().is_none().then(|| only.form()).flatten()
}

/// How many bytes the first instruction of `code` accesses, which stands at `pc`, where it makes one access that is not implied by the stack
/// pointer; with their address where that is fixed. Nothing where that depends on more than the instruction.
#[must_use]
pub fn extent(code: &[u8], pc: u64) -> Option<(u32, Option<u64>)> {
    let operands = operands_of(code, pc)?;
    let mut explicit = operands.iter().filter(|operand| !operand.stack_implicit);
    let only = explicit.next()?;
    explicit.next().is_none().then(|| only.bytes()).flatten()
}

/// The member of an object that the first instruction of `code` accesses; nothing where its first access does not
/// look like one.
#[must_use]
pub fn member(code: &[u8], pc: u64) -> Option<Member> {
    let operands = operands_of(code, pc)?;
    operands.iter().find_map(Operand::member)
}

/// The variable that the first instruction of `code`, which stands at `pc`, accesses first, but for what is implied
/// by the stack pointer.
///
/// ```
/// use gwp_race::insn::x86_64::{Variable, variable};
///
/// let part = |code| variable(code, 0x1000);
/// assert_eq!(part(&[0x48, 0x8b, 0x47, 0x08]), Some(Variable::Part(8))); // mov rax, [rdi + 8]
/// assert_eq!(part(&[0xff, 0x05, 0x10, 0, 0, 0]), Some(Variable::Fixed(0x1016))); // inc [rip + 0x10]
/// assert_eq!(part(&[0x8b, 0x04, 0x8f]), None); // mov eax, [rdi + 4 * rcx]
/// ```
#[must_use]
pub fn variable(code: &[u8], pc: u64) -> Option<Variable> {
    let operands = operands_of(code, pc)?;
    let explicit = operands.iter().find(|operand| !operand.stack_implicit)?;
    explicit.variable()
}

/// The accesses by an instruction's operands.
pub(super) fn accesses_of(
    operands: &[Operand],
    regs: &Regs,
) -> Result<Vec<MemAccess>, Undetermined> {
    let mut accesses = Vec::new();
    for operand in operands {
        let (address, size) = operand.range(regs)?;
        if size > 0 {
            accesses.push(MemAccess {
                address,
                size,
                kind: operand.kind,
                locked: operand.locked,
                thread_local: operand.thread_local(),
                stack_implicit: operand.stack_implicit,
            });
        }
    }
    Ok(accesses)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::assemble;
    use super::*;
    use crate::insn::AccessKind::{self, Read, ReadWrite, Write};

    /// Check how many bytes are accessed, and where that is certain.
    #[test]
    fn extents() {
        let extent = |source: &str| extent(&assemble(source), 0x40_0000);
        assert_eq!(extent("mov dword ptr [rdi - 8], eax"), Some((4, None)));
        assert_eq!(extent("movups xmm0, [rax + rcx]"), Some((16, None)));
        assert_eq!(
            extent("mov al, byte ptr [rip + 0x100]"),
            Some((1, Some(0x40_0106)))
        );
        assert_eq!(extent("push qword ptr [rax]"), Some((8, None)));
        // The stack's own, two, none, and so many as a register says.
        for none in ["push rax", "movsb", "nop", "rep stosb"] {
            assert_eq!(extent(none), None, "{none}");
        }
    }

    /// Check which addresses a gate can compute, and from what.
    #[test]
    fn forms_of_addresses() {
        let form = |source: &str| address_form(&assemble(source), 0x40_0000);
        let of = |base, index, shift, displacement| {
            Some(AddressForm {
                base,
                index,
                shift,
                displacement,
            })
        };
        assert_eq!(
            form("mov dword ptr [rdi - 8], eax"),
            of(Some(7), None, 0, 8u64.wrapping_neg())
        );
        assert_eq!(
            form("add [r12 + 8*r15 + 16], rcx"),
            of(Some(12), Some(15), 3, 16)
        );
        assert_eq!(form("push qword ptr [rax]"), of(Some(0), None, 0, 0));
        assert_eq!(form("inc byte ptr [4*rsi]"), of(None, Some(6), 2, 0));
        for other in [
            "mov eax, [rip + 8]",
            "mov eax, fs:[rdi]",
            "mov eax, [edi]",
            "bts [rdi], rax",
            "rep movsb",
            "movsb",
            "push rax",
            "add rax, rcx",
        ] {
            assert_eq!(form(other), None, "{other}");
        }
    }

    /// Check what is taken for a member of an object.
    #[test]
    fn members() {
        let of = |source: &str| member(&assemble(source), 0x40_0000);
        let at = |distance, size| Some(Member { distance, size });
        assert_eq!(of("mov word ptr [rdi + 38], ax"), at(38, 2));
        assert_eq!(of("inc byte ptr [r12 + 0x1000]"), at(0x1000, 1));
        assert_eq!(of("push qword ptr [rax + 8]"), at(8, 8));
        for other in [
            "mov [rdi], eax",
            "mov [rdi - 8], eax",
            "mov [rdi + 4*rcx + 8], eax",
            "mov [rsp + 8], eax",
            "mov eax, [rip + 8]",
            "mov [rdi + 0x20000], eax",
            "push rax",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    fn regs() -> Regs {
        Regs {
            rax: 0x1000,
            rbx: 0x2000,
            rcx: 3,
            rdx: 0x4000,
            rsi: 0x5000,
            rdi: 0x6000,
            rbp: 0x7000,
            rsp: 0x8000,
            r8: u64::MAX,
            r9: 33,
            fs_base: 0x10_0000,
            gs_base: 0x20_0000,
            rip: 0x40_0000,
            ..Regs::default()
        }
    }

    fn brief(source: &str, regs: &Regs) -> Result<Vec<(u64, u32, AccessKind)>, Undetermined> {
        let accesses = accesses_before(&assemble(source), regs)?;
        Ok(accesses
            .iter()
            .map(|a| (a.address, a.size, a.kind))
            .collect())
    }

    /// Check addresses, sizes and kinds of the forms that compilers make, against the SDM.
    #[test]
    fn forms() {
        type Expected<'a> = &'a [(u64, u32, AccessKind)];
        let table: &[(&str, Expected)] = &[
            ("mov eax, [rbx]", &[(0x2000, 4, Read)]),
            ("mov [rbx + 8*rcx - 1], al", &[(0x2017, 1, Write)]),
            ("mov rax, [rip + 0x10]", &[(0x40_0017, 8, Read)]),
            ("mov eax, [ebx + r8d]", &[(0x1fff, 4, Read)]),
            (
                "movabs al, [0x1122334455667788]",
                &[(0x1122_3344_5566_7788, 1, Read)],
            ),
            ("movzx eax, word ptr [rdx]", &[(0x4000, 2, Read)]),
            ("add [rbx], eax", &[(0x2000, 4, ReadWrite)]),
            ("cmp byte ptr [rbx], 0", &[(0x2000, 1, Read)]),
            ("inc qword ptr [rbx]", &[(0x2000, 8, ReadWrite)]),
            ("cmovne eax, [rbx]", &[(0x2000, 4, Read)]),
            ("setne byte ptr [rbx]", &[(0x2000, 1, Write)]),
            ("cmpxchg [rbx], ecx", &[(0x2000, 4, ReadWrite)]),
            ("lock cmpxchg16b [rbx]", &[(0x2000, 16, ReadWrite)]),
            ("xadd [rbx], rcx", &[(0x2000, 8, ReadWrite)]),
            ("bt dword ptr [rbx], r9d", &[(0x2004, 4, Read)]),
            ("bts qword ptr [rbx], r8", &[(0x1ff8, 8, ReadWrite)]),
            ("bts dword ptr [rbx], 7", &[(0x2000, 4, ReadWrite)]),
            ("movups xmm0, [rbx]", &[(0x2000, 16, Read)]),
            ("movaps [rbx], xmm0", &[(0x2000, 16, Write)]),
            ("movss xmm0, dword ptr [rbx]", &[(0x2000, 4, Read)]),
            ("movhps qword ptr [rbx], xmm0", &[(0x2000, 8, Write)]),
            ("vmovdqu ymm0, [rbx]", &[(0x2000, 32, Read)]),
            ("vmovdqu64 [rbx], zmm0", &[(0x2000, 64, Write)]),
            ("vpbroadcastd ymm0, dword ptr [rbx]", &[(0x2000, 4, Read)]),
            (
                "vpaddd zmm0, zmm1, dword ptr [rbx]{1to16}",
                &[(0x2000, 4, Read)],
            ),
            ("vpmovzxbd ymm0, qword ptr [rbx]", &[(0x2000, 8, Read)]),
            ("pextrw [rbx], xmm0, 1", &[(0x2000, 2, Write)]),
            ("fld qword ptr [rbx]", &[(0x2000, 8, Read)]),
            ("fstp xword ptr [rbx]", &[(0x2000, 10, Write)]),
            ("push rax", &[(0x7ff8, 8, Write)]),
            (
                "push qword ptr [rsp + 8]",
                &[(0x8008, 8, Read), (0x7ff8, 8, Write)],
            ),
            ("pop rax", &[(0x8000, 8, Read)]),
            (
                "pop qword ptr [rsp + 8]",
                &[(0x8000, 8, Read), (0x8010, 8, Write)],
            ),
            (
                "call qword ptr [rbx]",
                &[(0x2000, 8, Read), (0x7ff8, 8, Write)],
            ),
            ("jmp qword ptr [rbx]", &[(0x2000, 8, Read)]),
            ("ret", &[(0x8000, 8, Read)]),
            ("leave", &[(0x7000, 8, Read)]),
            ("movsq", &[(0x5000, 8, Read), (0x6000, 8, Write)]),
            ("rep movsd", &[(0x5000, 12, Read), (0x6000, 12, Write)]),
            ("rep stosb", &[(0x6000, 3, Write)]),
            ("cmpsb", &[(0x5000, 1, Read), (0x6000, 1, Read)]),
            ("xlatb", &[(0x2000, 1, Read)]),
            (
                "movdir64b rdx, [rbx]",
                &[(0x2000, 64, Read), (0x4000, 64, Write)],
            ),
            ("lea rax, [rbx]", &[]),
            ("nop dword ptr [rbx]", &[]),
            ("prefetcht0 [rbx]", &[]),
            ("prefetchw [rbx]", &[]),
            ("clflush [rbx]", &[]),
            ("endbr64", &[]),
            ("mov eax, ebx", &[]),
            ("mfence", &[]),
        ];
        for (source, expected) in table {
            let found = brief(source, &regs());
            assert_eq!(found.as_deref(), Ok(*expected), "{source}");
        }
    }

    /// Check that the direction flag turns string ranges around, and that rcx = 0 does nothing.
    #[test]
    fn string_direction_and_count() {
        let down = Regs {
            eflags: 1 << 10,
            ..regs()
        };
        let expected = vec![(0x5000 - 16, 24, Read), (0x6000 - 16, 24, Write)];
        assert_eq!(brief("rep movsq", &down), Ok(expected));
        let none = Regs { rcx: 0, ..regs() };
        assert_eq!(brief("rep movsq", &none), Ok(vec![]));
        assert_eq!(brief("repe cmpsb", &none), Ok(vec![]));
        let endless = Regs {
            rcx: u64::MAX,
            ..regs()
        };
        assert_eq!(brief("rep stosb", &endless), Err(Undetermined::SizeUnknown));
    }

    /// Check that what the general registers cannot decide is an error, not a guess.
    #[test]
    fn undecidable_forms() {
        for source in [
            "vmovdqu32 zmm0{k1}, [rbx]",
            "vmovdqu32 [rbx]{k1}, zmm0",
            "vpaddd zmm0{k1}{z}, zmm1, [rbx]",
            "vpmaskmovd ymm0, ymm1, [rbx]",
            "vmaskmovps [rbx], ymm0, ymm1",
            "maskmovdqu xmm0, xmm1",
            "vpgatherdd ymm0, [rbx + 4*ymm1], ymm2",
            "vpscatterdd [rbx + 4*zmm1]{k1}, zmm0",
        ] {
            assert_eq!(
                brief(source, &regs()),
                Err(Undetermined::MaskUnknown),
                "{source}"
            );
        }
        assert_eq!(
            brief("xsave [rbx]", &regs()),
            Err(Undetermined::SizeUnknown)
        );
        assert_eq!(
            brief("repne scasb", &regs()),
            Err(Undetermined::DataDependent)
        );
        assert_eq!(
            accesses_before(&[], &regs()),
            Err(Undetermined::Undecodable)
        );
        assert_eq!(
            accesses_before(&[0x06], &regs()),
            Err(Undetermined::Undecodable)
        );
    }

    /// Check the flags: locked by prefix or by xchg, thread-local by segment, implicit stack.
    #[test]
    fn flags() {
        let flags = |source: &str| -> Vec<(bool, bool, bool)> {
            let accesses = accesses_before(&assemble(source), &regs()).expect("decidable");
            accesses
                .iter()
                .map(|a| (a.locked, a.thread_local, a.stack_implicit))
                .collect()
        };
        assert_eq!(flags("lock add dword ptr [rbx], 1"), [(true, false, false)]);
        assert_eq!(flags("xchg [rbx], eax"), [(true, false, false)]);
        assert_eq!(flags("mov [rbx], eax"), [(false, false, false)]);
        assert_eq!(flags("mov rax, fs:[0x28]"), [(false, true, false)]);
        assert_eq!(flags("push rax"), [(false, false, true)]);
        assert_eq!(
            flags("push qword ptr [rbx]"),
            [(false, false, false), (false, false, true)]
        );
        assert_eq!(
            flags("pop qword ptr [rbx]"),
            [(false, false, true), (false, false, false)]
        );
        assert_eq!(flags("ret"), [(false, false, true)]);
        assert_eq!(flags("leave"), [(false, false, true)]);
        assert_eq!(
            brief("mov rax, fs:[0x28]", &regs()),
            Ok(vec![(0x10_0028, 8, Read)])
        );
        assert_eq!(
            brief("mov rax, gs:[rbx]", &regs()),
            Ok(vec![(0x20_2000, 8, Read)])
        );
    }

    /// Check lengths, prefixes included.
    #[test]
    fn lengths() {
        assert_eq!(length(&assemble("lock add dword ptr [rbx], 1")), Some(4));
        assert_eq!(length(&assemble("mov rax, [rip + 0x10]\nnop")), Some(7));
        assert_eq!(length(&[0x48]), None);
        assert_eq!(length(&[]), None);
    }

    proptest! {
        /// Check that no bytes and no registers make it panic, and that ranges are never empty.
        #[test]
        fn hostile_bytes(code in proptest::collection::vec(any::<u8>(), 0..20), seed in any::<[u64; 4]>()) {
            let regs = Regs {
                rip: seed[0], rax: seed[1], rbx: seed[1], rcx: seed[2], rsi: seed[3], rdi: seed[3],
                rsp: seed[1], rbp: seed[2], eflags: seed[3], ..Regs::default()
            };
            let accesses = accesses_before(&code, &regs).unwrap_or_default();
            prop_assert!(accesses.iter().all(|access| access.size > 0));
            if let Some(len) = length(&code) {
                prop_assert!(len <= code.len().min(super::super::MAX_INSTRUCTION_LEN));
            }
        }
    }
}
