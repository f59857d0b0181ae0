//! Walks a stack snapshot from callee to caller: by call frame information, through signal
//! frames, and by frame pointers where code has no tables.

use gimli::X86_64;

use super::module::StackSnapshot;
use super::stack_end;
use super::unwind_rules::{Memory, Registers, Step};
use super::walked_code::Code;
use crate::insn::Regs;

/// Deeper stacks are cut, and said to be.
const MAX_FRAMES: usize = 256;

/// The `rt_sigreturn` trampolines of C libraries: `mov $15, %rax` (or `%eax`), `syscall`.
/// Recognised by their bytes as GDB does, since not every C library describes its own.
const SIGNAL_TRAMPOLINES: [&[u8]; 2] = [
    &[0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05],
    &[0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05],
];
/// The longest of them.
pub(super) const TRAMPOLINE_SIZE: u64 = 9;

/// Offset of `uc_mcontext.gregs` in the `ucontext_t` that the kernel puts on the stack
/// (arch/x86/include/uapi/asm/ucontext.h, sigcontext.h).
const UCONTEXT_GREGS: u64 = 40;
/// The order of the registers there.
const UCONTEXT_REGISTERS: [gimli::Register; 17] = [
    X86_64::R8,
    X86_64::R9,
    X86_64::R10,
    X86_64::R11,
    X86_64::R12,
    X86_64::R13,
    X86_64::R14,
    X86_64::R15,
    X86_64::RDI,
    X86_64::RSI,
    X86_64::RBP,
    X86_64::RBX,
    X86_64::RDX,
    X86_64::RAX,
    X86_64::RCX,
    X86_64::RSP,
    X86_64::RA,
];

/// The call stack of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Code addresses, the innermost first. The first one, and one that a signal
    /// interrupted, is the instruction itself; the others lie within the call instruction
    /// (the return address less one), so that each can be looked up as it is.
    pub pcs: Vec<u64>,
    /// Where frames are on the stack, the innermost first, as far as unwind tables tell it.
    pub spans: Vec<Span>,
    /// The walk ended before the thread's outermost frame: the snapshot was too short, or
    /// code without unwind tables was met.
    pub truncated: bool,
}

/// Where one frame is on the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The code address of the frame, as in [`Stack::pcs`].
    pub pc: u64,
    /// Its registers, those that are not known 0; `rsp` is where it begins.
    pub regs: Regs,
    /// The canonical frame address: the first one past it.
    pub cfa: u64,
}

impl Memory for StackSnapshot {
    fn read(&self, addr: u64, size: u8) -> Option<u64> {
        let start = usize::try_from(addr.checked_sub(self.base)?).ok()?;
        let bytes = self
            .bytes
            .get(start..start.checked_add(usize::from(size))?)?;
        let mut word = [0; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }
}

/// Unwinds from `registers` as far as the snapshot goes.
pub(super) fn walk(code: &dyn Code, mut registers: Registers, stack: &StackSnapshot) -> Stack {
    let (mut pcs, mut spans) = (Vec::new(), Vec::new());
    // Whether tables alone have led here.
    let mut is_certain = true;
    // Whether the PC is the instruction to be executed next, as opposed to a return address.
    let mut exact = true;
    // Whether what led here was no table.
    let mut guessed = false;
    let mut truncated = true;
    while pcs.len() < MAX_FRAMES {
        let Some(pc) = registers.pc() else { break };
        if pc == 0 {
            truncated = false;
            break;
        }
        let lookup = if exact { pc } else { pc - 1 };
        let signal = signal_frame(code, pc, &registers, stack);
        let trampoline = signal.is_some();
        let by_tables = signal.or_else(|| code.step(lookup, &registers, stack));
        let leaves_signal = matches!(
            by_tables,
            Some(Step::Caller {
                interrupted: true,
                ..
            })
        );
        // A guess may have led to any address.
        if !exact && !guessed && !leaves_signal && stack_end::is_written_by_hand(code, pc) {
            pcs.push(pc);
            truncated = false;
            break;
        }
        guessed = by_tables.is_none();
        is_certain &= !guessed;
        let step = by_tables.unwrap_or_else(|| {
            match !exact && stack_end::is_beginning(code, pc, &registers) {
                true => Step::Outermost,
                false => without_tables(code, &registers, stack, exact),
            }
        });
        // The trampoline's own address is a start, not a call.
        pcs.push(if trampoline { pc } else { lookup });
        match step {
            Step::Caller {
                registers: caller,
                interrupted,
            } => {
                // Stacks grow down; only a signal may have switched to another one.
                let went_up = caller.sp() > registers.sp();
                if !went_up && !interrupted && !trampoline {
                    break;
                }
                if *caller == registers {
                    break;
                }
                if let Some(cfa) = caller.sp().filter(|_| is_certain && !trampoline && went_up) {
                    spans.push(Span {
                        pc: lookup,
                        regs: registers.known(),
                        cfa,
                    });
                }
                exact = interrupted;
                registers = *caller;
            }
            Step::Outermost => {
                truncated = false;
                break;
            }
            Step::Unreadable => break,
        }
    }
    Stack {
        pcs,
        spans,
        truncated,
    }
}

/// The step out of a signal trampoline, if `pc` is at one: the interrupted registers are in
/// the `ucontext_t` at the stack pointer.
fn signal_frame(
    code: &dyn Code,
    pc: u64,
    registers: &Registers,
    memory: &dyn Memory,
) -> Option<Step> {
    let bytes = code.bytes(pc, TRAMPOLINE_SIZE)?;
    SIGNAL_TRAMPOLINES.iter().find(|t| bytes.starts_with(t))?;
    let gregs = registers.sp()?.wrapping_add(UCONTEXT_GREGS);
    let mut interrupted = Registers::default();
    for (index, register) in (0u64..).zip(UCONTEXT_REGISTERS) {
        let Some(value) = memory.read(gregs.wrapping_add(index * 8), 8) else {
            return Some(Step::Unreadable);
        };
        interrupted.set(register, Some(value));
    }
    Some(Step::Caller {
        registers: Box::new(interrupted),
        interrupted: true,
    })
}

/// The step out of code without unwind tables (assembly, generated code): a guess, taken only
/// where it leads to code that we know.
fn without_tables(
    code: &dyn Code,
    registers: &Registers,
    memory: &dyn Memory,
    innermost: bool,
) -> Step {
    let caller = |return_address_at: u64, rbp: Option<u64>| {
        let pc = memory.read(return_address_at, 8)?;
        if !code.is_code(pc.checked_sub(1)?) {
            return None;
        }
        let mut caller = registers.clone();
        caller.forget_caller_saved();
        caller.set(X86_64::RBP, rbp);
        caller.set(X86_64::RSP, Some(return_address_at.checked_add(8)?));
        caller.set(X86_64::RA, Some(pc));
        Some(Step::Caller {
            registers: Box::new(caller),
            interrupted: false,
        })
    };
    let rbp = registers.get(X86_64::RBP);
    // A leaf, or a stub of the procedure linkage table, has pushed nothing.
    let leaf = || caller(registers.sp()?, rbp);
    let framed = || {
        let frame = rbp.filter(|&rbp| Some(rbp) >= registers.sp())?;
        caller(frame.checked_add(8)?, memory.read(frame, 8))
    };
    let step = if innermost {
        leaf().or_else(framed)
    } else {
        framed()
    };
    step.unwrap_or(Step::Unreadable)
}
