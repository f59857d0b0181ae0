//! A function's own frame: how far it reaches, and its slots whose addresses get out of its hands: what it stores somewhere, or gives to those
//! that it calls. Threads, closures and parallel loops reach the variables of the function that starts them so; all other
//! slots (spilled registers, most local variables) are its thread's own by construction.

use std::collections::HashMap;

use iced_x86::{FlowControl, Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register};

use super::operands::Operand;
use super::registers::{ARGUMENTS, CALLER_SAVED, written};

/// How far behind its address a variable is taken to reach, in bytes: its members and elements are named by distances of their own.
const REACH: i64 = 32;

/// A place in a frame, as instructions name it: so many bytes from the stack pointer or from the frame pointer. Both stand still
/// between a function's prologue and its epilogue, as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    by_frame_pointer: bool,
    distance: i64,
}

impl Slot {
    const fn moved(self, by: i64) -> Self {
        Self {
            distance: self.distance.wrapping_add(by),
            ..self
        }
    }
}

/// A walk down a function's code.
#[derive(Debug)]
pub(super) struct Frame {
    /// From the stack pointer up to behind the return address, in bytes; nothing where that is not known.
    depth: Option<i64>,
    /// The same at what was jumped to, and has not come yet.
    jumped: HashMap<u64, Option<i64>>,
    /// The deepest until now: where code begins that nothing before it leads to, it is that of the body.
    deepest: Option<i64>,
    /// When the frame pointer was set up.
    at_frame_pointer: Option<i64>,
    /// What the general registers point to, by their numbers, beside the stack pointer.
    points: [Option<Slot>; 16],
    /// rbp was set up as a frame pointer, which it stays until the end.
    has_frame_pointer: bool,
    /// Whose addresses got out.
    escaped: Vec<Slot>,
}

impl Frame {
    /// At the function's first instruction, which stands behind its return address.
    pub(super) fn at_entry() -> Self {
        let entry = Some(8);
        Self {
            depth: entry,
            jumped: HashMap::new(),
            deepest: entry,
            at_frame_pointer: None,
            points: [None; 16],
            has_frame_pointer: false,
            escaped: Vec::new(),
        }
    }

    /// So many bytes from the stack pointer up belong to the function, as far as its code tells: up to behind the return address.
    pub(super) fn depth(&self) -> Option<u32> {
        self.depth.and_then(|depth| u32::try_from(depth).ok())
    }

    /// Follows the stack pointer.
    fn follow(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        let target = instruction.near_branch_target();
        let flow = instruction.flow_control();
        if matches!(
            flow,
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        ) && target > instruction.ip()
        {
            self.jumped.entry(target).or_insert(self.depth);
        }
        let moves = written(info).any(|register| register == Register::RSP);
        let is_call = matches!(flow, FlowControl::Call | FlowControl::IndirectCall);
        if moves && !is_call {
            self.depth = self.moved(instruction);
            self.deepest = self.deepest.max(self.depth);
        }
        let goes_on = is_call || matches!(flow, FlowControl::Next | FlowControl::ConditionalBranch);
        if let Some(depth) = self.jumped.remove(&instruction.next_ip()) {
            if !goes_on {
                self.depth = depth;
            }
        } else if !goes_on {
            self.depth = self.deepest;
        }
    }

