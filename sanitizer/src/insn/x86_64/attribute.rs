//! From the program counter *after* an access back to the instruction that made it. Data
//! breakpoints are traps (Intel SDM vol. 3, 18.2.5 and 18.3.1.2): they report the next
//! instruction, or the same one between two iterations of a repeated string instruction.

#[cfg(test)]
mod library;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};

use super::accesses::decode;
use super::operands::{Extent, Operand, is_repeated_string, operands};
use super::registers::{self, GprSet};
use crate::insn::{Attributed, MemAccess, Regs, Undetermined, ranges_overlap};

/// The instruction that made an access, given the PC after it.
///
/// `code` are the bytes from `function_start` to at least the PC: they are decoded forward from
/// the start, since x86 cannot be decoded backward. `regs` are the registers at the trap, `watch`
/// is the (address, length) of the watchpoint that was hit.
///
/// An instruction is accepted only where its operand, computed from the registers that it leaves
/// behind (known side effects undone), overlaps the watch; or where it overwrote the registers of
/// its only operand, with [`Attributed::address_exact`] false.
///
/// # Errors
///
/// Whatever is not certain: see [`Undetermined`].
pub fn attribute(
    function_start: u64,
    code: &[u8],
    regs: &Regs,
    watch: (u64, u32),
) -> Result<Attributed, Undetermined> {
    let offset = regs
        .rip
        .checked_sub(function_start)
        .and_then(|offset| usize::try_from(offset).ok())
        .filter(|&offset| offset <= code.len())
        .ok_or(Undetermined::OutsideCode)?;
    let previous = instruction_before(function_start, code, offset)?;

    let mut factory = InstructionInfoFactory::new();
    let before = match &previous {
        Some(instruction) if falls_through(instruction) => {
            by_fall_through(instruction, factory.info(instruction), regs, watch)
        }
        _ => Err(Undetermined::ControlTransfer),
    };
    let here = code
        .get(offset..)
        .and_then(|code| decode(code, regs.rip))
        .filter(is_repeated_string)
        .map(|instruction| {
            let info = factory.info(&instruction);
            by_repetition(&instruction, &operands(&instruction, info), regs, watch)
        });

    // A return has left its own address just below the stack pointer, a call just above it.
    let transferred = ranges_overlap((regs.rsp.wrapping_sub(8), 8), watch)
        || (offset == 0 && ranges_overlap((regs.rsp, 8), watch));
    match (before, here) {
        (Ok(_), Some(Ok(_))) => Err(Undetermined::Ambiguous),
        (Ok(found), _) => Ok(found),
        (Err(_), Some(Err(reason @ Undetermined::Ambiguous))) => Err(reason),
        (Err(Undetermined::NoMatch), _) if transferred => Err(Undetermined::ControlTransfer),
        (Err(Undetermined::NoMatch | Undetermined::ControlTransfer), Some(Ok(found)))
            if !transferred =>
        {
            Ok(found)
        }
        (Err(reason), _) => Err(reason),
    }
}

/// The instruction that ends at `offset`; None at the function's first instruction.
fn instruction_before(
    function_start: u64,
    code: &[u8],
    offset: usize,
) -> Result<Option<Instruction>, Undetermined> {
    let mut decoder = Decoder::with_ip(64, code, function_start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut any = false;
    while decoder.position() < offset {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Err(Undetermined::Desync);
        }
        any = true;
    }
    if decoder.position() != offset {
        return Err(Undetermined::Desync);
    }
    Ok(any.then_some(instruction))
}

/// Whether execution may arrive at the next instruction straight from this one. A call does not:
/// what follows it is reached by the callee's return. System calls enter the kernel, whose
/// accesses are not the instruction's.
fn falls_through(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend
    )
}

/// Tries the instruction before the PC.
fn by_fall_through(
    instruction: &Instruction,
    info: &InstructionInfo,
    after: &Regs,
    watch: (u64, u32),
) -> Result<Attributed, Undetermined> {
    let operands = operands(instruction, info);
    if is_repeated_string(instruction) {
        return by_repetition(instruction, &operands, after, watch);
    }
    let (before, lost) = undo(instruction, info, after);
    let mut found: Option<Attributed> = None;
    let mut inexact: Option<Undetermined> = None;
    for operand in &operands {
        let overwritten = operand.address_registers().intersects(lost);
        let (address, size, exact) = match operand.extent {
            Extent::Bytes(size) if overwritten => {
                if operands.len() > 1 {
                    inexact = Some(Undetermined::Ambiguous);
                    continue;
                }
                (watch.0, size, false)
            }
            Extent::Bytes(size) => match operand.address(&before) {
                Some(address) => (address, size, true),
                None => continue,
            },
            Extent::Masked(size) => {
                let hit = overwritten
                    || operand
                        .address(&before)
                        .is_none_or(|address| ranges_overlap((address, size), watch));
                if hit {
                    inexact = Some(Undetermined::MaskUnknown);
                }
                continue;
            }
            Extent::Gathered => {
                inexact = Some(Undetermined::MaskUnknown);
                continue;
            }
            Extent::Unknown => {
                inexact = Some(Undetermined::SizeUnknown);
                continue;
            }
            Extent::Repeated(_) | Extent::RepeatedUntil(_) => continue,
        };
        if !ranges_overlap((address, size), watch) {
            continue;
        }
        let attributed = attributed(instruction, operand, (address, size), exact);
        if found.replace(attributed).is_some() {
            return Err(Undetermined::Ambiguous);
        }
    }
    match (found, inexact) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(Undetermined::Ambiguous),
        (None, Some(reason)) => Err(reason),
        (None, None) => Err(Undetermined::NoMatch),
    }
}

