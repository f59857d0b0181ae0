//! The access sites of a function: its instructions that may access shared memory, as far as the code
//! alone tells.

use iced_x86::{FlowControl, InstructionInfoFactory, Register};

use super::accesses::decode;
use super::flow::transfer;
use super::lookahead::{candidate, track_frame};
use super::registers::GprSet;
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
    },
    /// A call, or a jump out of the function.
    Leaves {
        /// Run-time address of the instruction.
        pc: u64,
        /// The address behind it.
        behind: u64,
        /// Where it leads.
        transfer: Transfer,
    },
}

/// Decodes a function from its start and tells of its places, in their order.
///
/// Left out are the accesses that [`lookahead`](super::lookahead) leaves out: of the own stack frame,
/// as far as a walk down the code can tell, thread-local data, and what locks itself. Decoding stops
/// at bytes that are no instruction.
pub fn static_sites(code: &[u8], start: u64, tell: &mut dyn FnMut(StaticSite)) {
    let code = code.get(..SITE_CODE).unwrap_or(code);
    let end = start.wrapping_add(code.len() as u64);
    let mut factory = InstructionInfoFactory::new();
    let mut own = GprSet::default();
    own.insert(Register::RSP);
    let mut frame = own;
    let mut offset = 0;
    while let Some(rest) = code.get(offset..).filter(|rest| !rest.is_empty()) {
        let pc = start.wrapping_add(offset as u64);
        let Some(instruction) = decode(rest, pc) else {
            break;
        };
        offset += instruction.len();
        let info = factory.info(&instruction);
        let leaves = transfer(&instruction).filter(|transfer| match transfer {
            Transfer::To(target) => instruction.is_call_near() || !(start..end).contains(target),
            Transfer::Through(_) => true,
        });
        if let Some(transfer) = leaves {
            tell(StaticSite::Leaves {
                pc,
                behind: instruction.next_ip(),
                transfer,
            });
        } else if !instruction.is_privileged()
            && let Some(found) = candidate(&instruction, info, frame, 0)
        {
            tell(StaticSite::Access {
                pc,
                fixed_address: found.fixed_address,
                writes: found.kind != AccessKind::Read,
            });
        }
        track_frame(&instruction, info, &mut frame);
        if frame.contains(Register::RBP) {
            // Set up once, a frame pointer stays one until the end.
            own.insert(Register::RBP);
        }
        if !matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch
        ) {
            // What follows is reached from elsewhere, or after a call.
            frame = own;
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
        };
        let first = StaticSite::Access {
            pc: START,
            fixed_address: Some(START + 0x16),
            writes: false,
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
