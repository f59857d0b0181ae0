//! What a strategy is: it proposes where to stall next, and is told what came of it. It owns no
//! event, stops nobody, and cannot exceed the budget.

mod outcome;

use std::ops::Range;
use std::time::Duration;

use gwp_race_abi::own;

use super::memory::{Gained, Remembered};
use super::plan::{event::Stood, purse::Purse};
use super::values::Read;
use crate::insn::{
    Regs, Transfer,
    x86_64::{Recipe, leads_to},
};
use crate::report::LookedAt;

pub use outcome::{Conflict, Outcome};

/// A thread that a sample has stopped, as a strategy sees it.
pub struct Sample<'a> {
    /// The registers; `rip` is the next instruction.
    pub regs: &'a Regs,
    /// `rbp` points into the thread's own stack, as a frame pointer does.
    pub rbp_is_frame: bool,
    /// [`Strategy::own_frame`], by who knows it.
    pub own_frame: &'a dyn Fn(u64) -> u64,
    /// Where the memory routine returns to in which the thread stands, if analyzed code has
    /// called it.
    pub routine_returns_to: Option<u64>,
    /// How long it was waited for, if it has come to a site that was waited at.
    pub waited: Option<Duration>,
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
    /// The same, of the instruction at an address.
    fn routine_at(&self, pc: u64) -> Option<u64> {
        leads_to(self.code(pc), pc).and_then(|transfer| self.routine(transfer))
    }
    /// The instruction at the address is marked atomic.
    fn is_atomic(&self, pc: u64) -> bool;
    /// The analyzed function around an address: its run-time start and its code.
    fn function(&self, pc: u64) -> Option<(u64, &[u8])>;
    /// Some address in an analyzed function, of equal chance for each function, picked by a number.
    fn some_function(&self, number: u64) -> Option<u64>;
    /// How many analyzed functions there are, counting those of which only the extent is known.
    fn function_count(&self) -> u64;
    /// The module around an address: where it is, and the part of it that holds its variables.
    fn module_of(&self, pc: u64) -> Option<(Range<u64>, Range<u64>)>;
    /// Nothing can write to the address: it is mapped read-only.
    fn is_constant(&self, address: u64) -> bool;
}

/// What may be spent, as a strategy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// What is left, and what comes in.
    pub purse: Purse,
    /// What was spent so far, s.
    pub spent_s: f64,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Lets a clock sample claim a thread, for so long.
    Sample(Duration),
    /// Waits for whoever comes to a site.
    Wait(Wait),
    /// Lets whoever comes to a probe that stands be claimed, but for those of these sites, for so long.
    Arrival(Vec<u64>, Duration),
    /// Watches what a thread is about to access that is off its processor ([`Strategy::preempted`]).
    Preempted,
    /// Watches who writes a variable.
    Watch(Unexplained),
    /// Has it noted who comes to these sites, for so long.
    Profile(Vec<SiteProbe>, Duration),
    /// Nothing, for so long.
    Rest(Duration),
}

/// Where a thread can be seen on its way to an access by a probe of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteProbe {
    /// The access.
    pub site: u64,
    /// The instruction that is probed.
    pub pc: u64,
    /// How to compute there what will be accessed.
    pub recipe: Recipe,
}

/// What was noted at sites.
#[derive(Clone, Debug, PartialEq)]
pub struct Noted {
    /// For how long.
    pub lasted: Duration,
    /// The sites, and how often somebody came.
    pub arrivals: Vec<(u64, u64)>,
    /// Who was about to access what.
    pub uses: Vec<NotedUse>,
    /// What it has cost of the budget, s.
    pub cost_s: f64,
}

/// A thread was about to make an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedUse {
    /// The site.
    pub site: u64,
    /// The thread.
    pub tid: u32,
    /// When, CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// Where.
    pub address: u64,
}

/// What a thread is about to do that is off its processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct About {
    /// The instruction that is certain to access memory.
    pub pc: u64,
    /// How long the thread is likely to be off.
    pub left: Duration,
}

