//! Where a stopped thread accesses memory next, as far as its code tells: shortly after an instruction, and in the memory routines that are
//! called there.

use gwp_race_abi::own;

use super::strategy::{CodeView, Sample};
use crate::insn::x86_64::{self, Lookahead, lookahead};

/// How far ahead of the instruction an access is looked for.
const LOOKAHEAD: u32 = 20;

/// A place where a thread may be stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The instruction: an access, or the first one of a memory routine.
    pub at: u64,
    /// What it is remembered by: its own address, or where a memory routine returns to, since each of its calls is a place of its own.
    pub site: u64,
}

/// Plain accesses shortly after an instruction, and memory routines that are called there. Which way a branch goes is left to chance.
pub fn places(
    pc: u64,
    sample: &Sample<'_>,
    code: &dyn CodeView,
    random: &mut fastrand::Rng,
) -> Vec<Place> {
    // Of a routine only the calls by analyzed code count.
    let returns_to = code
        .is_routine(pc)
        .then_some(sample.routine_returns_to)
        .flatten();
    let regs = sample.regs;
    let mut places = Vec::new();
    let ahead = lookahead(Lookahead {
        pc,
        limit: LOOKAHEAD,
        regs: (pc == regs.rip).then_some(regs),
        escapes: &|pc| (sample.own_frame)(pc) == 0,
        rbp_is_frame: sample.rbp_is_frame,
        code: &|pc| code.code(pc),
        choose: &mut |taken, fallthrough| {
            if random.bool() { taken } else { fallthrough }
        },
        enter: &mut |target| code.is_analyzed(target),
        routine: &mut |transfer, behind| {
            let entry = code.routine(transfer);
            places.extend(entry.map(|at| Place { at, site: behind }));
            entry.is_some()
        },
    });
    // Where the address is known, nobody has to be stopped to find out whose it is.
    let may_be_shared = |candidate: &&x86_64::Candidate| {
        let frame = (sample.own_frame)(candidate.pc);
        let is_own = |address| own::is_own(address, regs.rsp, regs.fs_base, frame);
        !candidate.address.is_some_and(is_own)
    };
    let ahead = ahead.iter().filter(may_be_shared);
    places.extend(ahead.map(|candidate| candidate.pc).filter_map(|at| {
        let site = match returns_to {
            Some(call) if code.is_routine(at) => call,
            _ if code.is_analyzed(at) && !code.is_atomic(at) => at,
            _ => return None,
        };
        Some(Place { at, site })
    }));
    places
}
