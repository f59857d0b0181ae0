//! The processes of a machine that are to be watched, as they come and go: told by the kernel when they execute a program, and found in `/proc` from
//! time to time, which also finds what was lost, was forked only, or has loaded code with metadata later.
//!
//! A process is held by a descriptor and the time at which it was started, so that none is taken for another one that has got its id. Looks at them are made by a thread of
//! their own: nothing that is done here waits for others.

mod answers;
mod looks;

use std::{
    collections::{HashMap, HashSet, VecDeque, hash_map::Entry},
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use tokio::io::unix::AsyncFd;
use tracing::warn;

use super::survey::{Found, started};
use crate::{
    cli::allowance::Allowance,
    fleet::{
        process::Kind,
        rule::Rules,
        verdict::{Code, Reason},
    },
    kernel::{
        KernelError,
        discovery::{Discovery as Kernel, News, Status},
        executed::Executed,
        limits::{explained, is_shortage},
    },
    reader::HeaderReader,
};
use looks::Looks;

/// How often all processes are looked for.
pub const RECONCILE: Duration = Duration::from_secs(60);
/// After something was lost that is done sooner, but no sooner than this after the last time.
const CATCH_UP: Duration = Duration::from_secs(5);
/// One without metadata may load some: it is looked at again after this, then after twice as long each time, up to the longest.
const FIRST_LOOK: Duration = Duration::from_secs(60);
const LAST_LOOK: Duration = Duration::from_secs(3600);
/// The share of one processor that looking at processes may cost, and what may be spent before it is earned: by the first look at all. Anybody can have programs looked at, by executing
/// new ones; so what a file costs that has its reader ended, or waited for, is a part of it.
const LOOKING: f64 = 0.005;
const ADVANCE: Duration = Duration::from_secs(5);
/// So many processes wait to be looked at, at most. Others are found by the next look at all.
const MOST_DUE: usize = 1 << 16;

/// What has changed.
#[derive(Debug)]
pub enum Change {
    /// A process is to be watched.
    Began(Box<Found>),
    /// One that was to be watched has ended, or executes another program.
    Ended {
        /// The process.
        pid: u32,
        /// How it has ended, where that was told.
        status: Option<Status>,
    },
}

/// One that is to be watched.
struct Held {
    start_ticks: u64,
    /// What it executes: device and inode.
    program: (u64, u64),
    /// Readable when it has ended.
    _end: OwnedFd,
}

/// One that is left alone.
struct Left {
    start_ticks: u64,
    /// When it is looked at again, and after how long then.
    next: Instant,
    after: Duration,
}

/// See the module.
pub struct Discovery {
    /// Nothing where programs may not be loaded: `/proc` tells all then.
    kernel: Option<Kernel>,
    /// Why not.
    refusal: Option<String>,
    looks: Looks,
    held: HashMap<u32, Held>,
    left: HashMap<u32, Left>,
    /// Those that are to be looked at, in their order.
    agenda: VecDeque<u32>,
    /// The same, each with what it was told to execute.
    due: HashMap<u32, Option<Executed>>,
    /// What pays for that.
    allowance: Allowance,
    reconciled: Option<Instant>,
    /// When those that are held began to be judged again, and who of them still is to be.
    judged: Option<Instant>,
    to_judge: VecDeque<u32>,
    was_lost: bool,
    /// Descriptors or memory had run out when all were looked for last.
    was_short: bool,
}

impl Discovery {
    /// By these rules. `reader`: makes one for each thread that looks. Knows nobody yet; the first turn finds who is there.
    #[must_use]
    pub fn new(rules: Rules, reader: fn() -> HeaderReader) -> Self {
        let (kernel, refusal) = match Kernel::load() {
            Ok(kernel) => (Some(kernel), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            kernel,
            refusal,
            looks: Looks::new(rules, reader),
            held: HashMap::new(),
            left: HashMap::new(),
            agenda: VecDeque::new(),
            due: HashMap::new(),
            allowance: Allowance::new(LOOKING, ADVANCE, Instant::now()),
            reconciled: None,
            judged: None,
            to_judge: VecDeque::new(),
            was_lost: false,
            was_short: false,
        }
    }

    /// Why `/proc` alone tells, where it does: processes that live shortly are missed then.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Readable when something was told; nothing where nobody tells.
    ///
    /// # Errors
    /// There is no room for another descriptor.
    pub fn news(&self) -> Result<Option<AsyncFd<OwnedFd>>, KernelError> {
        self.kernel.as_ref().map(Kernel::awaited).transpose()
    }

    /// Waits until something has come of looks. May be given up at any time.
    pub async fn looked(&mut self) {
        self.looks.answered().await;
    }

    /// Takes in what was told and what has come of looks, and looks for what was not told, when it is time to. Who is new is looked at as soon as that is paid for.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn turn(&mut self, now: Instant) -> io::Result<Vec<Change>> {
        let mut changes = Vec::new();
        let told: Vec<_> = match &mut self.kernel {
            Some(kernel) => {
                let told = std::iter::from_fn(|| kernel.next_news()).collect();
                self.was_lost |= kernel.lost() > 0;
                told
            }
            None => Vec::new(),
        };
        for news in told {
            match news {
                News::Executes { pid, executed } => {
                    self.looks.forget(pid);
                    self.release(pid, None, &mut changes);
                    self.left.remove(&pid);
                    self.put_on_agenda(pid, executed);
                }
                News::Ended { pid, status } => {
                    self.looks.forget(pid);
                    self.left.remove(&pid);
                    self.release(pid, Some(status), &mut changes);
                }
            }
        }
        self.take_answers(now, &mut changes);
        self.leave_hung(&mut changes);
        let wait = if self.was_lost { CATCH_UP } else { RECONCILE };
        let since = self.reconciled.map(|at| now.saturating_duration_since(at));
        if since.is_none_or(|since| since >= wait) {
            self.reconciled = Some(now);
            match self.reconcile(now, &mut changes) {
                Ok(()) => (self.was_lost, self.was_short) = (false, false),
                Err(error) if is_shortage(&error) => self.is_short(&error),
                Err(error) => return Err(error),
            }
        }
        self.ask(now);
        Ok(changes)
    }

    /// CPU time of the processes that read headers of files for it.
    #[must_use]
    pub const fn cpu_of_readers(&self) -> Duration {
        self.looks.cpu_of_readers()
    }

    /// Who is to be watched, by their ids.
    pub fn held(&self) -> impl Iterator<Item = u32> {
        self.held.keys().copied()
    }

    /// All are looked for again soon; said once.
    fn is_short(&mut self, error: &io::Error) {
        self.was_lost = true;
        if !std::mem::replace(&mut self.was_short, true) {
            warn!(
                "processes cannot be looked for, which is tried again each {}: {}",
                humantime::format_duration(CATCH_UP),
                explained(error)
            );
        }
    }

    /// Compares who is known with who is there.
    fn reconcile(&mut self, now: Instant, changes: &mut Vec<Change>) -> io::Result<()> {
        let all = started()?;
        let is_same = |pid: &u32, start_ticks: u64| all.get(pid) == Some(&start_ticks);
        let held = self.held.iter();
        let gone: HashSet<u32> = held
            .filter(|(pid, held)| !is_same(pid, held.start_ticks))
            .map(|(&pid, _)| pid)
            .collect();
        for pid in gone {
            // Its end was not told.
            if let Some(kernel) = &mut self.kernel {
                kernel.forget(pid);
            }
            self.looks.forget(pid);
            self.release(pid, None, changes);
        }
        let since = self.judged.map(|at| now.saturating_duration_since(at));
        if since.is_none_or(|since| since >= RECONCILE) {
            // That one has executed another program may not have been told, and rules may say something else of the user, name or control group that it has by now.
            self.to_judge = self.held.keys().copied().collect();
            self.judged = Some(now);
        }
        self.left.retain(|pid, left| is_same(pid, left.start_ticks));
        for &pid in all.keys() {
            let is_due = self.left.get(&pid).is_none_or(|left| left.next <= now);
            if is_due && !self.held.contains_key(&pid) {
                self.put_on_agenda(pid, None);
            }
        }
        Ok(())
    }

    /// A process is to be looked at. `executed`: what it was told to execute, if it was.
    fn put_on_agenda(&mut self, pid: u32, executed: Option<Executed>) {
        match self.due.entry(pid) {
            Entry::Occupied(mut entry) if executed.is_some() => drop(entry.insert(executed)),
            Entry::Vacant(entry) if self.agenda.len() < MOST_DUE => {
                entry.insert(executed);
                self.agenda.push_back(pid);
            }
            Entry::Occupied(_) | Entry::Vacant(_) => {}
        }
    }

    fn release(&mut self, pid: u32, status: Option<Status>, changes: &mut Vec<Change>) {
        if self.held.remove(&pid).is_some() {
            changes.push(Change::Ended { pid, status });
        }
    }
}

/// Whether a process is left alone by reason of its file: others that execute it need not be looked at.
fn is_dull(found: &Found) -> bool {
    let by_code = Reason::Code(Code::Uncovered);
    matches!(found.kind, Kind::Program(_)) && found.verdict.reason == by_code
}

#[cfg(test)]
mod tests;
