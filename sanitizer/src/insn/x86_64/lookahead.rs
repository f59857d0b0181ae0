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
mod tests;
