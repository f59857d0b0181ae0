//! What the daemon and a tracer say to each other: length-prefixed postcard over a socket.

mod statistics;

use std::{io::Write as _, os::unix::net::UnixStream};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::hunt::budget::{Advance, Allowance};
use crate::hunt::memory::{Gained, Remembered};
use crate::hunt::strategy::Name;
use crate::kernel::rights::FileRights;
use crate::report::LookedAt;
use crate::report::finding::{Finding, MapInfo, ModuleInfo};

pub use statistics::Statistics;

/// A message longer than this is not one of ours.
pub const MAX_MESSAGE: usize = 64 << 20;

/// What is alike for all processes that a tracer will watch; the first message to it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Preparation {
    /// How long a thread may be held before the watchdog releases it, ns.
    pub stop_deadline_ns: u64,
    /// The gates' debug messages are wanted.
    pub gate_log: bool,
    /// So many processes may be watched at a time. The first one's socket is that of this message; those of the others follow it, each with a byte.
    pub slots: u8,
    /// Breakpoints are left to other tools, at least one of each processor.
    pub leaves_breakpoints: bool,
}

/// What a tracer is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The process to watch.
    pub pid: u32,
    /// When that was started, in clock ticks after boot: another one that has got its id is not to be watched. `None` where that
    /// is not known.
    pub start_ticks: Option<u64>,
    /// The process waits before its first exec: seize it, say so, and arm it there.
    pub launch: bool,
    /// It was forked by one that was watched.
    pub is_child: bool,
    /// CPU time between clock samples of a thread, ns; `None` for what the budget suggests.
    pub sample_period_ns: Option<u64>,
    /// How long a stall lasts at most, ns.
    pub stall_ns: u64,
    /// How long a thread may be held before the watchdog releases it, ns.
    pub stop_deadline_ns: u64,
    /// How to choose what to stall on.
    pub strategy: Name,
    /// What was tried counts in later choices (the clock's; the others cannot do without).
    pub learns: bool,
    /// The share of the target's CPU time that samples may cost (0.01 is 1 %).
    pub max_overhead: f64,
    /// What watching may cost in all, where it was earned before: it ends when that is spent. `None` where it may go on.
    pub allowance: Option<Allowance>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Plain against atomic is reported as well.
    pub report_mixed: bool,
    /// Accesses of code that was not analyzed are reported as well.
    pub report_unanalyzed: bool,
    /// Repeats of a race are told with their stacks, too.
    pub full_repeats: bool,
    /// What the strategy decides is wanted in words.
    pub explain: bool,
    /// The functions that were looked at are wanted at the end.
    pub coverage: bool,
    /// All that the planner hears, is asked and answers is wanted.
    pub decision_log: bool,
    /// Sites may be probed by the kernel.
    pub probes: bool,
    /// Threads that wait for a processor are taken where they stand.
    pub free_stalls: bool,
    /// What is gained of the code is wanted, for whoever watches it next; and what is remembered of it will be told.
    pub memory: bool,
}

impl Setup {
    /// What may be spent before anything was earned.
    #[must_use]
    pub fn advance(&self) -> Advance {
        match (self.allowance, self.is_child) {
            (Some(allowance), _) => Advance::Saved(allowance),
            (None, true) => Advance::Child,
            (None, false) => Advance::First,
        }
    }
}

#[cfg(test)]
impl Setup {
    /// What the command line's defaults come to, for tests.
    pub(crate) const fn usual(pid: u32) -> Self {
        Self {
            pid,
            start_ticks: None,
            launch: false,
            is_child: false,
            sample_period_ns: None,
            stall_ns: 500_000,
            stop_deadline_ns: 20_000_000,
            strategy: Name::Planner,
            learns: true,
            max_overhead: 0.01,
            allowance: None,
            seed: 0,
            report_mixed: true,
            report_unanalyzed: false,
            full_repeats: false,
            explain: false,
            coverage: false,
            decision_log: false,
            probes: false,
            free_stalls: false,
            memory: false,
        }
    }
}

