//! What a stopped thread is certain to do next: the instructions up to where its way forks, or where it may
//! synchronize with others.

use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, Register,
};

use super::accesses::{accesses_of, decode};
use super::operands::{Extent, Operand, operands};
use super::registers::{GprSet, written};
use crate::insn::{AccessKind, MemAccess, Regs, Undetermined};

/// An instruction that is about to be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// Run-time address of the instruction.
    pub pc: u64,
    /// The address behind it.
    pub behind: u64,
    /// What it accesses, as [`accesses_before`](super::accesses_before) says it. Of all but the first instruction,
    /// accesses are left out whose addresses depend on what an earlier one computes.
    pub accesses: Result<Vec<MemAccess>, Undetermined>,
    /// Those that are left out: what each does, and how many bytes it has, 0 where that is not known either.
    pub elsewhere: Vec<(AccessKind, u32)>,
}

/// The instructions that follow each other from `regs.rip` on, at most `limit`; `code` are the bytes from there on.
///
/// The last one is the first that leads elsewhere, is a fence or locks memory, writes thread-local memory, or changes the stack or
/// the frame pointer: at all of them the stack is what it is now. Which of them are atomic without a lock is for the caller to
/// tell.
#[must_use]
pub fn upcoming(code: &[u8], regs: &Regs, limit: usize) -> Vec<Upcoming> {
    let mut factory = InstructionInfoFactory::new();
    let mut found: Vec<Upcoming> = Vec::new();
    let mut computed = GprSet::default();
    let mut pc = regs.rip;
    while found.len() < limit {
        let offset = usize::try_from(pc.wrapping_sub(regs.rip)).unwrap_or(usize::MAX);
        let bytes = code.get(offset..).unwrap_or_default();
        let Some(instruction) = decode(bytes, pc) else {
            break;
        };
        let info = factory.info(&instruction);
        let mut operands = operands(&instruction, info);
        let is_last = ends(&instruction, info, &operands);
        let mut elsewhere = Vec::new();
        if !found.is_empty() {
            operands.retain(|operand| {
                let is_known = is_known(operand, computed);
                if !is_known {
                    let size = match operand.extent {
                        Extent::Bytes(size) => size,
                        _ => 0,
                    };
                    elsewhere.push((operand.kind, size));
                }
                is_known
            });
        }
        for register in written(info) {
            computed.insert(register);
        }
        found.push(Upcoming {
            pc,
            behind: instruction.next_ip(),
            accesses: accesses_of(&operands, regs),
            elsewhere,
        });
        if is_last {
            break;
        }
        pc = instruction.next_ip();
    }
    found
}

/// Whether the registers from before all the instructions say what an operand covers.
fn is_known(operand: &Operand, computed: GprSet) -> bool {
    matches!(operand.extent, Extent::Bytes(_))
        && !operand.thread_local()
        && !operand.address_registers().intersects(computed)
}

/// Whether it is unknown what is executed next, or with which stack, or others may be synchronized with.
fn ends(instruction: &Instruction, info: &InstructionInfo, operands: &[Operand]) -> bool {
    let is_fence = matches!(
        instruction.mnemonic(),
        Mnemonic::Mfence
            | Mnemonic::Lfence
            | Mnemonic::Sfence
            | Mnemonic::Serialize
            | Mnemonic::Cpuid
            | Mnemonic::Umwait
            | Mnemonic::Mwait
            | Mnemonic::Mwaitx
    );
    is_fence
        || instruction.flow_control() != FlowControl::Next
        || instruction.is_privileged()
        || operands.iter().any(|operand| operand.locked)
        // A restartable sequence may begin, from which the thread may be sent elsewhere.
        || operands.iter().any(|operand| operand.thread_local() && operand.kind.writes())
        || written(info).any(|register| matches!(register, Register::RSP | Register::RBP))
}

#[cfg(test)]
mod tests {
    use super::super::testing::assemble;
    use super::*;

    const START: u64 = 0x40_0000;

    fn regs() -> Regs {
        Regs {
            rip: START,
            rsp: 0x8000,
            rbp: 0x9000,
            rdi: 0x1000,
            rsi: 0x2000,
            rcx: 3,
            ..Regs::default()
        }
    }

