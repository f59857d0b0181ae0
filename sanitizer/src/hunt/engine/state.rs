//! What is in hand, and how far it is.

use crate::hunt::classify::StalledSide;
use crate::hunt::routine_call::RoutineCall;
use crate::hunt::strategy::Patience;
use crate::hunt::watched::Watched;
use crate::insn::Regs;
use crate::kernel::gates::Hit;

use super::wanted::Early;

/// What is in hand.
pub(super) enum State {
    Idle,
    /// The owner runs to an access site.
    Seek {
        tid: u32,
        /// What the strategy calls the place.
        site: u64,
        patience: Patience,
        deadline: u64,
        /// If it has arrived but no stop has come by then, none will.
        void: u64,
    },
    /// The owner stands before its access; others are watched.
    Stalled(Box<Stalled>),
    /// The owner was let go; did it make its access?
    Confirm(Box<Confirm>),
    /// Nobody stands still and no gate does anything: the loader scans the modules.
    Scanning(Purpose),
}

/// What a scan of the modules is for.
pub(super) enum Purpose {
    /// To begin: the process is new to us, or executes another program.
    Start,
    /// To see what is new.
    Upkeep,
    /// To judge what was caught. Modules may have come and gone since the last look: what the
    /// program counters mean must be what they meant when the accesses were made.
    Judge {
        confirm: Box<Confirm>,
        completed: bool,
    },
}

pub(super) struct Stalled {
    pub(super) tid: u32,
    /// What the strategy calls the place.
    pub(super) site: u64,
    pub(super) regs: Regs,
    pub(super) call: Option<RoutineCall>,
    pub(super) watched: Watched,
    /// Only writes trap, and reads were to, as well.
    pub(super) is_blind_to_reads: bool,
    pub(super) before: Vec<u8>,
    /// The bytes were watched when it was claimed, and it stands since then.
    pub(super) early: Option<Early>,
    pub(super) opened: u64,
    /// CPU time that the program had used by then, ns, where that was looked at.
    pub(super) used: Option<u64>,
    /// Traps counted before it.
    pub(super) traps: u64,
    /// When to look whether others wait for a lock that it holds.
    pub(super) look_at_locks: u64,
    /// So many were seen to.
    pub(super) waiting: usize,
    /// A racing thread was stopped as well.
    pub(super) has_caught: bool,
    /// Its whole stack, where it goes on again.
    pub(super) deep: Option<(u32, Vec<u8>)>,
    pub(super) deadline: u64,
}

pub(super) struct Confirm {
    pub(super) side: StalledSide,
    pub(super) hits: Vec<Hit>,
    pub(super) name: String,
    pub(super) open: std::ops::Range<u64>,
    pub(super) deadline: u64,
}

impl Confirm {
    /// Where the threads stood.
    pub(super) fn places(&self) -> Vec<u64> {
        let racing = self.hits.iter().map(|hit| hit.regs.rip);
        racing.chain([self.side.regs.rip]).collect()
    }
}
