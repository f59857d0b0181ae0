//! Which bytes of what an instruction loads can matter: the loaded bytes are followed through
//! the code behind it, whichever way that takes, byte by byte ([`origins`]) and lane by lane
//! ([`lanes`]).
//!
//! It is the opposite of a proof of use ([`super::read_use`]): a byte counts as unused only if the code shows that
//! nothing depends on it. What reaches an instruction that is not understood is unclear, and where the way is too
//! long, all is. Registers that nobody has cleared may be arguments at a call and results at a return.

mod constants;
mod destination;
mod frame;
mod lanes;
mod origins;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use iced_x86::{
    Code, ConditionCode, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};

use super::function::Function;
use super::operands::{Extent, operands};
use super::registers::CALLER_SAVED;
use crate::insn::byte_use::{ByteUse, MOST_BYTES};
use frame::{Frame, Place};
use origins::{Origin, Origins};
use state::State;

pub use constants::ReadOnly;
pub use destination::copied_to;

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

    fn step(&mut self, instruction: &Instruction, state: &mut State) {
        let is_load = instruction.ip() == self.load;
        let info = self.factory.info(instruction).clone();
        match instruction.mnemonic() {
            Mnemonic::Nop | Mnemonic::Endbr64 => return,
            Mnemonic::Vzeroupper => return state.keep_lower_halves(),
            _ => {}
        }
        self.found.used |= state.flags(instruction.rflags_read());
        self.found.used |= address_taint(&info, state);
        if moves_frame(instruction, &info) {
            let left = state.forget_frame();
            if !gives_back_frame(instruction) {
                self.found.used |= left;
            } else if !self.leaves(instruction) {
                self.found.unclear |= left;
            }
        }
        let known =
            |register| constants::in_register(self.function, instruction, register, self.read_only);
        let origins = origins::of(instruction, &known, self.read_only);
        let place = self.frame.place(instruction);
        let holds = |origin: Origin, state: &State| match origin.register {
            Register::None if is_load => 1u64.checked_shl(origin.byte as u32).unwrap_or(0),
            Register::None => held_at(place, state, origin.byte),
            register => state.byte(register, origin.byte),
        };
        let read = read_taint(instruction, &info, state, is_load, place);
        let (result, moved) = match origins {
            Origins::Unknown => {
                self.found.unclear |= read;
                self.overwrite(instruction, &info, state);
                return;
            }
            Origins::Looks(bytes) => {
                for origin in bytes {
                    self.found.used |= holds(origin, state);
                }
                self.overwrite(instruction, &info, state);
                return;
            }
            Origins::Result { bytes, moved } => {
                let result: Vec<u64> = bytes
                    .iter()
                    .map(|byte| {
                        byte.iter()
                            .fold(0, |all, &origin| all | holds(origin, state))
                    })
                    .collect();
                let sources_moved = moved && sources_moved(instruction, state);
                (result, sources_moved)
            }
        };
        let flags = match instruction.mnemonic() {
            // Those of the result alone.
            Mnemonic::And | Mnemonic::Andn | Mnemonic::Or | Mnemonic::Xor => union(&result),
            _ => read,
        };
        state.set_flags(instruction.rflags_modified(), flags);
        match instruction.op0_kind() {
            OpKind::Memory => self.store(instruction, &info, state, &result, moved, place),
            _ => {
                age_read(&info, state);
                let register = written(instruction);
                let vex = !matches!(instruction.encoding(), iced_x86::EncodingKind::Legacy);
                state.write(register, &result, moved, vex);
            }
        }
    }

    fn store(
        &mut self,
        instruction: &Instruction,
        info: &InstructionInfo,
        state: &mut State,
        result: &[u64],
        moved: bool,
        place: Place,
    ) {
        age_read(info, state);
        let all = union(result);
        if let Place::Slot(slot) = place {
            state.put_in_frame(slot, result);
            if !self.frame.is_shared {
                return;
            }
        }
        if info.op0_access() != OpAccess::Write || !(moved && is_in_a_row(result)) {
            self.found.used |= all;
        } else {
            self.found.copied |= all;
            if all != 0 {
                self.copies.insert(instruction.ip());
            }
        }
    }

    /// Whether the code goes straight on to where the function is left, with a frame that was given back.
    fn leaves(&self, instruction: &Instruction) -> bool {
        let mut pc = instruction.next_ip();
        for _ in 0..LONGEST_EPILOGUE {
            let Some(next) = self.function.at(pc) else {
                return false;
            };
            match next.flow_control() {
                FlowControl::Next => pc = next.next_ip(),
                FlowControl::Return => return true,
                FlowControl::UnconditionalBranch => {
                    return !self.function.contains(next.near_branch_target());
                }
                _ => return false,
            }
        }
        false
    }

    /// Forgets what an instruction overwrites whose result does not depend on the value.
    fn overwrite(&self, instruction: &Instruction, info: &InstructionInfo, state: &mut State) {
        age_read(info, state);
        for used in info.used_registers() {
            if matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite) {
                state.clear(used.register());
            }
        }
        state.set_flags(instruction.rflags_modified(), 0);
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

fn union(result: &[u64]) -> u64 {
    result.iter().fold(0, |all, bytes| all | bytes)
}

fn sources_moved(instruction: &Instruction, state: &State) -> bool {
    (0..instruction.op_count())
        .filter(|&i| instruction.op_kind(i) == OpKind::Register)
        .filter(|&i| i > 0 || instruction.op_count() == 1)
        .all(|i| state.is_moved(instruction.op_register(i)))
}

fn age_read(info: &InstructionInfo, state: &mut State) {
    for used in info.used_registers() {
        if used.access() != OpAccess::Write {
            state.age_register(used.register());
        }
    }
}

/// What is in registers that make an address.
fn address_taint(info: &InstructionInfo, state: &State) -> u64 {
    info.used_memory()
        .iter()
        .flat_map(|memory| [memory.base(), memory.index()])
        .fold(0, |all, register| all | state.register(register))
}

/// What is in the operand of a call or jump.
fn operand_taint(instruction: &Instruction, state: &State) -> u64 {
    match instruction.op0_kind() {
        OpKind::Register => state.register(instruction.op0_register()),
        OpKind::Memory => {
            state.register(instruction.memory_base()) | state.register(instruction.memory_index())
        }
        _ => 0,
    }
}

/// All that an instruction reads of the value.
fn read_taint(
    instruction: &Instruction,
    info: &InstructionInfo,
    state: &State,
    is_load: bool,
    place: Place,
) -> u64 {
    let registers = info
        .used_registers()
        .iter()
        .filter(|used| used.access() != OpAccess::Write)
        .fold(0, |all, used| all | state.register(used.register()));
    let size = instruction.memory_size().size();
    let memory = if is_load {
        u64::MAX >> (64 - size.clamp(1, 64))
    } else {
        (0..size).fold(0, |all, byte| all | held_at(place, state, byte))
    };
    registers | memory
}

/// What a byte of an operand in memory depends on.
fn held_at(place: Place, state: &State, byte: usize) -> u64 {
    match place {
        Place::Elsewhere => 0,
        Place::Slot(slot) => state.in_frame(slot, byte),
        Place::SomeSlot => state.in_all_of_frame(),
    }
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
