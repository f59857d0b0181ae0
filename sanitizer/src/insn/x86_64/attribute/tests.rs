//! Accesses are told from the bytes of real instructions, by an assembler; what is uncertain is an error.

use proptest::prelude::*;

use super::super::testing::assemble;
use super::*;
use crate::insn::AccessKind::{Read, ReadWrite, Write};

const START: u64 = 0x40_0000;

/// Registers at the end of `code` (assembled from `source`), with the usual pointers.
fn at_end(source: &str) -> (Vec<u8>, Regs) {
    let code = assemble(source);
    let regs = Regs {
        rip: START + code.len() as u64,
        rbx: 0x2000,
        rcx: 0,
        rsi: 0x5000,
        rdi: 0x6000,
        rbp: 0x7000,
        rsp: 0x8000,
        ..Regs::default()
    };
    (code, regs)
}

fn last(source: &str, watch: (u64, u32)) -> Result<Attributed, Undetermined> {
    let (code, regs) = at_end(source);
    attribute(START, &code, &regs, watch)
}

/// Check plain forms: the PC, the exact address and the kind.
#[test]
fn plain_forms() {
    for (source, watch, address, size, kind) in [
        ("nop\nmov eax, [rbx]", (0x2000, 8), 0x2000, 4, Read),
        ("nop\nmov [rbx + 4], eax", (0x2000, 8), 0x2004, 4, Write),
        (
            "nop\nadd qword ptr [rbx - 4], 1",
            (0x2000, 8),
            0x1ffc,
            8,
            ReadWrite,
        ),
        ("nop\npush rax", (0x8000, 8), 0x8000, 8, Write),
        ("nop\npop rax", (0x7ff8, 8), 0x7ff8, 8, Read),
        ("nop\npush qword ptr [rbx]", (0x2000, 4), 0x2000, 8, Read),
        ("nop\nleave", (0x7ff8, 1), 0x7ff8, 8, Read),
        ("nop\nmovsd", (0x5ffc, 4), 0x5ffc, 4, Write),
        ("nop\nmovsd", (0x4ffc, 4), 0x4ffc, 4, Read),
        ("nop\nlodsb", (0x4fff, 1), 0x4fff, 1, Read),
        ("nop\nmovups [rbx], xmm0", (0x2008, 8), 0x2000, 16, Write),
    ] {
        let found = last(source, watch).unwrap_or_else(|e| panic!("{source}: {e}"));
        assert_eq!(found.pc, START + 1, "{source}");
        assert_eq!(
            found.pc + u64::from(found.len),
            at_end(source).1.rip,
            "{source}"
        );
        let access = found.access;
        assert_eq!(
            (access.address, access.size, access.kind),
            (address, size, kind),
            "{source}"
        );
        assert!(found.address_exact, "{source}");
    }
}

/// Check that an overwritten address register leaves the kind and the watch, and says so.
#[test]
fn overwritten_address_registers() {
    for (source, kind, size) in [
        ("mov rbx, [rbx]", Read, 8),
        ("movzx ebx, byte ptr [rbx + rcx]", Read, 1),
        ("xadd [rbx], rbx", ReadWrite, 8),
        ("mov rdi, [rsi + rdi]", Read, 8),
    ] {
        let found = last(source, (0xdead_0000, 8)).unwrap_or_else(|e| panic!("{source}: {e}"));
        assert!(!found.address_exact, "{source}");
        assert_eq!(
            (found.access.address, found.access.size),
            (0xdead_0000, size),
            "{source}"
        );
        assert_eq!(found.access.kind, kind, "{source}");
    }
    assert_eq!(
        last("lock xchg [rbx], rbx", (0x10, 8)).map(|a| a.access.locked),
        Ok(true)
    );
}

/// Check repeated strings, stopped on the instruction and after it.
#[test]
fn repeated_strings() {
    let (code, after) = at_end("nop\nrep movsb");
    let middle = |rcx| Regs {
        rip: START + 1,
        rcx,
        ..after
    };
    let at = |regs: &Regs, watch| {
        let found = attribute(START, &code, regs, watch)?;
        assert_eq!(found.pc, START + 1);
        let access = found.access;
        Ok((
            access.kind,
            access.address,
            access.size,
            found.address_exact,
        ))
    };
    // The byte before rdi was written, the others of the watch only if the counter says so.
    assert_eq!(at(&after, (0x5ff8, 8)), Ok((Write, 0x5fff, 1, true)));
    assert_eq!(at(&middle(100), (0x5ffc, 8)), Ok((Write, 0x5fff, 5, true)));
    assert_eq!(at(&middle(2), (0x5ffc, 8)), Ok((Write, 0x5fff, 3, true)));
    assert_eq!(at(&middle(2), (0x4ffc, 8)), Ok((Read, 0x4fff, 3, true)));
    // Reported late: which bytes were accessed depends on where it started.
    assert_eq!(at(&middle(2), (0x5fe0, 8)), Ok((Write, 0x5fe0, 8, false)));
    assert_eq!(at(&middle(2), (0x5f00, 8)), Err(Undetermined::NoMatch));
    assert_eq!(at(&middle(2), (0x6000, 8)), Err(Undetermined::NoMatch));
    let down = |rcx| Regs {
        eflags: 1 << 10,
        ..middle(rcx)
    };
    assert_eq!(at(&down(100), (0x6000, 8)), Ok((Write, 0x6000, 2, true)));
    assert_eq!(at(&down(0), (0x6000, 8)), Ok((Write, 0x6001, 1, true)));
    assert_eq!(at(&down(100), (0x6010, 8)), Ok((Write, 0x6010, 8, false)));
    assert_eq!(at(&down(100), (0x5ff8, 8)), Err(Undetermined::NoMatch));
}

