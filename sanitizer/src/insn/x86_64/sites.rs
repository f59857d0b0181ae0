//! The access sites of a function: its instructions that may access shared memory, as far as the code
//! alone tells.

use iced_x86::InstructionInfoFactory;

use super::accesses::decode;
use super::flow::transfer;
use super::frame::{Frame, Slot};
use super::lookahead::{extent_of, shared_operand};
use super::operands::Operand;
use crate::insn::{AccessKind, Transfer};

/// Bytes of a function that are looked at: what follows in a larger one is left out, so that a look
/// takes a bounded time.
pub const SITE_CODE: usize = 32 << 10;

/// A place in a function that is of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaticSite {
    /// An access.
    Access {
        /// Run-time address of the instruction.
        pc: u64,
        /// The address that is accessed, where the code alone gives it.
        fixed_address: Option<u64>,
        /// It is written, not only read.
        writes: bool,
        /// It is a variable of the function's own frame, which others can reach: its address gets out of the function's hands.
        own_frame: bool,
        /// So many bytes from the stack pointer up are the function's own frame there; 0 where that is not known.
        frame: u32,
    },
    /// A call, or a jump out of the function.
    Leaves {
        /// Run-time address of the instruction.
        pc: u64,
        /// The address behind it.
        behind: u64,
        /// Where it leads.
        transfer: Transfer,
        /// So many bytes from the stack pointer up are the function's own frame there; 0 where that is not known.
        frame: u32,
    },
}

