//! What a strategy is: it proposes where to stall next, and is told what came of it. It owns no
//! event, stops nobody, and cannot exceed the budget.

use crate::insn::{Regs, Transfer};

/// A thread that a sample has stopped, as a strategy sees it.
pub struct Sample<'a> {
    /// The registers; `rip` is the next instruction.
    pub regs: &'a Regs,
    /// `rbp` points into the thread's own stack, as a frame pointer does.
    pub rbp_is_frame: bool,
    /// Where the memory routine returns to in which the thread stands, if analyzed code has
    /// called it.
    pub routine_returns_to: Option<u64>,
    /// Reads a few words of the thread's stack, from `rsp` up.
    pub stack: &'a dyn Fn() -> Vec<u64>,
}

/// What a strategy may ask of the target's code.
pub trait CodeView {
    /// Bytes of code from a run-time address on: at least an instruction's worth where there is
    /// that much, empty outside known modules.
    fn code(&self, pc: u64) -> &[u8];
    /// The address is in a function whose atomic accesses are known.
    fn is_analyzed(&self, pc: u64) -> bool;
    /// The address is in a memory routine, whose accesses are its caller's.
    fn is_routine(&self, pc: u64) -> bool;
    /// The first instruction of the memory routine that a call or jump leads to, where that is
    /// known and where it is known what the routine will access.
    fn routine(&self, transfer: Transfer) -> Option<u64>;
    /// The instruction at the address is marked atomic.
    fn is_atomic(&self, pc: u64) -> bool;
}

/// What a strategy proposes for a stopped thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Stall at the present instruction.
    StallHere {
        /// What the strategy calls the place.
        site: u64,
    },
    /// Let the thread run to an instruction and stall it there.
    Seek {
        /// The instruction: an access, or the first one of a memory routine.
        at: u64,
        /// What the strategy calls the place.
        site: u64,
    },
    /// Let it go, for this reason.
    Pass(&'static str),
}

/// What came of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The thread did not come to the site in time.
    NotReached,
    /// The access was not worth a stall: its own stack, thread-local, not decodable.
    Unsuitable,
    /// Nobody else touched the bytes.
    Quiet,
    /// Somebody did.
    Hit,
}

/// Chooses what to stall on.
pub trait Strategy {
    /// What to do with a stopped thread.
    fn propose(&mut self, sample: &Sample<'_>, code: &dyn CodeView) -> Proposal;
    /// What came of the stall, or of the attempt, at a site that it has proposed.
    fn outcome(&mut self, site: u64, outcome: Outcome);
}
