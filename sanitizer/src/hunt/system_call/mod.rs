//! Accesses that the kernel makes for the program: which system call, which of its buffers, and who has called.
//!
//! That a watched byte was accessed is the processor's word; the table only says what for. A call whose
//! buffer is not where the byte is does not count.

mod table;

use table::{Buffer, CALLS, Call, Len};

use crate::addr::RuntimeAddr;
use crate::hunt::modules::ModuleSet;
use crate::hunt::routine_call::RoutineCall;
use crate::hunt::strategy::CodeView as _;
use crate::insn::{MemAccess, Regs, ranges_overlap};
use crate::kernel::gates::Hit;
use crate::symbols::StackSnapshot;

/// The most `struct iovec`s that a call takes (`UIO_MAXIOV`).
const MOST_VECTORS: u64 = 1024;
/// Frames of a C library between its system call and the program.
const FRAMES: usize = 6;
/// The instruction `syscall`. What comes by another one (`int 0x80`) has other numbers.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Reads the process's memory; false where not all of it is there.
pub type Memory<'a> = dyn Fn(RuntimeAddr, &mut [u8]) -> bool + 'a;

/// An access in a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// As the manual has it.
    pub name: &'static str,
    /// Run-time address of its `syscall` instruction.
    pub pc: u64,
    /// The buffer, and what the kernel does to it.
    pub access: MemAccess,
}

/// The system call that has made a hit within these watched bytes (address, length); nothing where the call
/// is not known to use them.
#[must_use]
pub fn of_hit(hit: &Hit, watch: (u64, u32), memory: &Memory<'_>) -> Option<SystemCall> {
    let call = call_of(hit)?;
    let regs = hit.registers();
    let pc = regs.rip.wrapping_sub(SYSCALL.len() as u64);
    if at(pc, memory) != Some(SYSCALL) {
        return None;
    }
    // Of the caller's stack there is a copy of that time; later it may hold something else.
    let at_that_time = |address: RuntimeAddr, bytes: &mut [u8]| {
        let copied = usize::try_from(address.0.wrapping_sub(regs.rsp))
            .ok()
            .and_then(|start| hit.stack.get(start..)?.get(..bytes.len()));
        match copied {
            Some(copied) => bytes.copy_from_slice(copied),
            None => return memory(address, bytes),
        }
        true
    };
    let (address, size) = buffer(call, &regs, watch, &at_that_time)?;
    Some(SystemCall {
        name: call.name,
        pc,
        access: MemAccess {
            address,
            size,
            kind: call.kind,
            locked: false,
            thread_local: false,
            stack_implicit: false,
        },
    })
}

fn call_of(hit: &Hit) -> Option<&'static Call> {
    let number = hit.regs.orig_rax;
    CALLS.iter().find(|call| call.number == number)
}

/// The buffer of a call that shares bytes with `watch`.
fn buffer(call: &Call, regs: &Regs, watch: (u64, u32), memory: &Memory<'_>) -> Option<(u64, u32)> {
    // Documentation/arch/x86/entry_64.rst, "system call entry".
    let arguments = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
    let argument = |index: usize| arguments.get(index).copied();
    let shared = |address: u64, size: u64| {
        // The kernel moves less than 2 GiB at once.
        let range = (address, u32::try_from(size).unwrap_or(u32::MAX));
        ranges_overlap(range, watch).then_some(range)
    };
    match call.buffer {
        Buffer::At(pointer, len) => {
            let size = match len {
                Len::Fixed(size) => u64::from(size),
                Len::Size(size) => argument(size)?,
                // The kernel does not look at the upper half of these.
                Len::Times(size, count) => u64::from(argument(count)? as u32) * u64::from(size),
                Len::Behind(pointer) => {
                    u64::from(u32::from_le_bytes(at(argument(pointer)?, memory)?))
                }
            };
            shared(argument(pointer)?, size)
        }
        Buffer::Vector(pointer, count) => {
            within(argument(pointer)?, argument(count)?, &shared, memory)
        }
        Buffer::Message(pointer) => {
            // struct msghdr: name, its length, the vector, its length.
            let message: [u8; 32] = at(argument(pointer)?, memory)?;
            within(word(&message, 2)?, word(&message, 3)?, &shared, memory)
        }
    }
}

/// The element of an array of `struct iovec` that is wanted.
fn within(
    vector: u64,
    count: u64,
    wanted: &dyn Fn(u64, u64) -> Option<(u64, u32)>,
    memory: &Memory<'_>,
) -> Option<(u64, u32)> {
    (0..count.min(MOST_VECTORS)).find_map(|index| {
        let element: [u8; 16] = at(vector.wrapping_add(index * 16), memory)?;
        wanted(word(&element, 0)?, word(&element, 1)?)
    })
}

/// One of the words that a structure consists of.
fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let word = bytes.get(index * 8..)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

fn at<const N: usize>(address: u64, memory: &Memory<'_>) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    memory(RuntimeAddr(address), &mut bytes).then_some(bytes)
}

/// The call of a function that has made a system call in the end: by analyzed code, and through nothing but
/// a few functions beside the `syscall` instruction that are not covered, as C libraries have them.
#[must_use]
pub fn caller(modules: &ModuleSet, hit: &Hit) -> Option<RoutineCall> {
    let call = call_of(hit)?;
    let mut regs = hit.registers();
    let stack = StackSnapshot {
        base: regs.rsp,
        bytes: hit.stack.clone(),
    };
    let library = modules.place(regs.rip)?.module;
    for _ in 0..=FRAMES {
        let before = regs.rip.wrapping_sub(1);
        if modules.is_analyzed(before) {
            return Some(RoutineCall {
                return_address: regs.rip,
                name: call.name.to_owned(),
            });
        }
        let place = modules.place(before)?;
        if place.function().is_some() || !std::ptr::eq(place.module, library) {
            return None;
        }
        regs = place.frames().caller(place.link, &regs, &stack)?;
    }
    None
}

#[cfg(test)]
mod tests;