/// Decodes a function from its start and tells of its places, in their order.
///
/// Left out are the accesses that [`lookahead`](super::lookahead) leaves out: of the own stack frame,
/// as far as a walk down the code can tell, unless the address of what stands there is stored or given to another function;
/// thread-local data, and what locks itself. Decoding stops at bytes that are no instruction.
pub fn static_sites(code: &[u8], start: u64, tell: &mut dyn FnMut(StaticSite)) {
    let code = code.get(..SITE_CODE).unwrap_or(code);
    let end = start.wrapping_add(code.len() as u64);
    let mut factory = InstructionInfoFactory::new();
    let mut slots = Frame::at_entry();
    // What is told of accesses of the frame depends on all of the code.
    let mut found: Vec<(StaticSite, Option<Slot>)> = Vec::new();
    let mut offset = 0;
    while let Some(rest) = code.get(offset..).filter(|rest| !rest.is_empty()) {
        let pc = start.wrapping_add(offset as u64);
        let Some(instruction) = decode(rest, pc) else {
            break;
        };
        offset += instruction.len();
        let info = factory.info(&instruction);
        let frame = slots.depth().unwrap_or(0);
        let leaves = transfer(&instruction).filter(|transfer| match transfer {
            Transfer::To(target) => instruction.is_call_near() || !(start..end).contains(target),
            Transfer::Through(_) => true,
        });
        if let Some(transfer) = leaves {
            let site = StaticSite::Leaves {
                pc,
                behind: instruction.next_ip(),
                transfer,
                frame,
            };
            found.push((site, None));
        } else if !instruction.is_privileged() {
            let in_frame = |operand: &Operand| slots.slot_of(operand).is_some();
            let elsewhere = shared_operand(&instruction, info, in_frame);
            let access = elsewhere.or_else(|| shared_operand(&instruction, info, |_| false));
            found.extend(access.and_then(|operand| {
                let slot = slots.slot_of(&operand);
                let (kind, _) = extent_of(&operand)?;
                let site = StaticSite::Access {
                    pc,
                    fixed_address: operand.fixed_address(),
                    writes: kind != AccessKind::Read,
                    own_frame: slot.is_some(),
                    frame,
                };
                Some((site, slot))
            }));
        }
        slots.step(&instruction, info);
    }
    let escaped = slots.escaped();
    for (site, slot) in found {
        if slot.is_none_or(|slot| escaped.has(slot)) {
            tell(site);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::assemble;
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 0x40_0000;

    fn sites(code: &[u8]) -> Vec<StaticSite> {
        let mut found = Vec::new();
        static_sites(code, START, &mut |site| found.push(site));
        found
    }

    fn accesses(source: &str) -> Vec<u64> {
        let found = sites(&assemble(source));
        let access = |site: &StaticSite| match site {
            StaticSite::Access { pc, .. } => Some(pc - START),
            StaticSite::Leaves { .. } => None,
        };
        found.iter().filter_map(access).collect()
    }

    /// Check that accesses on all paths are found, and none of the frame.
    #[test]
    fn accesses_of_a_function() {
        let source = "push rbp\nmov rbp, rsp\nmov [rbp - 8], rdi\nmov eax, [rdi]\nje 1f\n\
                      mov [rsi], eax\npop rbp\nret\n1: mov eax, [rbp - 8]\nmov [rdi], ax\nret";
        assert_eq!(accesses(source), [8, 12, 19]);
        // Without a frame pointer rbp is a register like others.
        assert_eq!(
            accesses("mov eax, [rbp]\nlock inc dword ptr [rdi]\nret"),
            [0]
        );
        assert_eq!(
            accesses("lea rax, [rsp + 8]\nmov [rax], ecx\nret\nmov [rax], ecx"),
            [8]
        );
    }

    /// Offsets of accesses that are told of, those of the own frame.
    fn of_frame(source: &str) -> Vec<u64> {
        let found = sites(&assemble(source));
        let access = |site: &StaticSite| match site {
            StaticSite::Access {
                pc,
                own_frame: true,
                ..
            } => Some(pc - START),
            _ => None,
        };
        found.iter().filter_map(access).collect()
    }

    /// Check that variables of the frame are told of whose addresses are stored, or given to who is called, however that is
    /// done, and no others.
    #[test]
    fn variables_that_others_can_reach() {
        const CALL: &str = ".byte 0xe8, 0, 1, 0, 0";
        for (source, expected) in [
            // inc of 12(rsp), before and behind the call that is given its address; 40(rsp) is a spilled register.
            (
                format!(
                    "inc dword ptr [rsp + 12]\nlea rdi, [rsp + 12]\n{CALL}\nmov [rsp + 44], rbx\ninc dword ptr [rsp + 12]"
                ),
                vec![0, 19],
            ),
            // Nobody is given it.
            (
                "lea rax, [rsp + 12]\ninc dword ptr [rsp + 12]\nmov [rax], edx".to_owned(),
                vec![],
            ),
            // A closure in the frame, whose own address is given on, at -O0.
            (
                format!(
                    "push rbp\nmov rbp, rsp\nlea rax, [rbp - 4]\nmov [rbp - 16], rax\nlea rdi, [rbp - 16]\n{CALL}\ninc dword ptr [rbp - 4]\nmov [rbp - 40], eax"
                ),
                vec![8, 21],
            ),
            // Two pointers in a vector register.
            (
                "mov rcx, rsp\nadd rcx, 8\nmovq xmm0, rcx\nmov eax, [rsp + 8]\nmov eax, [rsp + 4]"
                    .to_owned(),
                vec![12],
            ),
            // An element of an array, by the frame and by a register that still points there.
            (
                format!(
                    "lea rbx, [rsp + 16]\nmov rdi, rbx\n{CALL}\nmov eax, [rsp + 4*rcx + 16]\nmov [rbx + 8], eax"
                ),
                vec![13, 17],
            ),
            // Compared, or part of a register: neither is the address given away.
            (
                "lea rax, [rsp + 8]\ncmp rax, rdx\nmov edi, eax\ninc dword ptr [rsp + 8]"
                    .to_owned(),
                vec![],
            ),
        ] {
            assert_eq!(of_frame(&source), expected, "{source}");
        }
    }

    /// Check how far the own frame reaches at each access: through prologues, epilogues in the midst, alignment, and code that is jumped to.
    #[test]
    fn how_far_the_frame_reaches() {
        let depths = |source: &str| {
            let depth = |site: &StaticSite| match site {
                StaticSite::Access { frame, .. } | StaticSite::Leaves { frame, .. } => *frame,
            };
            let found = sites(&assemble(source));
            found.iter().map(depth).collect::<Vec<_>>()
        };
        let access = "mov [rdi], eax";
        for (source, expected) in [
            (
                format!(
                    "{access}\npush rbx\nsub rsp, 0x40\n{access}\nadd rsp, 0x40\npop rbx\nret\n{access}"
                ),
                vec![8, 80, 80],
            ),
            (
                format!("test eax, eax\nje 1f\npush rbx\n{access}\npop rbx\nret\n1: {access}\nret"),
                vec![16, 8],
            ),
            (
                format!(
                    "push rbp\nmov rbp, rsp\npush rbx\nand rsp, -32\nsub rsp, 64\n{access}\nlea rsp, [rbp - 8]\n{access}\npop rbx\npop rbp\n{access}\nret"
                ),
                vec![120, 24, 8],
            ),
            (
                format!("push rbp\nmov rbp, rsp\nsub rsp, 32\n{access}\nleave\n{access}\nret"),
                vec![48, 8],
            ),
            (format!("sub rsp, rax\n{access}"), vec![0]),
        ] {
            assert_eq!(depths(&source), expected, "{source}");
        }
    }

    /// Check that addresses in the code are given, and where it leads.
    #[test]
    fn addresses_and_calls() {
        let code = assemble(
            "mov eax, [rip + 0x10]\n.byte 0xe8, 0, 1, 0, 0\njmp 1f\n1: .byte 0xe9, 0, 2, 0, 0",
        );
        let to = |pc: u64, behind: u64, target: u64| StaticSite::Leaves {
            pc: START + pc,
            behind: START + behind,
            transfer: Transfer::To(START + target),
            frame: 8,
        };
        let first = StaticSite::Access {
            pc: START,
            fixed_address: Some(START + 0x16),
            writes: false,
            own_frame: false,
            frame: 8,
        };
        assert_eq!(sites(&code), [first, to(6, 11, 0x10b), to(13, 18, 0x212)]);
    }

    proptest! {
        /// Check that no bytes make it panic, and that what it tells lies in the code.
        #[test]
        fn hostile_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for site in sites(&bytes) {
                let (StaticSite::Access { pc, .. } | StaticSite::Leaves { pc, .. }) = site;
                prop_assert!((START..START + bytes.len() as u64).contains(&pc));
            }
        }
    }
}