/// Check that control transfers are counted, not guessed.
#[test]
fn control_transfers() {
    use Undetermined::{ControlTransfer, NoMatch};
    // Back from a call: the return popped [rsp - 8].
    assert_eq!(
        last("call qword ptr [rbx]", (0x2000, 8)),
        Err(ControlTransfer)
    );
    assert_eq!(last("jmp rax", (0x2000, 8)), Err(ControlTransfer));
    assert_eq!(last("nop", (0x7ff8, 8)), Err(ControlTransfer));
    assert_eq!(last("nop", (0x2000, 8)), Err(NoMatch));
    assert_eq!(last("mov eax, [rbx]", (0x3000, 8)), Err(NoMatch));
    assert_eq!(last("syscall", (0x2000, 8)), Err(ControlTransfer));
    // At the function's first instruction: the call pushed [rsp].
    let (code, regs) = at_end("nop");
    let regs = Regs { rip: START, ..regs };
    assert_eq!(
        attribute(START, &code, &regs, (0x8000, 8)),
        Err(ControlTransfer)
    );
    assert_eq!(
        attribute(START, &code, &regs, (0x9000, 8)),
        Err(ControlTransfer)
    );
}

/// Check that two fits, a PC inside an instruction and a PC outside are all errors.
#[test]
fn uncertain() {
    let (code, regs) = at_end("movsb");
    let same = Regs {
        rsi: 0x6000,
        ..regs
    };
    assert_eq!(
        attribute(START, &code, &same, (0x5ff8, 8)),
        Err(Undetermined::Ambiguous)
    );
    let (code, regs) = at_end("mov byte ptr [rdi - 1], 0\nrep stosb");
    let between = Regs {
        rip: START + 4,
        ..regs
    };
    assert_eq!(
        attribute(START, &code, &between, (0x5fff, 1)),
        Err(Undetermined::Ambiguous)
    );

    let (code, regs) = at_end("mov eax, [rbx]\nmov eax, [rbx]");
    let inside = Regs {
        rip: START + 1,
        ..regs
    };
    assert_eq!(
        attribute(START, &code, &inside, (0x2000, 8)),
        Err(Undetermined::Desync)
    );
    for rip in [START - 1, START + code.len() as u64 + 1, 0, u64::MAX] {
        let outside = Regs { rip, ..regs };
        let found = attribute(START, &code, &outside, (0x2000, 8));
        assert_eq!(found, Err(Undetermined::OutsideCode));
    }
    let found = attribute(
        START,
        &[0x06, 0x90],
        &Regs {
            rip: START + 2,
            ..regs
        },
        (0x2000, 8),
    );
    assert_eq!(found, Err(Undetermined::Desync));
    assert_eq!(
        last("vmovdqu32 [rbx]{k1}, zmm0", (0x2000, 8)),
        Err(Undetermined::MaskUnknown)
    );
    assert_eq!(
        last("vmovdqu32 [rbx]{k1}, zmm0", (0x1ff8, 8)),
        Err(Undetermined::NoMatch)
    );
    assert_eq!(
        last("vpgatherdd ymm0, [rbx + 4*ymm1], ymm2", (0x9000, 8)),
        Err(Undetermined::MaskUnknown)
    );
}

proptest! {
    /// Check that nothing panics, and that an answer always overlaps the watch.
    #[test]
    fn hostile_bytes(
        code in proptest::collection::vec(any::<u8>(), 0..64),
        rip in 0u64..70,
        seed in any::<[u64; 4]>(),
        len in 0u32..16,
    ) {
        let regs = Regs {
            rip: START + rip, rax: seed[1], rbx: seed[1], rcx: seed[2], rsi: seed[3],
            rdi: seed[3], rsp: seed[1], rbp: seed[2], eflags: seed[3], ..Regs::default()
        };
        if let Ok(found) = attribute(START, &code, &regs, (seed[0], len)) {
            prop_assert!(found.access.overlaps(seed[0], len));
        }
    }
}
