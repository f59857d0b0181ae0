//! Whether the code after a load proves that the source asks for it. Optimizers execute loads
//! that the source guards (if-conversion, hoisting, merging of neighbours); what they must not do
//! is to store, call or return a value where the source does not, or to do one of these only
//! because of a value that the source did not look at.
//!
//! So the value is followed through straight-line code. It may be copied and go through
//! arithmetic that keeps it in play whatever the other operand is. The proof is the first of:
//!
//! - stored (not to the own frame, where it may be a register spilled), or added to memory;
//! - the address of a store, or of a load whose own value is then proven to be used;
//! - in an argument register at a call, or in the result register at a return;
//! - the target of a call or jump;
//! - compared for a branch of which one side has an effect that the other has not ([`branch`]).
//!
//! Whatever can make the value irrelevant (conditional moves, masks, and/or with a register,
//! blends, min and max) ends the search, and so does the end of the straight line. In code that
//! was plainly not optimized ([`unoptimized`]) every load is the source's.

mod branch;
mod effect;
#[cfg(test)]
mod rules;
mod step;
#[cfg(test)]
mod truth;
mod unoptimized;

use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, OpAccess, Register,
};

use super::function::Function;
use super::operands::{Extent, operands};
use crate::insn::{AccessKind, ReadUse};

pub(super) use effect::is_set_on_condition;

use effect::Effect;
use effect::effect;

/// How many instructions after the load are looked at.
const HORIZON: usize = 200;

/// Whether the source is proven to read what the instruction at `pc` loads. `code` are the bytes
/// of the function that it is in, from `function_start` to its end; `is_entry` tells of a run-time address outside
/// of it whether another function begins there, and not a part of this one.
///
/// Instructions that store too (`add [m], r`) and string moves are the source's own. An
/// instruction that loads nothing is `Proven`, since there is nothing to doubt.
#[must_use]
pub fn read_use(
    function_start: u64,
    code: &[u8],
    pc: u64,
    is_entry: &dyn Fn(u64) -> bool,
) -> ReadUse {
    let function = Function {
        start: function_start,
        code,
    };
    let Some(load) = function.at(pc) else {
        return ReadUse::Unproven;
    };
    let mut factory = InstructionInfoFactory::new();
    let operands = operands(&load, factory.info(&load));
    let mut explicit = operands.iter().filter(|operand| !operand.stack_implicit);
    let Some(operand) = explicit.next() else {
        return ReadUse::Proven;
    };
    if explicit.next().is_some() {
        // String moves copy for the source; string comparisons may look at more than it does.
        return if operands.iter().any(|operand| operand.kind.writes()) {
            ReadUse::Proven
        } else {
            ReadUse::Unproven
        };
    }
    if operand.kind != AccessKind::Read {
        return ReadUse::Proven;
    }
    let Extent::Bytes(size) = operand.extent else {
        return ReadUse::Unproven;
    };
    if matches!(
        load.flow_control(),
        FlowControl::IndirectCall | FlowControl::IndirectBranch
    ) {
        return ReadUse::Proven;
    }
    if unoptimized::is_unoptimized(function, &mut factory) {
        return ReadUse::Proven;
    }
    let mut follow = Follow {
        function,
        gprs: [None; 16],
        vectors: [None; 32],
        flags: None,
    };
    if follow.load(&load, factory.info(&load), size).is_none() {
        return ReadUse::Unproven;
    }
    let mut trail = Trail {
        seen: Vec::new(),
        budget: HORIZON,
        is_entry,
    };
    match follow.walk(load.next_ip(), &mut factory, &mut trail) {
        Outcome::Used(found) => found,
        Outcome::Again | Outcome::Nothing => ReadUse::Unproven,
    }
}

/// How much of the loaded value something depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Share {
    /// Some of it.
    Part,
    /// All of it, for whoever looks at so many bytes.
    Whole(u32),
}

impl Share {
    const fn proof(self) -> ReadUse {
        match self {
            Self::Whole(_) => ReadUse::Proven,
            Self::Part => ReadUse::ProvenInPart,
        }
    }

    /// What is left for one who looks at `bytes` bytes.
    fn seen_through(self, bytes: usize) -> Self {
        match self {
            Self::Whole(needed) if bytes >= needed as usize => self,
            _ => Self::Part,
        }
    }
}

/// A register with the value, or with one that depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    share: Share,
    /// Neither read nor carried past a branch since it was written: the register is there to be
    /// used yet. Another may be dead, and then means nothing at a call or return.
    fresh: bool,
}

/// Where the loaded value is while the code is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Follow<'a> {
    function: Function<'a>,
    gprs: [Option<Held>; 16],
    vectors: [Option<Held>; 32],
    flags: Option<Share>,
}

