//! Which bytes of what an instruction loads can matter: the loaded bytes are followed through
//! the code behind it, whichever way that takes, byte by byte ([`origins`]) and lane by lane
//! ([`lanes`]).
//!
//! It is the opposite of a proof of use ([`super::read_use`]): a byte counts as unused only if the code shows that
//! nothing depends on it. What reaches an instruction that is not understood is unclear, and where the way is too
//! long, all is. Registers that nobody has cleared may be arguments at a call and results at a return.

mod broadcast;
mod constants;
mod destination;
mod frame;
mod general;
mod lanes;
mod origins;
mod state;
mod step;
mod taint;

use std::collections::{BTreeSet, HashMap};

use iced_x86::{
    Code, ConditionCode, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory,
    Mnemonic, OpAccess, Register,
};

use super::function::Function;
use super::operands::{Extent, operands};
use super::registers::CALLER_SAVED;
use crate::insn::byte_use::{ByteUse, MOST_BYTES};

use frame::Frame;
use state::State;

pub use constants::ReadOnly;
pub use destination::copied_to;

use taint::operand_taint;

/// How many instructions are looked at, those of loops each time that they bring something new.
const HORIZON: usize = 20_000;

/// How many instructions from where the frame is given back to the return are looked at.
const LONGEST_EPILOGUE: usize = 32;

const ARGUMENTS: [Register; 14] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
    Register::XMM0,
    Register::XMM1,
    Register::XMM2,
    Register::XMM3,
    Register::XMM4,
    Register::XMM5,
    Register::XMM6,
    Register::XMM7,
];

/// What becomes of the bytes that the instruction at `pc` loads. `code` are the bytes of the
/// function that it is in, from `function_start` to its end; `read_only` are the program's constants,
/// among which shuffles have their patterns. With `may_land`, exceptions may lead from calls to other places of the
/// function.
///
/// An instruction that does not just load is [`ByteUse::UNKNOWN`].
#[must_use]
pub fn byte_use(
    function_start: u64,
    code: &[u8],
    pc: u64,
    read_only: &ReadOnly<'_>,
    may_land: bool,
) -> ByteUse {
    let function = Function {
        start: function_start,
        code,
    };
    let mut factory = InstructionInfoFactory::new();
    let Some(load) = function.at(pc) else {
        return ByteUse::UNKNOWN;
    };
    let operands = operands(&load, factory.info(&load));
    let [operand] = operands.as_slice() else {
        return ByteUse::UNKNOWN;
    };
    let whole = match operand.extent {
        Extent::Bytes(size) if size <= MOST_BYTES => u64::MAX >> (64 - size.max(1)),
        // Which lanes are loaded depends on a mask; what of them is used is not followed.
        Extent::Masked(_) => return UNCLEAR,
        _ => return ByteUse::UNKNOWN,
    };
    if operand.kind.writes() || operand.stack_implicit || load.flow_control() != FlowControl::Next {
        return ByteUse::UNKNOWN;
    }
    let mut follow = Follow {
        function,
        read_only,
        factory,
        load: pc,
        may_land,
        frame: Frame::of(function),
        found: ByteUse::default(),
        copies: BTreeSet::new(),
        known: HashMap::new(),
        ways: vec![(pc, State::default())],
        budget: HORIZON,
    };
    follow.all();
    let mut found = follow.found.of(whole);
    if found.touched() == 0 {
        // Compilers leave no load without a use: what uses it does not show, as a volatile access or empty assembly.
        return UNCLEAR.of(whole);
    }
    found.only_returned =
        found.used | found.copied | found.passed | found.unclear | found.returned_in_vectors == 0;
    if let (Some(&store), 1) = (follow.copies.first(), follow.copies.len()) {
        found.copied_by = store
            .checked_sub(pc)
            .and_then(|behind| u32::try_from(behind).ok());
    }
    let mut told = found.used;
    for bytes in [&mut found.copied, &mut found.unclear, &mut found.passed] {
        *bytes &= !told;
        told |= *bytes;
    }
    for bytes in &mut found.returned {
        *bytes &= !told;
    }
    found.returned_in_vectors &= !told;
    found
}

/// Nothing is known of what becomes of it.
const UNCLEAR: ByteUse = ByteUse {
    used: 0,
    unclear: u64::MAX,
    ..ByteUse::UNKNOWN
};

struct Follow<'a> {
    function: Function<'a>,
    read_only: &'a ReadOnly<'a>,
    factory: InstructionInfoFactory,
    load: u64,
    may_land: bool,
    frame: Frame,
    found: ByteUse,
    /// The instructions that store what is copied.
    copies: BTreeSet<u64>,
    /// What is known to arrive at each place where ways meet.
    known: HashMap<u64, State>,
    ways: Vec<(u64, State)>,
    budget: usize,
}

