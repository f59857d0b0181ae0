//! Where a thread can be seen on its way to an access by a probe of the kernel (uprobe): an instruction ahead of it that the kernel emulates, from
//! whose registers the address of the access can be computed.

mod emulated;
mod recipe;
mod values;

use std::collections::HashMap;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic};

use super::function::Function;
pub use emulated::may_be_probed;
pub use recipe::{MOST_DEREFERENCES, Recipe};
use values::Values;

/// How many instructions ahead of an access are looked at on each way to it: what is further away tells less of where the thread will be soon.
const MOST_STEPS: usize = 24;
/// How many points an access has at most: each is a probe of its own.
const MOST_POINTS: usize = 6;

/// A place for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The instruction's address.
    pub pc: u64,
    /// Where the thread is next, if it is on the way to the access. From there on the way is certain.
    pub next: u64,
    /// How many instructions are executed from the point to the access, the point among them.
    pub steps: u32,
    /// The address that will be accessed, from the registers that the thread has before the point's instruction. What is read from memory for it is
    /// as it stands there then: others may change it meanwhile.
    pub recipe: Recipe,
    /// Whoever comes to the point makes the access. Otherwise it is a conditional jump, and he may go the other way.
    pub is_certain: bool,
}

/// The points of an access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Points {
    /// None is on the way from another one.
    pub points: Vec<Point>,
    /// As far as the function's code tells, every way to the access leads by one of them.
    pub are_all: bool,
}

/// A function's code, made ready for the question.
pub struct Approaches<'a> {
    function: Function<'a>,
    instructions: Vec<Instruction>,
    /// By target: the jumps to it, by their places in `instructions`.
    jumps: HashMap<u64, Vec<usize>>,
    /// There are jumps whose targets are not known.
    jumps_anywhere: bool,
}

impl<'a> Approaches<'a> {
    /// `code` are all bytes of the function, which stands at `start`, a run-time address.
    #[must_use]
    pub fn of(start: u64, code: &'a [u8]) -> Self {
        let function = Function { start, code };
        let instructions: Vec<Instruction> = function.instructions().collect();
        let mut jumps: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut jumps_anywhere = false;
        for (place, instruction) in instructions.iter().enumerate() {
            match instruction.flow_control() {
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    let target = instruction.near_branch_target();
                    jumps.entry(target).or_default().push(place);
                }
                FlowControl::IndirectBranch => jumps_anywhere = true,
                _ => {}
            }
        }
        Self {
            function,
            instructions,
            jumps,
            jumps_anywhere,
        }
    }

    /// Where threads can be seen on their way to the access that the instruction at `pc` makes; of none that makes two.
    ///
    /// ```
    /// use gwp_race::insn::x86_64::Approaches;
    ///
    /// // push rbx; mov rbx, rdi; mov eax, [rbx + 8]
    /// let code = [0x53, 0x48, 0x89, 0xfb, 0x8b, 0x43, 0x08];
    /// let found = Approaches::of(0x1000, &code).to(0x1004);
    /// let point = &found.points[0];
    /// assert_eq!((point.pc, point.is_certain, point.recipe.base), (0x1000, true, Some(7)));
    /// assert_eq!(point.recipe.displacements[0], 8);
    /// ```
    #[must_use]
    pub fn to(&self, pc: u64) -> Points {
        let Ok(access) = self.instructions.binary_search_by_key(&pc, Instruction::ip) else {
            return Points::default();
        };
        let mut found = Points {
            points: Vec::new(),
            are_all: !self.jumps_anywhere,
        };
        let mut first = access;
        loop {
            let target = self.instructions[first].ip();
            for &jump in self.jumps.get(&target).into_iter().flatten() {
                found.add(self.point(jump, first, access));
            }
            let Some(before) = first.checked_sub(1) else {
                // Whoever calls the function.
                found.are_all = false;
                return found;
            };
            let instruction = &self.instructions[before];
            match instruction.flow_control() {
                FlowControl::Next if !leaves(instruction) => {
                    if self.is_emulated(before) {
                        found.add(self.point(before, first, access));
                        return found;
                    }
                    if access - before > MOST_STEPS {
                        found.are_all = false;
                        return found;
                    }
                    first = before;
                }
                FlowControl::ConditionalBranch => {
                    found.add(self.point(before, first, access));
                    return found;
                }
                FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Return => return found,
                // Calls, and what enters the kernel or traps.
                _ => {
                    found.are_all = false;
                    return found;
                }
            }
        }
    }

    fn is_emulated(&self, place: usize) -> bool {
        self.instructions.get(place).is_some_and(|instruction| {
            let start = instruction.ip().wrapping_sub(self.function.start);
            let bytes = usize::try_from(start)
                .ok()
                .and_then(|start| self.function.code.get(start..)?.get(..instruction.len()));
            bytes.is_some_and(emulated::is_emulated)
        })
    }

    /// The instruction at `place` as a point of the access, to which all from `first` on lead straight.
    fn point(&self, place: usize, first: usize, access: usize) -> Option<Point> {
        if !self.is_emulated(place) || access - first > MOST_STEPS {
            return None;
        }
        let instruction = self.instructions.get(place)?;
        let mut factory = InstructionInfoFactory::new();
        let mut values = Values::new();
        if instruction.mnemonic() == Mnemonic::Push {
            values.step(instruction, factory.info(instruction));
        }
        for passed in self.instructions.get(first..access)? {
            values.step(passed, factory.info(passed));
        }
        let accessing = self.instructions.get(access)?;
        Some(Point {
            pc: instruction.ip(),
            next: self.instructions.get(first)?.ip(),
            steps: u32::try_from(access - first + 1).ok()?,
            recipe: values.accessed(accessing, factory.info(accessing))?,
            is_certain: instruction.flow_control() != FlowControl::ConditionalBranch,
        })
    }
}

impl Points {
    /// One more way to the access: nothing where it cannot be seen there.
    fn add(&mut self, point: Option<Point>) {
        match point {
            Some(point) if self.points.len() < MOST_POINTS => self.points.push(point),
            _ => self.are_all = false,
        }
    }
}

/// Whether an instruction that goes on with the next one, as a rule, may lead elsewhere, or wait.
fn leaves(instruction: &Instruction) -> bool {
    instruction.is_privileged()
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Syscall
                | Mnemonic::Sysenter
                | Mnemonic::Hlt
                | Mnemonic::Xbegin
                | Mnemonic::Xabort
                | Mnemonic::Umwait
                | Mnemonic::Mwait
                | Mnemonic::Mwaitx
        )
}

#[cfg(test)]
mod tests;