/// A variable whose value changes, to be watched for who writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unexplained {
    /// Its address.
    pub variable: u64,
    /// The address of a byte of it that changes.
    pub byte: u64,
    /// How long it is watched, if nothing ends that before.
    pub at_most: Duration,
}

/// What a strategy proposes for a stopped thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Stall at the present instruction.
    StallHere {
        /// What the strategy calls the place.
        site: u64,
        /// For how long.
        patience: Patience,
    },
    /// Let the thread run to an instruction and stall it there.
    Seek {
        /// The instruction: an access, or the first one of a memory routine.
        at: u64,
        /// What the strategy calls the place.
        site: u64,
        /// For how long.
        patience: Patience,
    },
    /// Let it go, for this reason.
    Pass(&'static str),
}

/// How long a strategy would like a stall to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all: the thread goes on at once, and the bytes stay watched for as long as
    /// [`Strategy::probe`] says.
    Look,
    /// So long: at least the user's `--stall`, and some times that at most.
    Hold(Duration),
}

impl Patience {
    /// The user's setting.
    pub const USUAL: Self = Self::Hold(Duration::ZERO);
}

/// An access site to wait at for a thread, whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The instruction.
    pub at: u64,
    /// What the strategy calls the place.
    pub site: u64,
    /// For how long.
    pub time: Duration,
    /// So many threads that come there are let pass.
    pub skip: u64,
    /// The access writes, as far as its instruction tells: who reads is of interest as well.
    pub writes: bool,
    /// One that is about to access what another thread has is rather claimed than any.
    pub meets: bool,
    /// Only one that is about to access what is at this address, which is watched from the beginning of the wait on; all others are let pass.
    pub wanted: Option<u64>,
    /// What is done, as a rule, with those who hold a lock for which others have waited.
    pub holders: Holders,
    /// What is known of the bytes.
    pub known: Known,
}

/// What is known of the bytes that are accessed at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// Not whether others use them.
    Nothing,
    /// Others were seen to use them.
    Contended,
    /// The address that is waited for.
    Address,
}

impl Known {
    /// Its name in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "unknown",
            Self::Contended => "contended",
            Self::Address => "known-address",
        }
    }
}

/// What a wait does with threads that hold a lock for which others have waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holders {
    /// They are let pass: whoever comes is going to be made to stand there.
    Spare,
    /// They are looked at, not made to stand.
    LookAt,
    /// They are taken like any other.
    Take,
}

/// The strategies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Name {
    /// Samples of CPU time.
    Clock,
    /// Whatever the model of the program says is worth most.
    Planner,
}