impl Follow<'_> {
    fn all(&mut self) {
        while let Some((pc, state)) = self.ways.pop() {
            self.way(pc, state);
        }
    }

    /// Notes that a way leads to `pc`; it is followed if it brings something new there.
    fn lead(&mut self, pc: u64, state: &State) {
        if !self.function.contains(pc) {
            // The other part of a split function, or a call in place of a return.
            self.pass_on(state);
            return;
        }
        if state.is_empty() {
            return;
        }
        let known = self.known.entry(pc).or_default();
        if known.join(state) {
            let known = known.clone();
            self.ways.push((pc, known));
        }
    }

    fn way(&mut self, mut pc: u64, mut state: State) {
        loop {
            let Some(budget) = self.budget.checked_sub(1) else {
                self.found.unclear = u64::MAX;
                self.ways.clear();
                return;
            };
            self.budget = budget;
            let Some(instruction) = self.function.at(pc) else {
                self.pass_on(&state);
                return;
            };
            if pc != self.load && state.is_empty() {
                return;
            }
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::UnconditionalBranch => {
                    self.lead(instruction.near_branch_target(), &state);
                    return;
                }
                FlowControl::ConditionalBranch => {
                    self.found.used |= state.flags(instruction.rflags_read());
                    if instruction.condition_code() == ConditionCode::None {
                        // It looks at a register.
                        self.found.used |= state.register(Register::RCX);
                    }
                    state.age();
                    self.lead(instruction.near_branch_target(), &state);
                    self.lead(instruction.next_ip(), &state);
                    return;
                }
                FlowControl::Call | FlowControl::IndirectCall
                    if instruction.mnemonic() == Mnemonic::Call =>
                {
                    self.found.used |= operand_taint(&instruction, &state);
                    self.pass(&state);
                    state.clobber(&CALLER_SAVED);
                    if self.may_land {
                        // Where exceptions lead is not followed.
                        self.found.unclear |= state.all();
                    }
                    pc = instruction.next_ip();
                    continue;
                }
                FlowControl::Return => {
                    self.hand_back(&state);
                    return;
                }
                FlowControl::IndirectBranch => {
                    self.found.used |= operand_taint(&instruction, &state);
                    // Perhaps out of the function.
                    self.pass_on(&state);
                    for target in self.leaders() {
                        self.lead(target, &state);
                    }
                    return;
                }
                FlowControl::Interrupt if instruction.code() == Code::Int3 => {
                    pc = instruction.next_ip();
                    continue;
                }
                FlowControl::Exception => return,
                _ => {
                    self.pass_on(&state);
                    return;
                }
            }
            if instruction.mnemonic() == Mnemonic::Hlt {
                return;
            }
            self.step(&instruction, &mut state);
            let was_load = pc == self.load;
            pc = instruction.next_ip();
            // Behind the load ways meet in every loop.
            if was_load || self.is_target(pc) {
                self.lead(pc, &state);
                return;
            }
        }
    }

    /// Whether a branch of the function leads there.
    fn is_target(&self, pc: u64) -> bool {
        self.known.contains_key(&pc) || pc == self.load
    }

    /// Where a table of jumps may lead: behind whatever does not go on, as a call may not.
    fn leaders(&self) -> Vec<u64> {
        let mut leaders = Vec::new();
        for instruction in self.function.instructions() {
            match instruction.flow_control() {
                FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Return
                | FlowControl::Call
                | FlowControl::IndirectCall
                | FlowControl::Interrupt
                | FlowControl::Exception => leaders.push(instruction.next_ip()),
                FlowControl::ConditionalBranch => {
                    leaders.extend([instruction.near_branch_target(), instruction.next_ip()]);
                }
                _ => {}
            }
        }
        leaders.retain(|&pc| self.function.contains(pc));
        leaders
    }

    /// A call takes what is in argument registers: some of each for certain that was just written, while others may
    /// be dead. Further arguments are on the stack.
    fn pass(&mut self, state: &State) {
        for register in ARGUMENTS {
            self.found.used |= state.fresh_byte(register, 0);
            self.found.passed |= state.register(register.full_register());
        }
        self.found.passed |= state.above_stack_pointer();
    }

    /// The code goes on elsewhere with all that is in registers.
    fn pass_on(&mut self, state: &State) {
        self.found.passed |= state.all();
    }

    fn hand_back(&mut self, state: &State) {
        for (first, register) in [(0, Register::RAX), (8, Register::RDX)] {
            for byte in 0..8 {
                if let Some(bytes) = self.found.returned.get_mut(first + byte) {
                    *bytes |= state.byte(register, byte);
                }
            }
        }
        for register in [Register::XMM0, Register::XMM1] {
            self.found.used |= state.fresh_byte(register, 0);
            self.found.returned_in_vectors |= state.register(register.full_register());
        }
    }
}

/// The register that has the result.
fn written(instruction: &Instruction) -> Register {
    match instruction.mnemonic() {
        Mnemonic::Cbw => Register::AX,
        Mnemonic::Cwde => Register::EAX,
        Mnemonic::Cdqe => Register::RAX,
        _ => instruction.op0_register(),
    }
}

/// Whether bytes are consecutive ones of what was loaded, but for those that do not depend on it.
fn is_in_a_row(result: &[u64]) -> bool {
    let loaded: Vec<u64> = result.iter().copied().filter(|&bytes| bytes != 0).collect();
    loaded.iter().all(|bytes| bytes.count_ones() == 1)
        && loaded
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a.checked_shl(1) == Some(*b)))
}

/// Whether what was in the frame is dead from here on.
fn gives_back_frame(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Add | M::Pop | M::Leave | M::Lea | M::Mov
    )
}

/// Whether places in the frame have other names from here on.
fn moves_frame(instruction: &Instruction, info: &InstructionInfo) -> bool {
    instruction.is_stack_instruction()
        || info.used_registers().iter().any(|used| {
            used.register().full_register() == Register::RSP
                && matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite)
        })
}

#[cfg(test)]
mod tests;
