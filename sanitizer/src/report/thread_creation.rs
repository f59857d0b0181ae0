//! Who has created a thread, and where. Threads that run one routine are told apart by that.

use super::finding::CreatorFacts;
use super::model::{StackFrame, ThreadCreation};
use super::own_code::{is_library, is_own};
use crate::insn::Regs;
use crate::insn::x86_64::{CALL_LENGTHS, is_call};
use crate::symbols::{StackSnapshot, Symbolizer};

/// Frames that are looked at: those of libraries between the system call and who has called them are fewer.
const FRAMES: usize = 32;

/// The thread that has created another one, and the innermost function of the user's own code that was on its stack then.
pub(super) fn thread_creation(symbolizer: &Symbolizer, creator: &CreatorFacts) -> ThreadCreation {
    let frame = caller(creator)
        .filter(|(regs, _)| {
            keeps_nothing(symbolizer, creator.regs.rip) && is_behind_call(symbolizer, regs.rip)
        })
        .and_then(|(regs, stack)| own_frame(symbolizer, &regs, &stack));
    let (function, file, line) = match frame {
        Some(frame) => (frame.function, frame.file, frame.line),
        None => (None, None, None),
    };
    ThreadCreation {
        tid: creator.tid,
        thread_name: creator.thread_name.clone(),
        function,
        file,
        line,
    }
}

/// What has called the function that makes the system call. The C libraries make it where no unwind table leads on, as the new thread comes out of it, too, but in functions that keep nothing on the
/// stack (`clone3.S` and `clone.S` of glibc, sysdeps/unix/sysv/linux/x86_64; src/thread/x86_64/clone.s of musl).
fn caller(creator: &CreatorFacts) -> Option<(Regs, StackSnapshot)> {
    let (word, stack) = creator.stack.split_first_chunk::<8>()?;
    let regs = Regs {
        rip: u64::from_le_bytes(*word),
        rsp: creator.regs.rsp.wrapping_add(8),
        ..creator.regs
    };
    let stack = StackSnapshot {
        base: regs.rsp,
        bytes: stack.to_vec(),
    };
    Some((regs, stack))
}

/// Whether it is one of those functions that made the system call. Of one that is made elsewhere nothing is told.
fn keeps_nothing(symbolizer: &Symbolizer, pc: u64) -> bool {
    let module = symbolizer.module_at(pc);
    let function = symbolizer.frame_by_symbol(pc).function;
    module.is_some_and(|module| is_library(&module.path))
        || function.is_some_and(|name| matches!(name.trim_start_matches('_'), "clone" | "clone3"))
}

/// Whether a call returns to an address.
fn is_behind_call(symbolizer: &Symbolizer, address: u64) -> bool {
    CALL_LENGTHS.iter().any(|&length| {
        let call = symbolizer.instruction_at(address.wrapping_sub(length));
        is_call(&call, length)
    })
}

fn own_frame(symbolizer: &Symbolizer, regs: &Regs, stack: &StackSnapshot) -> Option<StackFrame> {
    let within_call = Regs {
        rip: regs.rip.wrapping_sub(1),
        ..*regs
    };
    let pcs = symbolizer.unwind(&within_call, stack).pcs;
    pcs.into_iter().take(FRAMES).find_map(|pc| {
        // Those have lines, too, it may be, which take long to read.
        let module = symbolizer.module_at(pc)?;
        if is_library(&module.path) {
            return None;
        }
        let mut frames = symbolizer.frames(pc).into_iter().map(StackFrame::from);
        frames.find(|frame| frame.function.is_some() && is_own(frame))
    })
}