/// What the daemon says later.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Watch this process; said to a tracer that watches none.
    Watch(Box<Setup>),
    /// Disarm, tell the statistics, let the process go, and be ready for another one.
    Leave,
    /// The same, and end.
    Stop,
    /// Nanoseconds of CPU time that the daemon has used for this target, most of it to explain races.
    Charge(u64),
    /// Whether other processes are watched as well: then this part of the processors is used by whatever, 1 where that is unknown.
    Company(Option<f64>),
    /// A race was dropped: what was told before is to be told again, with stacks, when it is caught again.
    TellAgain,
    /// A race that was told is none.
    Refuted(Refuted),
    /// This is remembered of a module; told one by one ([`Notice::Remembers`]).
    Remember(Remembered),
}

/// A race that debug information has shown to be none, by what the two sides were told with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refuted {
    /// Run-time address of the stalled access.
    pub stalled: u64,
    /// Where the racing thread was after its access.
    pub racing: u64,
    /// It is none whichever bytes the two share.
    pub is_settled: bool,
    /// Why.
    pub reason: crate::verdict::Reason,
}

/// A place that the strategy has chosen, and what came of it. The words are explained in `docs/how-it-works.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Run-time address of an instruction, or of a variable.
    pub at: u64,
    /// It is that of a variable.
    pub is_variable: bool,
    /// How it came to the place, a word.
    pub way: String,
    /// What came of it, a word.
    pub outcome: String,
    /// How much later another thread has used the same bytes, ns, where it was only looked who does.
    pub later_ns: Option<u64>,
    /// Run-time addresses behind the instructions that were seen to write a variable.
    pub writers: Vec<u64>,
}

/// Why a tracer has let its target go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It was told to.
    Stopped,
    /// What it may cost is spent.
    Spent,
    /// The target has ended.
    TargetEnded,
    /// The target is about to receive a signal that may crash it: crash handlers, core dumps
    /// and debuggers must find it untraced.
    FatalSignal(i32),
}

/// What a tracer says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Notice {
    /// It can watch a process: the first one, or another one, when that of before has ended and all was told of it.
    Ready {
        /// CPU time that the tracer and its watchdog have used since they told of it last, sampling left out, ns.
        cpu_ns: u64,
    },
    /// The process is seized; it may exec now.
    Seized,
    /// The target is watched (again, after an exec).
    Watching {
        /// Modules in which at least one function was analyzed.
        analyzed_modules: usize,
        /// CPU time that the tracer and its watchdog have used since they told of it last, ns.
        cpu_ns: u64,
    },
    /// The modules of the target have changed; all of them, what it may do with files at this moment, and the file that it executes (empty where that is not known).
    Modules(Vec<ModuleInfo>, Option<FileRights>, String),
    /// A race was caught.
    Race(Box<Finding>, Vec<MapInfo>),
    /// A race that was told before was caught again in this process.
    Repeat {
        /// Run-time address of the stalled access.
        stalled: u64,
        /// Where the racing thread was after its access or, where it had called a memory routine, where that returns to
        /// ([`Finding::racing_place`](crate::report::Finding::racing_place)).
        racing: u64,
    },
    /// eBPF is not permitted, as this text says: the gates' work is done in user space.
    WithoutGates(String),
    /// Something the user should know.
    Warning(String),
    /// What the strategy has decided, and what came of it.
    Decision(Decision),
    /// Some of the functions that were looked at.
    Coverage(Vec<LookedAt>),
    /// What was told of what is remembered is taken in: there may be more.
    Remembers,
    /// What was gained of the code since it was told last.
    Gained(Gained),
    /// What the planner has heard, was asked and has answered: records as [`encode`](super::plan::log::file::encode) makes them, one behind the other.
    DecisionLog(Vec<u8>),
    /// Program counters outside analyzed functions, and at least how many clock samples were there.
    Elsewhere(Vec<(u64, u64)>),
    /// No breakpoint was to be had for a thread: others of this machine have them.
    BreakpointsTaken,
    /// Whether it watches by processor from now on: by breakpoints of all processors, or by thread again.
    ByProcessor(bool),
    /// A debug message.
    Debug(String),
    /// The numbers so far.
    Statistics(Statistics),
    /// The last message.
    Ended(Ending, Statistics),
    /// The last message: it could not go on.
    Failed(String),
}

