//! Who has called a memory routine, or a function that writes what it returns into memory of its own: the function that its
//! accesses belong to.

use super::{modules::ModuleSet, routines::Contract, strategy::CodeView as _};
use crate::{
    insn::{AccessKind, Regs, Transfer, x86_64},
    symbols::StackSnapshot,
};

/// A call of a memory routine by analyzed code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutineCall {
    /// Where the routine returns to.
    pub return_address: u64,
    /// The name by which it was called.
    pub name: String,
}

impl RoutineCall {
    /// Whether an access of this kind in the routine may be to bytes that its caller has not asked for:
    /// a load of one that loads more than it looks at.
    #[must_use]
    pub fn may_be_beyond(&self, kind: AccessKind) -> bool {
        !kind.writes() && !Contract::of(&self.name).is_some_and(Contract::loads_exactly)
    }
}

/// The call that has led a thread into the memory routine in which it stands with these registers
/// and this stack; nothing unless analyzed code has called the routine, and not by way of any
/// other function.
#[must_use]
pub fn of_routine(modules: &ModuleSet, regs: &Regs, stack: &StackSnapshot) -> Option<RoutineCall> {
    let caller = caller(modules, regs, stack)?;
    let return_address = caller.rip;
    if !modules.is_analyzed(return_address.wrapping_sub(1)) {
        return None;
    }
    let (start, code) = modules.function_code(return_address.wrapping_sub(1))?;
    let called = x86_64::call_before(start, code, return_address, &caller)?;
    let routine = |called| Some(modules.routine_behind(called)?.0);
    let name = routine(called).or_else(|| tail_called(modules, called, routine))?;
    Some(RoutineCall {
        return_address,
        name: name.to_owned(),
    })
}

/// The call of a function that writes what it returns into memory of its own, if one has led a thread to where it stands with
/// these registers, behind an access, and this stack: by analyzed code, and through nothing but a few functions of one library.
#[must_use]
pub fn of_result(modules: &ModuleSet, regs: &Regs, stack: &StackSnapshot) -> Option<RoutineCall> {
    /// Frames of a C library below the function that the program calls.
    const FRAMES: usize = 12;
    let library = modules.place(regs.rip.wrapping_sub(1))?.module;
    if library.metadata.is_some() {
        return None;
    }
    let mut regs = *regs;
    for _ in 0..FRAMES {
        let place = modules.place(regs.rip.wrapping_sub(1))?;
        if !std::ptr::eq(place.module, library) {
            return None;
        }
        regs = place.frames().caller(place.link, &regs, stack)?;
        let call = regs.rip.wrapping_sub(1);
        if modules.is_analyzed(call) {
            let (start, code) = modules.function_code(call)?;
            let called = x86_64::call_before(start, code, regs.rip, &regs)?;
            let result = |called| modules.result_behind(called);
            let name = result(called).or_else(|| tail_called(modules, called, result))?;
            return Some(RoutineCall {
                return_address: regs.rip,
                name: name.to_owned(),
            });
        }
    }
    None
}

/// The registers behind the call: by the unwind tables, or where there are none because the
/// routine is seen not to touch its stack.
fn caller(modules: &ModuleSet, regs: &Regs, stack: &StackSnapshot) -> Option<Regs> {
    let place = modules.place(regs.rip)?;
    if !place.is_mem_routine() {
        return None;
    }
    if place.frames().extent(place.link).is_some() {
        return place.frames().caller(place.link, regs, stack);
    }
    if !place.routine_keeps_stack() || stack.base != regs.rsp {
        return None;
    }
    let top = stack.bytes.first_chunk::<8>()?;
    Some(Regs {
        rip: u64::from_le_bytes(*top),
        rsp: regs.rsp.wrapping_add(8),
        ..*regs
    })
}

/// An analyzed function may end with a jump to a routine, which then returns to the function's
/// own caller. It was that function if nothing else can have been jumped to. `name_of` says what routine is behind a jump.
fn tail_called<'a>(
    modules: &'a ModuleSet,
    called: Transfer,
    name_of: impl Fn(Transfer) -> Option<&'a str>,
) -> Option<&'a str> {
    let Transfer::To(target) = called else {
        return None;
    };
    if !modules.is_analyzed(target) {
        return None;
    }
    let (start, code) = modules.function_code(target)?;
    if start != target {
        return None;
    }
    let mut name = None;
    for exit in x86_64::exits(start, code)? {
        name.get_or_insert(name_of(exit.transfer?)?);
    }
    name
}
