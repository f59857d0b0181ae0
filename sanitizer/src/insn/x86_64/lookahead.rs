//! Which accesses lie ahead of a stopped thread: the clock strategy samples an arbitrary
//! instruction and must find one nearby that is worth a stall.

use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpKind, Register,
};

use super::accesses::decode;
use super::flow::transfer;
use super::operands::{Extent, Operand, operands};
use super::registers::{CALLER_SAVED, GprSet, written};
use crate::insn::{AccessKind, Regs, Transfer};

/// An access ahead that is worth a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Run-time address of the instruction.
    pub pc: u64,
    /// How many instructions execute before it; 0 for the one that the walk began at.
    pub steps: u32,
    /// What the instruction does to memory. Of a string move or `push [m]` the operand that is
    /// not the thread's own stack; of two such, the store.
    pub kind: AccessKind,
    /// Bytes of the access; of one element where a string instruction repeats.
    pub size: u32,
    /// The address where the code alone gives it (PC-relative and absolute operands), so that
    /// read-only data can be told without stopping.
    pub fixed_address: Option<u64>,
    /// The address where the walk's registers give it.
    pub address: Option<u64>,
}

/// A walk: where it begins, how far it goes, and what it asks on its way.
pub struct Lookahead<'a> {
    /// Run-time address of the first instruction.
    pub pc: u64,
    /// At most so many instructions are looked at.
    pub limit: u32,
    /// The registers at the first instruction, where they are known.
    pub regs: Option<&'a Regs>,
    /// rbp points into the thread's own stack, so operands based on it are its own frame.
    pub rbp_is_frame: bool,
    /// Whether the instruction at an address accesses what others can reach, although it stands in the own frame.
    pub escapes: &'a dyn Fn(u64) -> bool,
    /// The code bytes from a run-time address on; empty where there are none. Fifteen suffice.
    pub code: &'a dyn Fn(u64) -> &'a [u8],
    /// Picks a side of a conditional branch: given the target where it is taken and the next
    /// instruction, answers with one of the two, or with anything else to stop.
    pub choose: &'a mut dyn FnMut(u64, u64) -> u64,
    /// Whether to follow a direct call to this target.
    pub enter: &'a mut dyn FnMut(u64) -> bool,
    /// Told of a call or a jump, and of the address behind that instruction: whether it leads to a
    /// routine that returns and whose own accesses are not to be looked at.
    pub routine: &'a mut dyn FnMut(Transfer, u64) -> bool,
}

/// The accesses at most `limit` instructions ahead that may touch shared memory, in the
/// order in which they would execute; each PC once.
///
/// Direct jumps are followed, and returns from the calls that were entered; of a routine, what
/// follows its return. The walk stops at other calls and returns, at indirect jumps, system calls
/// and bytes that are not code.
///
/// Left out: what locks itself, thread-local data, stack traffic, operands based on the stack
/// pointer or on registers that are seen to be computed from it (unless others can reach them), and accesses whose extent needs
/// vector registers.
#[must_use]
pub fn lookahead(walk: Lookahead<'_>) -> Vec<Candidate> {
    let Lookahead {
        limit,
        code,
        choose,
        enter,
        routine,
        ..
    } = walk;
    let mut factory = InstructionInfoFactory::new();
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut frame = GprSet::default();
    frame.insert(Register::RSP);
    if walk.rbp_is_frame {
        frame.insert(Register::RBP);
    }
    let mut computed = GprSet::default();
    let mut returns: Vec<u64> = Vec::new();
    let mut pc = walk.pc;
    for steps in 0..limit {
        let Some(instruction) = decode(code(pc), pc) else {
            break;
        };
        if instruction.is_privileged() {
            break;
        }
        let info = factory.info(&instruction);
        let escapes = (walk.escapes)(pc);
        let is_own = |operand: &Operand| !escapes && operand.address_registers().intersects(frame);
        if let Some(operand) = shared_operand(&instruction, info, is_own)
            && let Some((kind, size)) = extent_of(&operand)
            && candidates.iter().all(|known| known.pc != pc)
        {
            let is_known = !operand.address_registers().intersects(computed);
            let regs = walk.regs.filter(|_| is_known);
            candidates.push(Candidate {
                pc,
                steps,
                kind,
                size,
                fixed_address: operand.fixed_address(),
                address: regs.and_then(|regs| operand.address(regs)),
            });
        }
        for register in written(info) {
            computed.insert(register);
        }
        track_frame(&instruction, info, &mut frame);
        let next = instruction.next_ip();
        let flow = instruction.flow_control();
        let leaves = matches!(
            flow,
            FlowControl::Call
                | FlowControl::IndirectCall
                | FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
        );
        if leaves
            && let Some(transfer) = transfer(&instruction)
            && routine(transfer, next)
        {
            for register in CALLER_SAVED {
                frame.remove(register);
                computed.insert(register);
            }
            let back = match flow {
                FlowControl::Call | FlowControl::IndirectCall => Some(next),
                _ => returns.pop(),
            };
            let Some(back) = back else { break };
            pc = back;
            continue;
        }
        pc = match flow {
            FlowControl::Next => next,
            FlowControl::UnconditionalBranch => instruction.near_branch_target(),
            FlowControl::ConditionalBranch => {
                let taken = instruction.near_branch_target();
                match choose(taken, next) {
                    side if side == taken || side == next => side,
                    _ => break,
                }
            }
            FlowControl::Call if instruction.is_call_near() => {
                let target = instruction.near_branch_target();
                if !enter(target) {
                    break;
                }
                returns.push(next);
                target
            }
            FlowControl::Return => match returns.pop() {
                Some(back) => back,
                None => break,
            },
            _ => break,
        };
    }
    candidates
}

/// What an instruction accesses that may be shared: of two, the store.
pub(super) fn shared_operand(
    instruction: &Instruction,
    info: &InstructionInfo,
    is_own: impl Fn(&Operand) -> bool,
) -> Option<Operand> {
    let shared = |operand: &Operand| {
        !operand.stack_implicit && !operand.thread_local() && !operand.locked && !is_own(operand)
    };
    operands(instruction, info).into_iter().rfind(shared)
}

/// What an operand does, and how many bytes it has, or one of its elements; nothing where vector registers say that.
pub(super) const fn extent_of(operand: &Operand) -> Option<(AccessKind, u32)> {
    match operand.extent {
        Extent::Bytes(size) | Extent::Repeated(size) | Extent::RepeatedUntil(size) => {
            Some((operand.kind, size))
        }
        Extent::Masked(_) | Extent::Gathered | Extent::Unknown => None,
    }
}

/// Follows pointers into the thread's own frame through the arithmetic that compilers make
/// them with.
fn track_frame(instruction: &Instruction, info: &InstructionInfo, frame: &mut GprSet) {
    let derived = match instruction.mnemonic() {
        Mnemonic::Lea => frame.contains(instruction.memory_base()),
        Mnemonic::Mov => {
            instruction.op1_kind() == OpKind::Register && frame.contains(instruction.op1_register())
        }
        Mnemonic::Add | Mnemonic::Sub => frame.contains(instruction.op0_register()),
        _ => false,
    };
    for register in written(info).filter(|&register| register != Register::RSP) {
        frame.remove(register);
    }
    if derived && instruction.op0_kind() == OpKind::Register {
        let destination = instruction.op0_register();
        if destination.size() == 8 {
            frame.insert(destination);
        }
    }
}

#[cfg(test)]
mod tests {
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
}
