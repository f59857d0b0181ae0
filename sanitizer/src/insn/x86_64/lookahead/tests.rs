//! Walks over assembled code: what is worth a stall, and where a walk ends.

use super::super::testing::assemble;
use super::*;
use crate::insn::AccessKind::{Read, ReadWrite, Write};
use proptest::prelude::*;

const START: u64 = 0x40_0000;

/// Offsets, steps, kinds and sizes that a walk from the start of `source` finds.
fn walk(
    source: &str,
    limit: u32,
    rbp_is_frame: bool,
    taken: bool,
) -> Vec<(u64, u32, AccessKind, u32)> {
    let bytes = assemble(source);
    let code = |pc: u64| window(&bytes, pc);
    lookahead(Lookahead {
        pc: START,
        limit,
        regs: None,
        escapes: &|_| false,
        rbp_is_frame,
        code: &code,
        choose: &mut |jump, next| if taken { jump } else { next },
        enter: &mut |_| true,
        routine: &mut |_, _| false,
    })
    .iter()
    .map(|c| (c.pc - START, c.steps, c.kind, c.size))
    .collect()
}

fn window(bytes: &[u8], pc: u64) -> &[u8] {
    let offset = usize::try_from(pc.wrapping_sub(START)).unwrap_or(usize::MAX);
    bytes.get(offset..).unwrap_or_default()
}

/// What a walk that falls through branches and enters no calls finds.
fn straight(bytes: &[u8]) -> Vec<Candidate> {
    lookahead(Lookahead {
        pc: START,
        limit: 20,
        regs: None,
        escapes: &|_| false,
        rbp_is_frame: true,
        code: &|pc| window(bytes, pc),
        choose: &mut |_, next| next,
        enter: &mut |_| false,
        routine: &mut |_, _| false,
    })
}

/// Check what is worth a stall and what is not.
#[test]
fn shared_operands_only() {
    for (source, rbp_is_frame, expected) in [
        ("mov eax, [rdi]", true, vec![(0, 0, Read, 4)]),
        ("nop\nmov [rip], rax", true, vec![(1, 1, Write, 8)]),
        ("add word ptr [rdi], 1", true, vec![(0, 0, ReadWrite, 2)]),
        ("lock inc dword ptr [rdi]", true, vec![]),
        ("xchg [rdi], eax", true, vec![]),
        ("mov rax, fs:[0]", true, vec![]),
        ("push rax", true, vec![]),
        ("push qword ptr [rdi]", true, vec![(0, 0, Read, 8)]),
        ("mov rax, [rsp + 8]", true, vec![]),
        ("mov rax, [rdi + rsp]", true, vec![]),
        ("mov rax, [rbp - 8]", true, vec![]),
        ("mov rax, [rbp - 8]", false, vec![(0, 0, Read, 8)]),
        (
            "lea rax, [rdi]\nnop dword ptr [rax]\nprefetcht0 [rax]",
            true,
            vec![],
        ),
        ("vmovdqu32 zmm0{k1}, [rdi]", true, vec![]),
        ("vmovdqu ymm0, [rdi]", true, vec![(0, 0, Read, 32)]),
        ("rep movsd", true, vec![(0, 0, Write, 4)]),
        ("jmp qword ptr [rdi]", true, vec![(0, 0, Read, 8)]),
    ] {
        assert_eq!(walk(source, 20, rbp_is_frame, false), expected, "{source}");
    }
}

/// Check that pointers into the own frame are followed through lea, mov and add, and
/// forgotten when the register gets another value.
#[test]
fn frame_pointers_are_followed() {
    let source = "lea rax, [rsp + 8]\nmov rcx, rax\nadd rcx, 16\nmov [rcx], edx\n\
                  mov rcx, [rdi]\nmov [rcx], edx\nmov rbp, rsp\nmov [rbp], edx";
    let found: Vec<u32> = walk(source, 20, false, false).iter().map(|c| c.1).collect();
    assert_eq!(found, [4, 5]);
    let found = walk("mov rbp, rdi\nmov [rbp], edx", 20, true, false);
    assert_eq!(found.len(), 1);
}