/// A message in its frame.
///
/// # Errors
/// Fails when the message cannot be encoded, which none of ours can fail to be.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, postcard::Error> {
    let body = postcard::to_allocvec(message)?;
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Takes the first whole message out of a buffer; `None` when it is not whole yet.
///
/// # Errors
/// Fails for a frame that no tracer or daemon of this version sends.
pub fn decode<T: DeserializeOwned>(buffer: &mut Vec<u8>) -> Result<Option<T>, postcard::Error> {
    let Some((prefix, rest)) = buffer.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let len = u32::from_le_bytes(*prefix) as usize;
    if len > MAX_MESSAGE {
        return Err(postcard::Error::DeserializeBadEncoding);
    }
    let Some(body) = rest.get(..len) else {
        return Ok(None);
    };
    let message = postcard::from_bytes(body)?;
    buffer.drain(..4 + len);
    Ok(Some(message))
}

/// What the first message of a buffer begins with, when it is there: of what may come from another version of gwp-race, the version of its form.
#[must_use]
pub fn beginning<T: DeserializeOwned>(buffer: &[u8]) -> Option<T> {
    let (_, body) = buffer.split_first_chunk::<4>()?;
    let (beginning, _) = postcard::take_from_bytes(body).ok()?;
    Some(beginning)
}

/// Messages on their way to a daemon that may be slow or stopped: the tracer never waits for it.
#[derive(Debug)]
pub struct Outbox {
    socket: UnixStream,
    pending: Vec<u8>,
    dropped: u64,
    warnings: u32,
}

impl Outbox {
    /// More than this is not kept for a daemon that does not read.
    const LIMIT: usize = 16 << 20;
    /// So many warnings are told, and that there were more.
    const WARNINGS: u32 = 20;

    /// Takes over a non-blocking socket.
    #[must_use]
    pub const fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            pending: Vec::new(),
            dropped: 0,
            warnings: 0,
        }
    }

    /// Whether so many bytes leave room for messages that matter more than they do.
    #[must_use]
    pub const fn has_room(&self, bytes: usize) -> bool {
        self.pending.len() + bytes <= Self::LIMIT / 2
    }

    /// Sends as much as goes without waiting; false where the message had to be dropped.
    pub fn send(&mut self, notice: &Notice) -> bool {
        let is_kept = match encode(notice) {
            Ok(frame) if self.pending.len() + frame.len() <= Self::LIMIT => {
                self.pending.extend_from_slice(&frame);
                true
            }
            _ => false,
        };
        self.dropped += u64::from(!is_kept);
        self.flush();
        is_kept
    }

    /// Warns of something, unless that was done so often that it would fill a log: a program can have any number of files
    /// that cannot be read.
    pub fn warn(&mut self, text: String) {
        self.warnings = self.warnings.saturating_add(1);
        if self.warnings == Self::WARNINGS {
            let more = "further warnings of this process are told with -vv only";
            self.send(&Notice::Warning(more.to_owned()));
        }
        self.send(&if self.warnings < Self::WARNINGS {
            Notice::Warning(text)
        } else {
            Notice::Debug(text)
        });
    }

    /// Sends more of what is pending.
    pub fn flush(&mut self) {
        while !self.pending.is_empty() {
            match self.socket.write(&self.pending) {
                Ok(0) | Err(_) => break,
                Ok(sent) => drop(self.pending.drain(..sent)),
            }
        }
    }

    /// Whether something is still pending.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Messages that were dropped.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests;