    /// Offsets of the instructions, and the addresses that each is known to access.
    fn walk(source: &str) -> Vec<(u64, Vec<u64>)> {
        let code = assemble(source);
        let steps = upcoming(&code, &regs(), 10);
        let addresses = |step: &Upcoming| {
            let accesses = step.accesses.iter().flatten();
            accesses.map(|access| access.address).collect()
        };
        let brief = steps.iter().map(|step| (step.pc - START, addresses(step)));
        brief.collect()
    }

    /// Check that accesses are found whose addresses are what they were, and no others.
    #[test]
    fn addresses_that_are_known_now() {
        assert_eq!(
            walk("mov eax, [rdi]\nmov rsi, [rsi + 8]\nmov [rdi + 4], eax\nmov [rsi], eax"),
            [
                (0, vec![0x1000]),
                (2, vec![0x2008]),
                (6, vec![0x1004]),
                (9, vec![])
            ]
        );
        // An instruction may compute its own address register, and part of a register is all of it.
        assert_eq!(
            walk("mov edi, [rdi]\nmov eax, [rdi]"),
            [(0, vec![0x1000]), (2, vec![])]
        );
        assert_eq!(
            walk("mov sil, 1\nmov eax, [rdi + rsi]"),
            [(0, vec![]), (3, vec![])]
        );
        assert_eq!(
            walk("nop\nmov eax, [rip + 2]"),
            [(0, vec![]), (1, vec![0x40_0009])]
        );
        assert_eq!(
            walk("cmovne rdi, rax\nmov eax, [rdi]"),
            [(0, vec![]), (4, vec![])]
        );
        // Of the first one all is known, as of one by itself; later ones may count what was computed.
        assert_eq!(walk("rep stosb"), [(0, vec![0x1000])]);
        assert_eq!(walk("nop\nrep stosb"), [(0, vec![]), (1, vec![])]);
        assert_eq!(walk("nop\nmov rax, fs:[0]"), [(0, vec![]), (1, vec![])]);
    }

    /// Check that what is left out is told by kind and size.
    #[test]
    fn what_is_accessed_elsewhere() {
        let code = assemble("mov rdi, [rdi]\nmov al, [rdi]\nmov [rdi + 2], cx\nstosd");
        let steps = upcoming(&code, &regs(), 10);
        let elsewhere: Vec<_> = steps.into_iter().map(|step| step.elsewhere).collect();
        assert_eq!(
            elsewhere,
            [
                vec![],
                vec![(AccessKind::Read, 1)],
                vec![(AccessKind::Write, 2)],
                vec![(AccessKind::Write, 4)]
            ]
        );
    }

    /// Check that nothing is told of what is behind a fork, a lock, a fence or another stack.
    #[test]
    fn what_ends_it() {
        for (source, steps) in [
            ("nop\nnop\nmov eax, [rdi]", 3),
            ("nop\njmp 2f\n2: mov eax, [rdi]", 2),
            ("jne 2f\n2: mov eax, [rdi]", 1),
            ("call 2f\n2: mov eax, [rdi]", 1),
            ("ret\nmov eax, [rdi]", 1),
            ("syscall\nmov eax, [rdi]", 1),
            ("lock inc dword ptr [rdi]\nmov eax, [rsi]", 1),
            ("xchg [rdi], eax\nmov eax, [rsi]", 1),
            ("mfence\nmov eax, [rdi]", 1),
            ("mov fs:[8], rax\nmov eax, [rdi]", 1),
            ("mov rax, fs:[8]\nmov eax, [rdi]", 2),
            ("push rax\nmov eax, [rdi]", 1),
            ("sub rsp, 8\nmov eax, [rdi]", 1),
            ("mov rbp, rsp\nmov eax, [rdi]", 1),
            ("ud2\nmov eax, [rdi]", 1),
            ("hlt\nmov eax, [rdi]", 1),
            ("int3\nmov eax, [rdi]", 1),
        ] {
            assert_eq!(walk(source).len(), steps, "{source}");
        }
        assert_eq!(walk(&"nop\n".repeat(20)).len(), 10);
        assert!(upcoming(&[], &regs(), 10).is_empty());
        assert_eq!(upcoming(&[0x90, 0x06], &regs(), 10).len(), 1);
    }
}