/// Tries a repeated string instruction that has made at least one iteration. Where it started is
/// not known, but where it stands is: the element behind its pointer has been accessed, and those
/// that its counter has left will be.
fn by_repetition(
    instruction: &Instruction,
    operands: &[Operand],
    after: &Regs,
    watch: (u64, u32),
) -> Result<Attributed, Undetermined> {
    let mut found: Option<Attributed> = None;
    for operand in operands {
        let (element, left) = match operand.extent {
            Extent::Repeated(element) => {
                (element, registers::value(after, operand.count_register()))
            }
            // How many of those left it will look at depends on the data.
            Extent::RepeatedUntil(element) => (element, Some(0)),
            _ => continue,
        };
        let (Some(pointer), Some(left)) = (operand.address(after), left) else {
            continue;
        };
        let Some((range, exact)) =
            passed(pointer, element, left, registers::counts_down(after), watch)
        else {
            continue;
        };
        let attributed = attributed(instruction, operand, range, exact);
        if found.replace(attributed).is_some() {
            return Err(Undetermined::Ambiguous);
        }
    }
    found.ok_or(Undetermined::NoMatch)
}

/// How far behind a string instruction's pointer a hit may be reported: fast strings may report
/// at the end of a group of iterations (SDM vol. 1, 7.3.9.3), and a group is a cache line.
/// (Measured on an AMD EPYC: every iteration is reported, right after it.)
const FAST_STRING_GROUP: u64 = 64;

/// The bytes around the watch that a string instruction accesses, and whether it is certain that
/// it accesses all of them: so it is where the element just behind the pointer met the watch.
fn passed(
    pointer: u64,
    element: u32,
    left: u64,
    down: bool,
    watch: (u64, u32),
) -> Option<((u64, u32), bool)> {
    let size = u64::from(element);
    let watch_end = watch.0.saturating_add(u64::from(watch.1));
    let ahead = left.saturating_mul(size);
    let last = if down {
        pointer.checked_add(size)?
    } else {
        pointer.checked_sub(size)?
    };
    let exact = ranges_overlap((last, element), watch);
    let (first, end) = match (exact, down) {
        (true, false) => (
            last,
            pointer.max(watch_end.min(pointer.saturating_add(ahead))),
        ),
        (true, true) => {
            let lowest = last.saturating_sub(ahead).max(watch.0);
            (lowest.min(last), last.checked_add(size)?)
        }
        (false, false) => (
            watch.0.max(last.saturating_sub(FAST_STRING_GROUP)),
            watch_end.min(pointer),
        ),
        (false, true) => {
            let reach = last.saturating_add(size + FAST_STRING_GROUP);
            (watch.0.max(last), watch_end.min(reach))
        }
    };
    let size = end.checked_sub(first).filter(|&size| size > 0)?;
    Some(((first, u32::try_from(size).ok()?), exact))
}

fn attributed(
    instruction: &Instruction,
    operand: &Operand,
    (address, size): (u64, u32),
    address_exact: bool,
) -> Attributed {
    Attributed {
        pc: instruction.ip(),
        len: u32::try_from(instruction.len()).unwrap_or(0),
        access: MemAccess {
            address,
            size,
            kind: operand.kind,
            locked: operand.locked,
            thread_local: operand.thread_local(),
            stack_implicit: operand.stack_implicit,
        },
        address_exact,
    }
}

/// The registers before the instruction, as far as they follow from those after it, and the
/// registers that do not.
fn undo(instruction: &Instruction, info: &InstructionInfo, after: &Regs) -> (Regs, GprSet) {
    let mut before = *after;
    before.rip = instruction.ip();
    let mut lost = GprSet::default();
    for used in info.used_registers() {
        if matches!(
            used.access(),
            OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
        ) {
            lost.insert(used.register());
        }
    }
    if instruction.is_string_instruction() {
        let step = instruction.memory_size().size() as u64;
        for register in [Register::RSI, Register::RDI] {
            if lost.contains(register)
                && let Some(value) = registers::slot(&mut before, register)
            {
                *value = if registers::counts_down(after) {
                    value.wrapping_add(step)
                } else {
                    value.wrapping_sub(step)
                };
                lost.remove(register);
            }
        }
    } else if instruction.mnemonic() == Mnemonic::Leave {
        // leave: rsp := rbp, then pop rbp. What it read stands below the new rsp.
        before.rbp = after.rsp.wrapping_sub(8);
        lost.remove(Register::RBP);
    } else if instruction.mnemonic() == Mnemonic::Enter && instruction.immediate8_2nd() == 0 {
        // enter without nesting: push rbp, then rbp := rsp.
        before.rsp = after.rbp.wrapping_add(8);
        lost.remove(Register::RSP);
    } else if instruction.mnemonic() != Mnemonic::Enter
        && instruction.is_stack_instruction()
        && !writes_operand(instruction, info, Register::RSP)
    {
        let step = i64::from(instruction.stack_pointer_increment());
        before.rsp = after.rsp.wrapping_add_signed(step.wrapping_neg());
        lost.remove(Register::RSP);
    }
    (before, lost)
}

/// Whether an explicit operand overwrites `register` (`pop rsp`).
fn writes_operand(instruction: &Instruction, info: &InstructionInfo, register: Register) -> bool {
    (0..instruction.op_count()).any(|i| {
        instruction.op_kind(i) == OpKind::Register
            && instruction.op_register(i).full_register() == register
            && !matches!(info.op_access(i), OpAccess::Read | OpAccess::CondRead)
    })
}

#[cfg(test)]
mod tests;
