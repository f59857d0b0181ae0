//! Whether a branch is the source's own. Optimizers make branches on values that the source
//! does not look at in this place:
//!
//! - a selection becomes a branch around a few instructions, whose result another selection
//!   then drops: the sides join without an effect;
//! - of `a && b`, both loaded first, `b` is tested before `a`: the effect comes only after another
//!   test, which is of registers alone;
//! - a test that a loop repeats is taken out of it: a loop follows.
//!
//! A branch is the source's where none of this can be: one side stores, calls or jumps to other
//! code where the other side does not.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpKind, Register};

use super::super::function::Function;
use super::super::operands::operands;

/// How many instructions of one side are looked at.
const HORIZON: usize = 64;

/// An effect that the source must have asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    /// A store, by its operand: base, index and displacement. (The value may be selected.)
    Store(Register, Register, u64),
    /// A call or jump to a known place.
    Call(u64),
    /// A call or jump to a computed place.
    Computed(u64),
}

/// Whether no optimization can have made the branch.
pub(super) fn is_the_source_s(
    function: Function<'_>,
    branch: &Instruction,
    factory: &mut InstructionInfoFactory,
) -> bool {
    if loop_follows(function, branch.ip()) {
        return false;
    }
    let not_taken = deeds(function, branch.next_ip(), factory);
    let taken = deeds(function, branch.near_branch_target(), factory);
    not_taken.does_what_lacks_in(&taken) || taken.does_what_lacks_in(&not_taken)
}

/// What one side of a branch does first.
struct Side {
    deeds: BTreeSet<Deed>,
    /// All ways were followed to a deed or to the function's end.
    complete: bool,
}

impl Side {
    fn does_what_lacks_in(&self, other: &Self) -> bool {
        other.complete && !self.deeds.is_subset(&other.deeds)
    }
}

/// Whether a loop begins after an address.
fn loop_follows(function: Function<'_>, after: u64) -> bool {
    function.instructions().any(|instruction| {
        let direct = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        let target = instruction.near_branch_target();
        direct && target > after && target <= instruction.ip()
    })
}

/// The first deeds on the ways from `pc` on. Ways through a test of registers alone are not
/// followed: what lies behind it may have been guarded by it before.
fn deeds(function: Function<'_>, pc: u64, factory: &mut InstructionInfoFactory) -> Side {
    let mut side = Side {
        deeds: BTreeSet::new(),
        complete: true,
    };
    let mut ways = vec![pc];
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let mut looked_at = 0;
    while let Some(mut pc) = ways.pop() {
        let mut tests_memory = false;
        loop {
            if !function.contains(pc) {
                side.deeds.insert(Deed::Call(pc));
                break;
            }
            if !seen.insert(pc) {
                break;
            }
            looked_at += 1;
            let Some(instruction) = function.at(pc).filter(|_| looked_at <= HORIZON) else {
                side.complete = false;
                return side;
            };
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::UnconditionalBranch => {
                    pc = instruction.near_branch_target();
                    continue;
                }
                FlowControl::ConditionalBranch => {
                    if tests_memory {
                        ways.push(instruction.near_branch_target());
                        ways.push(instruction.next_ip());
                    } else {
                        side.complete = false;
                    }
                    break;
                }
                FlowControl::Call if instruction.is_call_near() => {
                    side.deeds
                        .insert(Deed::Call(instruction.near_branch_target()));
                    break;
                }
                FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                    side.deeds.insert(Deed::Computed(pc));
                    break;
                }
                _ => break,
            }
            let in_frame = matches!(instruction.memory_base(), Register::RSP | Register::RBP);
            let mut accesses = operands(&instruction, factory.info(&instruction)).into_iter();
            let explicit =
                (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
            if accesses.any(|access| !access.stack_implicit && access.kind.writes()) && !in_frame {
                side.deeds.insert(Deed::Store(
                    instruction.memory_base(),
                    instruction.memory_index(),
                    instruction.memory_displacement64(),
                ));
                break;
            }
            // What was spilled counts as a register.
            tests_memory |= explicit && !in_frame;
            pc = instruction.next_ip();
        }
    }
    side
}
