//! Whether a branch is the source's own. Optimizers make branches on values that the source
//! does not look at in this place:
//!
//! - a selection becomes a branch around a few instructions, whose result another selection
//!   then drops: the sides join without an effect;
//! - of `a && b`, both loaded first, `b` is tested before `a`: the effect comes only after another
//!   test, which is of registers alone;
//! - a test that a loop repeats is taken out of it, or one is made of what the loop uses (whether its arrays overlap): a loop follows.
//!
//! A branch is the source's where none of this can be: one side stores, calls or jumps to other
//! code where the other side does not. Where a loop follows, it must do so at once and before any such loop.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

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

impl Deed {
    /// Whether two may be one of the source.
    fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Call(callee), Self::Call(of_other)) => callee == of_other,
            (Self::Store(..), Self::Store(..)) | (Self::Computed(_), Self::Computed(_)) => true,
            _ => false,
        }
    }
}

/// Whether no optimization can have made the branch.
pub(super) fn is_the_source_s(
    function: Function<'_>,
    branch: &Instruction,
    factory: &mut InstructionInfoFactory,
) -> bool {
    let not_taken = deeds(function, branch.next_ip(), factory);
    let taken = deeds(function, branch.near_branch_target(), factory);
    let loops = loops_after(function, branch.ip());
    if loops.is_empty() {
        return not_taken.does_what_lacks_in(&taken) || taken.does_what_lacks_in(&not_taken);
    }
    // What is laid out before the branch may be such a loop as well.
    let is_apart =
        |pc: u64| pc > branch.ip() && !loops.iter().any(|repeated| repeated.contains(&pc));
    not_taken.does_at_once_what_lacks_in(&taken, is_apart)
        || taken.does_at_once_what_lacks_in(&not_taken, is_apart)
}

/// What one side of a branch does first.
struct Side {
    deeds: BTreeSet<Deed>,
    /// All ways were followed to a deed or to the function's end.
    complete: bool,
    /// What is done before any other branch, and where.
    at_once: Option<(u64, Deed)>,
}

impl Side {
    fn does(&mut self, pc: u64, deed: Deed, has_branched: bool) {
        self.deeds.insert(deed);
        if !has_branched {
            self.at_once = Some((pc, deed));
        }
    }

    fn does_what_lacks_in(&self, other: &Self) -> bool {
        other.complete && !self.deeds.is_subset(&other.deeds)
    }

    fn does_at_once_what_lacks_in(&self, other: &Self, is_apart: impl Fn(u64) -> bool) -> bool {
        self.at_once.is_some_and(|(pc, deed)| {
            // What follows both sides may be laid out twice, by other registers.
            let is_like = |of_other: &Deed| of_other.is_like(deed);
            other.complete && is_apart(pc) && !other.deeds.iter().any(is_like)
        })
    }
}

/// The loops that begin after an address: from their first instruction to the last that jumps back to it.
fn loops_after(function: Function<'_>, after: u64) -> Vec<RangeInclusive<u64>> {
    let back = |instruction: Instruction| {
        let direct = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        let target = instruction.near_branch_target();
        (direct && target > after && target <= instruction.ip()).then(|| target..=instruction.ip())
    };
    function.instructions().filter_map(back).collect()
}

/// The first deeds on the ways from `pc` on. Ways through a test of registers alone are not
/// followed: what lies behind it may have been guarded by it before.
fn deeds(function: Function<'_>, pc: u64, factory: &mut InstructionInfoFactory) -> Side {
    let mut side = Side {
        deeds: BTreeSet::new(),
        complete: true,
        at_once: None,
    };
    let mut has_branched = false;
    let mut ways = vec![pc];
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let mut looked_at = 0;
    while let Some(mut pc) = ways.pop() {
        let mut tests_memory = false;
        loop {
            if !function.contains(pc) {
                side.does(pc, Deed::Call(pc), has_branched);
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
                    has_branched = true;
                    if tests_memory {
                        ways.push(instruction.near_branch_target());
                        ways.push(instruction.next_ip());
                    } else {
                        side.complete = false;
                    }
                    break;
                }
                FlowControl::Call if instruction.is_call_near() => {
                    let callee = Deed::Call(instruction.near_branch_target());
                    side.does(pc, callee, has_branched);
                    break;
                }
                FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                    side.does(pc, Deed::Computed(pc), has_branched);
                    break;
                }
                _ => break,
            }
            let in_frame = matches!(instruction.memory_base(), Register::RSP | Register::RBP);
            let mut accesses = operands(&instruction, factory.info(&instruction)).into_iter();
            let explicit =
                (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
            if accesses.any(|access| !access.stack_implicit && access.kind.writes()) && !in_frame {
                let store = Deed::Store(
                    instruction.memory_base(),
                    instruction.memory_index(),
                    instruction.memory_displacement64(),
                );
                side.does(pc, store, has_branched);
                break;
            }
            // What was spilled counts as a register.
            tests_memory |= explicit && !in_frame;
            pc = instruction.next_ip();
        }
    }
    side
}
