//! Applies one row of call frame information (DWARF 5, 6.4.1) to a set of registers, with
//! the register numbers of the System V ABI for x86-64 (figure 3.36).

use gimli::{
    CfaRule, Encoding, Evaluation, EvaluationResult, Expression, Location, Register, RegisterRule,
    UnwindExpression, UnwindSection, UnwindTableRow, Value, X86_64,
};
use serde::{Deserialize, Serialize};

use super::reader::Reader;
use crate::insn::Regs;

/// How many registers the ABI numbers that unwinding can use: the sixteen general ones and
/// the return address.
const REGISTER_COUNT: usize = 17;

/// A limit for expressions in files that we do not trust.
const MAX_EXPRESSION_STEPS: u32 = 1000;

/// The registers that a call may change (System V ABI for x86-64, figure 3.4).
const CALLER_SAVED: [Register; 9] = [
    X86_64::RAX,
    X86_64::RCX,
    X86_64::RDX,
    X86_64::RSI,
    X86_64::RDI,
    X86_64::R8,
    X86_64::R9,
    X86_64::R10,
    X86_64::R11,
];

/// Memory of the stopped thread, as far as it was copied.
pub(super) trait Memory {
    /// `size` (at most 8) bytes at a run-time address as a little-endian number.
    fn read(&self, addr: u64, size: u8) -> Option<u64>;
}

/// The registers of one frame, indexed by DWARF number; unknown ones are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registers([Option<u64>; REGISTER_COUNT]);

impl Registers {
    /// Those of a thread.
    #[must_use]
    pub fn new(regs: &Regs) -> Self {
        let mut registers = [Some(regs.rip); REGISTER_COUNT];
        for (register, value) in registers.iter_mut().zip(regs.in_dwarf_order()) {
            *register = Some(value);
        }
        Self(registers)
    }

    /// As the registers of a thread; those that are not known are 0.
    pub(super) fn known(&self) -> Regs {
        let [
            rax,
            rdx,
            rcx,
            rbx,
            rsi,
            rdi,
            rbp,
            rsp,
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            rip,
        ] = self.0.map(Option::unwrap_or_default);
        Regs {
            rax,
            rdx,
            rcx,
            rbx,
            rsi,
            rdi,
            rbp,
            rsp,
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            rip,
            ..Regs::default()
        }
    }

    pub(super) fn get(&self, register: Register) -> Option<u64> {
        self.0.get(usize::from(register.0)).copied().flatten()
    }

    pub(super) fn set(&mut self, register: Register, value: Option<u64>) {
        if let Some(slot) = self.0.get_mut(usize::from(register.0)) {
            *slot = value;
        }
    }

    pub(super) fn pc(&self) -> Option<u64> {
        self.get(X86_64::RA)
    }

    pub(super) fn sp(&self) -> Option<u64> {
        self.get(X86_64::RSP)
    }

    /// Forgets what a callee need not have preserved.
    pub(super) fn forget_caller_saved(&mut self) {
        for register in CALLER_SAVED {
            self.set(register, None);
        }
    }
}

/// What unwinding one frame came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Step {
    /// The caller's registers. `interrupted`: the frame left was a signal trampoline, so the
    /// caller stands before an instruction that it has not executed, not after a call.
    Caller {
        registers: Box<Registers>,
        interrupted: bool,
    },
    /// The frame has no caller: the outermost one of the thread.
    Outermost,
    /// The rules need memory or registers that are not known.
    Unreadable,
}

/// Computes the caller's registers by `row`. Nothing where the row makes no sense.
pub(super) fn apply<S: UnwindSection<Reader>>(
    section: &S,
    row: &UnwindTableRow<usize>,
    encoding: Encoding,
    return_address: Register,
    signal_trampoline: bool,
    registers: &Registers,
    memory: &dyn Memory,
) -> Option<Step> {
    let evaluator = Evaluator {
        section,
        encoding,
        registers,
        memory,
    };
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => registers
            .get(*register)
            .map(|base| base.wrapping_add_signed(*offset)),
        CfaRule::Expression(expression) => evaluator.evaluate(expression, None),
    };
    let Some(cfa) = cfa else {
        return Some(Step::Unreadable);
    };
    // The System V ABI: unwinding ends at a frame whose return address is undefined.
    if let None | Some(RegisterRule::Undefined) = row.register(return_address) {
        return Some(Step::Outermost);
    }
    let mut caller = registers.clone();
    if !signal_trampoline {
        caller.forget_caller_saved();
    }
    // The CFA is the stack pointer before the call; rules for rsp itself override that.
    caller.set(X86_64::RSP, Some(cfa));
    for (register, rule) in row.registers() {
        let value = match rule {
            RegisterRule::Undefined => None,
            RegisterRule::SameValue => registers.get(*register),
            RegisterRule::Offset(offset) => memory.read(cfa.wrapping_add_signed(*offset), 8),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => registers.get(*other),
            RegisterRule::Expression(expression) => evaluator
                .evaluate(expression, Some(cfa))
                .and_then(|at| memory.read(at, 8)),
            RegisterRule::ValExpression(expression) => evaluator.evaluate(expression, Some(cfa)),
            RegisterRule::Constant(value) => Some(*value),
            _ => return None,
        };
        caller.set(*register, value);
        if *register == return_address {
            caller.set(X86_64::RA, value);
        }
    }
    if caller.pc().is_none() || caller.sp().is_none() {
        return Some(Step::Unreadable);
    }
    Some(Step::Caller {
        registers: Box::new(caller),
        interrupted: signal_trampoline,
    })
}

struct Evaluator<'a, S> {
    section: &'a S,
    encoding: Encoding,
    registers: &'a Registers,
    memory: &'a dyn Memory,
}

impl<S: UnwindSection<Reader>> Evaluator<'_, S> {
    fn evaluate(&self, expression: &UnwindExpression<usize>, initial: Option<u64>) -> Option<u64> {
        let Expression(bytes) = expression.get(self.section).ok()?;
        let mut evaluation = Evaluation::new(bytes, self.encoding);
        evaluation.set_max_iterations(MAX_EXPRESSION_STEPS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut state = evaluation.evaluate().ok()?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.registers.get(register)?;
                    evaluation
                        .resume_with_register(Value::Generic(value))
                        .ok()?
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let value = self.memory.read(address, size)?;
                    evaluation.resume_with_memory(Value::Generic(value)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                Location::Address { address } => Some(address),
                _ => None,
            },
            _ => None,
        }
    }
}