impl<'a> Follow<'a> {
    fn holder(&mut self, register: Register) -> Option<&mut Option<Held>> {
        let full = register.full_register();
        if full.is_gpr64() {
            self.gprs.get_mut(full.number())
        } else if full.is_vector_register() {
            self.vectors.get_mut(full.number())
        } else {
            None
        }
    }

    fn slot(&self, register: Register) -> Option<Held> {
        let full = register.full_register();
        if full.is_gpr64() {
            *self.gprs.get(full.number())?
        } else if full.is_vector_register() {
            *self.vectors.get(full.number())?
        } else {
            None
        }
    }

    /// What a register, or the part of it that is named, holds.
    fn held(&self, register: Register) -> Option<Share> {
        let held = self.slot(register)?;
        Some(held.share.seen_through(register.size()))
    }

    /// What the caller or callee finds in a register.
    fn handed_over(&self, register: Register) -> Option<Share> {
        self.slot(register)
            .filter(|held| held.fresh)
            .map(|held| held.share)
    }

    /// The load itself: what it leaves where.
    fn load(&mut self, load: &Instruction, info: &InstructionInfo, size: u32) -> Option<()> {
        let share = match effect(load) {
            Effect::Move | Effect::Keep => Share::Whole(size),
            Effect::Narrow | Effect::Compare => Share::Part,
            Effect::Mask => return None,
        };
        self.leave(load, info, Some(share));
        Some(())
    }

    /// After an instruction: forgets what it overwrites, notes where its result is.
    fn leave(&mut self, instruction: &Instruction, info: &InstructionInfo, result: Option<Share>) {
        for used in info.used_registers() {
            let Some(holder) = self.holder(used.register()) else {
                continue;
            };
            match used.access() {
                OpAccess::Write | OpAccess::ReadWrite => *holder = None,
                _ => {
                    if let Some(held) = holder {
                        held.fresh = false;
                    }
                }
            }
        }
        let sets_flags = instruction.rflags_modified() != 0;
        if sets_flags {
            self.flags = None;
        }
        let Some(share) = result else { return };
        if sets_flags {
            self.flags = Some(Share::Part);
        }
        if effect(instruction) != Effect::Compare {
            for used in info.used_registers() {
                if matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite)
                    && used.register() != Register::RSP
                    && let Some(holder) = self.holder(used.register())
                {
                    *holder = Some(Held { share, fresh: true });
                }
            }
        }
    }

    /// Follows the code from `pc` on. At branches that say nothing about the value both sides
    /// must prove it: then it is used whichever way the program takes.
    fn walk(
        mut self,
        mut pc: u64,
        factory: &mut InstructionInfoFactory,
        trail: &mut Trail<'a>,
    ) -> Outcome {
        loop {
            trail.budget = match trail.budget.checked_sub(1) {
                Some(budget) => budget,
                None => return Outcome::Nothing,
            };
            let Some(instruction) = self.function.at(pc) else {
                return Outcome::Nothing;
            };
            match self.step(&instruction, factory.info(&instruction), trail.is_entry) {
                Step::Next(next) => pc = next,
                Step::Proof(share) => return Outcome::Used(share.proof()),
                Step::End => return Outcome::Nothing,
                Step::Branch { on_value } => {
                    if on_value && branch::is_the_source_s(self.function, &instruction, factory) {
                        return Outcome::Used(ReadUse::ProvenInPart);
                    }
                    if self.holds_nothing() {
                        return Outcome::Nothing;
                    }
                    if trail.seen.contains(&(pc, self)) {
                        return Outcome::Again;
                    }
                    trail.seen.push((pc, self));
                    for held in self.gprs.iter_mut().chain(&mut self.vectors).flatten() {
                        held.fresh = false;
                    }
                    let taken = self.walk(instruction.near_branch_target(), factory, trail);
                    if matches!(taken, Outcome::Nothing) {
                        return taken;
                    }
                    return taken.and(self.walk(instruction.next_ip(), factory, trail));
                }
            }
        }
    }

    /// Whether the value is in no register any more.
    fn holds_nothing(&self) -> bool {
        self.gprs.iter().chain(&self.vectors).all(Option::is_none)
    }
}

/// What comes after an instruction.
enum Step {
    Next(u64),
    Proof(Share),
    Branch { on_value: bool },
    End,
}

/// What following the code came to.
#[derive(Clone, Copy)]
enum Outcome {
    /// The value is used.
    Used(ReadUse),
    /// A loop brought back what was seen before: what lies behind the loop decides.
    Again,
    /// No proof.
    Nothing,
}

impl Outcome {
    /// Both sides of a branch together.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::Again, other) => other,
            (this, Self::Again) => this,
            // `Proven` comes first.
            (Self::Used(a), Self::Used(b)) => Self::Used(a.max(b)),
        }
    }
}

/// Branches passed, and how many more instructions will be looked at.
struct Trail<'a> {
    seen: Vec<(u64, Follow<'a>)>,
    budget: usize,
    is_entry: &'a dyn Fn(u64) -> bool,
}