/// Check jumps, both sides of a branch, calls with their returns, and where a walk stops.
#[test]
fn control_flow() {
    let branch = "je 1f\nmov al, [rdi]\nret\n1: mov cx, [rdi]\nret";
    assert_eq!(walk(branch, 20, true, false), [(2, 1, Read, 1)]);
    assert_eq!(walk(branch, 20, true, true), [(5, 1, Read, 2)]);

    let jump = "jmp 1f\nmov al, [rdi]\n1: mov [rdi], rax\nhlt\nmov al, [rdi]";
    assert_eq!(walk(jump, 20, true, false), [(4, 1, Write, 8)]);

    let call = "call 1f\nmov al, [rdi]\nret\n1: mov [rdi], rax\nret";
    assert_eq!(
        walk(call, 20, true, false),
        [(8, 1, Write, 8), (5, 3, Read, 1)]
    );
    assert_eq!(straight(&assemble(call)), []);

    for stop in ["ret", "jmp rax", "call rax", "syscall", "ud2", "int3"] {
        assert_eq!(
            walk(&format!("{stop}\nmov al, [rdi]"), 20, true, false),
            [],
            "{stop}"
        );
    }
    // A loop is walked until the limit, its access named once.
    assert_eq!(
        walk("1: inc rdi\nmov al, [rdi]\njne 1b", 20, true, true),
        [(3, 1, Read, 1)]
    );
    assert_eq!(walk("nop\nnop\nmov al, [rdi]", 2, true, false), []);
}

/// Check that routines are told of, by calls and jumps of each form, and are walked past.
#[test]
fn routines() {
    let told_of = |source: &str| {
        let bytes = assemble(source);
        let mut told = Vec::new();
        let found = lookahead(Lookahead {
            pc: START,
            limit: 20,
            regs: None,
            escapes: &|_| false,
            rbp_is_frame: true,
            code: &|pc| window(&bytes, pc),
            choose: &mut |_, next| next,
            enter: &mut |_| false,
            routine: &mut |transfer, behind| {
                told.push((transfer, behind - START));
                true
            },
        });
        let found: Vec<u64> = found.iter().map(|c| c.pc - START).collect();
        (told, found)
    };
    let to = |offset| Transfer::To(START + offset);
    assert_eq!(
        told_of(".byte 0xe8, 0xfb, 0, 0, 0\nmov al, [rbx]\nret"),
        (vec![(to(0x100), 5)], vec![5])
    );
    assert_eq!(
        told_of("call [rip + 0x10]\nmov al, [rbx]\n.byte 0xe9, 0xf3, 0, 0, 0"),
        (
            vec![(Transfer::Through(START + 0x16), 6), (to(0x100), 13)],
            vec![0, 6]
        )
    );
    assert_eq!(told_of("call rax\nmov al, [rbx]").0, []);
}

/// Check that addresses known from the code alone are given.
#[test]
fn fixed_addresses() {
    let bytes = assemble("mov rax, [rip + 0x10]\nmov rax, [rdi]\nmov eax, [0x1234]");
    let found = straight(&bytes);
    let addresses: Vec<_> = found.iter().map(|c| c.fixed_address).collect();
    assert_eq!(addresses, [Some(START + 0x17), None, Some(0x1234)]);
}

/// Check that addresses are given as far as the registers from before the walk make them, and accesses of the frame
/// that others can reach.
#[test]
fn what_registers_and_functions_tell() {
    let bytes = assemble(
        "mov eax, [rdi + 8]\nmov rdi, [rsi]\nmov [rdi], eax\ninc dword ptr [rsp + 4]\ninc dword ptr [rsp + 8]",
    );
    let regs = Regs {
        rdi: 0x1000,
        rsi: 0x2000,
        rsp: 0x3000,
        ..Regs::default()
    };
    let last = START + bytes.len() as u64 - 4;
    let found = lookahead(Lookahead {
        pc: START,
        limit: 20,
        regs: Some(&regs),
        escapes: &|pc| pc == last,
        rbp_is_frame: true,
        code: &|pc| window(&bytes, pc),
        choose: &mut |_, next| next,
        enter: &mut |_| false,
        routine: &mut |_, _| false,
    });
    let addresses: Vec<_> = found.iter().map(|c| c.address).collect();
    assert_eq!(addresses, [Some(0x1008), Some(0x2000), None, Some(0x3008)]);
    assert_eq!(found.last().map(|c| c.pc), Some(last));
}

proptest! {
    /// Check that no bytes make a walk panic or run on.
    #[test]
    fn hostile_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200), taken: bool) {
        let found = lookahead(Lookahead {
            pc: START,
            limit: 50,
            regs: Some(&Regs::default()),
            escapes: &|_| taken,
            rbp_is_frame: taken,
            code: &|pc| window(&bytes, pc),
            choose: &mut |jump, next| if taken { jump } else { next },
            enter: &mut |_| taken,
            routine: &mut |_, _| !taken,
        });
        prop_assert!(found.iter().all(|c| c.steps < 50 && c.size > 0));
    }
}