/// Chooses what to stall on.
pub trait Strategy {
    /// What to do with a stopped thread.
    fn propose(&mut self, sample: &Sample<'_>, code: &dyn CodeView) -> Proposal;
    /// How many bytes from the stack pointer up belong to the thread alone that comes to an instruction: the frame of its
    /// function, or 0 if what is accessed can be reached by others, or was seen to be, wherever it stands.
    fn own_frame(&self, _pc: u64) -> u64 {
        own::FRAME
    }
    /// For how long to watch, without holding anybody, who uses the bytes of a site at which a stall was
    /// quiet, or none was wanted; `None` if that is known, or of no interest.
    fn probe(&self, _site: u64) -> Option<Duration> {
        None
    }
    /// What to do next, when no thread is in hand; `now`: since any fixed instant.
    fn step(&mut self, now: Duration, means: &Means, code: &dyn CodeView) -> Step;
    /// A wait may be for one address from now on ([`Wait::wanted`]), where its site's instruction tells what it accesses.
    fn can_watch_ahead(&mut self) {}
    /// It can be noted who comes to sites ([`Step::Profile`]) from now on, so long after each other at least.
    fn can_profile(&mut self, _apart: Duration) {}
    /// Further sites at which probes can stand, for which there may be room some time: each once, and again where other code may stand there.
    fn sites_to_probe(&mut self) -> Vec<SiteProbe> {
        Vec::new()
    }
    /// Threads were seen in the function of a site: a probe there may well prove hot.
    fn is_executed(&self, _site: u64) -> bool {
        false
    }
    /// Who has come to sites at which probes stand, or stood until now: whoever comes to one can be claimed ([`Step::Arrival`]).
    fn stood(&mut self, _told: &[Stood]) {}
    /// No probe can be had at these sites, as long as this code stands there.
    fn refused(&mut self, _sites: &[u64]) {}
    /// That was noted at sites, of which it was asked some time ago.
    fn profiled(&mut self, _noted: &Noted) {}
    /// Which of these accesses to watch for, and for how long at most; `None` if none is worth it.
    fn preempted(&mut self, _all: &[About], _code: &dyn CodeView) -> Option<(usize, Duration)> {
        None
    }
    /// It is seen which threads are off their processors from now on ([`Step::Preempted`]), or no more.
    fn sees_preempted(&mut self, _sees: bool) {}
    /// The wait that was asked for last is for whichever thread comes: its address cannot be waited for.
    fn waits_for_any(&mut self) {}
    /// It was waited for so long for one address in vain, whose outcome is told next.
    fn waited(&mut self, _time: Duration) {}
    /// It was waited at a site for a thread that is about to access what is at an address, which was watched meanwhile, so long: where others have accessed
    /// it, and how long after the beginning. Nobody was stopped for that.
    fn watched_ahead(&mut self, _site: u64, _address: u64, _lasted: Duration, _users: &[Conflict]) {
    }
    /// A thread that stands at a site is about to access what is at an address. What is done with it is told next, as outcomes of the site.
    fn about(&mut self, _site: u64, _address: u64) {}
    /// A stall has lasted so long, whose outcome is told next.
    fn stalled(&mut self, _lasted: Duration) {}
    /// A variable was watched so, so long: where it was written, and how long after the beginning.
    fn watched(&mut self, _variable: u64, _lasted: Duration, _writers: &[Conflict]) {}
    /// Takes note of where threads were seen to execute, without being stopped.
    fn seen(&mut self, _pc: u64, _code: &dyn CodeView) {}
    /// There is more code than before; what was known is as it was.
    fn extend(&mut self) {}
    /// Other code may stand at the same addresses now.
    fn forget(&mut self);
    /// Forgets a part of what was learned: programs change what they do.
    fn decay(&mut self);
    /// Access sites known, and how many of them were stalled at.
    fn coverage(&self) -> Option<(u64, u64)> {
        None
    }
    /// How many new races were to be expected of all that was done so far; 0 where nothing is expected of anything.
    fn expected_races(&self) -> f64 {
        0.0
    }
    /// The functions that were looked at.
    fn looked_at(&self) -> Vec<LookedAt> {
        Vec::new()
    }
    /// This is remembered of the code from when it was watched before; told again where the code was forgotten ([`Strategy::forget`]).
    fn remember(&mut self, _remembered: Remembered) {}
    /// What was gained of the code since that was asked for last, for whoever watches it next. `raced`: the addresses behind accesses of which a race was told.
    fn gained(&mut self, _raced: &[(u64, u64)], _code: &dyn CodeView) -> Vec<Gained> {
        Vec::new()
    }
    /// Whether it is remembered that a site races with the access that ends at an address: to catch that once more is no news.
    fn knows_race(&mut self, _site: u64, _behind: u64, _code: &dyn CodeView) -> bool {
        false
    }
    /// Besides the one of [`Outcome::Shared`], another access of the same bytes was seen.
    fn uses(&mut self, _other: Conflict) {}
    /// Looks at the values of variables, which nobody has to stand still for.
    fn look_at_values(&mut self, _read: &Read<'_>) {}
    /// What came of the stall, or of the attempt, at a site that it has proposed.
    fn outcome(&mut self, site: u64, outcome: Outcome);
}

#[cfg(test)]
mod tests;