    /// The depth behind an instruction that moves the stack pointer.
    fn moved(&self, instruction: &Instruction) -> Option<i64> {
        let immediate = || instruction.try_immediate(1).ok().map(u64::cast_signed);
        let depth = match instruction.mnemonic() {
            Mnemonic::Sub => self.depth? + immediate()?,
            Mnemonic::Add => self.depth? - immediate()?,
            // To an alignment: so much deeper at most.
            Mnemonic::And => self.depth? + immediate()?.wrapping_neg().clamp(0, 1 << 20),
            Mnemonic::Lea if instruction.memory_index() == Register::None => {
                let distance = instruction.memory_displacement64().cast_signed();
                match instruction.memory_base() {
                    Register::RSP => self.depth?.checked_sub(distance)?,
                    Register::RBP => self.at_frame_pointer?.checked_sub(distance)?,
                    _ => return None,
                }
            }
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                (instruction.op1_register() == Register::RBP)
                    .then_some(self.at_frame_pointer)
                    .flatten()?
            }
            Mnemonic::Leave => self.at_frame_pointer? - 8,
            _ if instruction.is_stack_instruction() => {
                self.depth? - i64::from(instruction.stack_pointer_increment())
            }
            _ => return None,
        };
        // What is shallower is not of this function.
        (8..1 << 30).contains(&depth).then_some(depth)
    }

    /// What a register points to.
    fn slot(&self, register: Register) -> Option<Slot> {
        let at = |by_frame_pointer| {
            Some(Slot {
                by_frame_pointer,
                distance: 0,
            })
        };
        match register {
            Register::RSP => at(false),
            Register::RBP if self.has_frame_pointer => at(true),
            register if register.is_gpr64() => *self.points.get(register.number())?,
            _ => None,
        }
    }

    /// Where in the frame an operand begins; nothing where it does not lie there, as far as the code tells.
    pub(super) fn slot_of(&self, operand: &Operand) -> Option<Slot> {
        let (base, index, distance) = operand.parts();
        // Which of both is the pointer the assembler decides.
        let slot = self.slot(base).or_else(|| self.slot(index))?;
        Some(slot.moved(distance))
    }

    /// Follows an instruction.
    pub(super) fn step(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        self.follow(instruction, info);
        let flow = instruction.flow_control();
        if matches!(flow, FlowControl::Call | FlowControl::IndirectCall) {
            let given: Vec<Slot> = ARGUMENTS
                .into_iter()
                .filter_map(|it| self.slot(it))
                .collect();
            self.escaped.extend(given);
            for register in CALLER_SAVED {
                self.point(register, None);
            }
            return;
        }
        let result = self.result(instruction);
        if result.is_none() {
            self.give_away(instruction, info);
        }
        for register in written(info) {
            self.point(register, None);
        }
        if let (Some(slot), OpKind::Register) = (result, instruction.op0_kind()) {
            self.point(instruction.op0_register(), Some(slot));
        }
        if !matches!(flow, FlowControl::Next | FlowControl::ConditionalBranch) {
            // What follows is reached from elsewhere.
            self.points = [None; 16];
        }
    }

    /// What the first operand points to behind the instruction, if it computes that from pointers into the frame.
    fn result(&self, instruction: &Instruction) -> Option<Slot> {
        // Of an element it is not known which.
        let constant = || instruction.try_immediate(1).map_or(0, u64::cast_signed);
        let operand = |number| match instruction.op_kind(number) {
            OpKind::Register => self.slot(instruction.op_register(number)),
            _ => None,
        };
        match instruction.mnemonic() {
            Mnemonic::Lea => {
                let base = self.slot(instruction.memory_base());
                let slot = base.or_else(|| self.slot(instruction.memory_index()))?;
                Some(slot.moved(instruction.memory_displacement64().cast_signed()))
            }
            Mnemonic::Mov if instruction.op0_kind() == OpKind::Register => operand(1),
            Mnemonic::Add if instruction.op0_kind() == OpKind::Register => {
                let slot = operand(0).or_else(|| operand(1))?;
                Some(slot.moved(constant()))
            }
            Mnemonic::Sub => Some(operand(0)?.moved(constant().wrapping_neg())),
            _ => None,
        }
    }

    /// Takes note of what is read as a value that points into the frame: stored, or put into a vector register to be.
    fn give_away(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        if matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) {
            return;
        }
        for operand in 0..instruction.op_count() {
            let is_read = !matches!(info.op_access(operand), OpAccess::Write | OpAccess::None);
            if !is_read || instruction.op_kind(operand) != OpKind::Register {
                continue;
            }
            let register = instruction.op_register(operand);
            // A prologue saves the frame pointer, and an epilogue restores it.
            let is_saved = instruction.mnemonic() == Mnemonic::Push && register == Register::RBP;
            if !is_saved && let Some(slot) = self.slot(register) {
                self.escaped.push(slot);
            }
        }
    }

    fn point(&mut self, register: Register, to: Option<Slot>) {
        match register {
            Register::RSP => {}
            // Set up once, it is one until the end.
            Register::RBP if self.has_frame_pointer => {}
            Register::RBP if to.is_some() => {
                self.has_frame_pointer = true;
                let distance = to.map_or(0, |slot| slot.distance);
                self.at_frame_pointer = self.depth.and_then(|depth| depth.checked_sub(distance));
            }
            _ if register.is_gpr64() => {
                if let Some(points) = self.points.get_mut(register.number()) {
                    *points = to;
                }
            }
            _ => {}
        }
    }

    /// Which slots got out, when the walk has come to the end.
    pub(super) fn escaped(mut self) -> Escaped {
        self.escaped.sort_unstable();
        self.escaped.dedup();
        Escaped(self.escaped)
    }
}

/// The slots of a function's frame whose addresses got out.
#[derive(Debug)]
pub(super) struct Escaped(Vec<Slot>);

impl Escaped {
    /// Whether a slot is one of them, or lies close behind one.
    pub(super) fn has(&self, slot: Slot) -> bool {
        let upto = self.0.partition_point(|escaped| *escaped <= slot);
        let nearest = upto.checked_sub(1).and_then(|index| self.0.get(index));
        nearest.is_some_and(|escaped| {
            escaped.by_frame_pointer == slot.by_frame_pointer
                && slot.distance.wrapping_sub(escaped.distance) < REACH
        })
    }
}
