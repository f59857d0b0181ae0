//! The processes below the started one: which of them are worth a tracer, and when.
//!
//! They are followed in the kernel ([`Descent`]), so that none is lost however fast its parent forks and ends; where that is not
//! permitted, `/proc` is searched. A process that executes a program is looked at as soon as it is told of, one that was only forked
//! when it has lived for a while. One without metadata may still load some, and is looked at again, ever more rarely. Whoever was worth
//! a tracer and got none is counted, with its name and the reason.
//!
//! What all this costs is bounded ([`Allowance`]), and what is known of a program is not asked again ([`Programs`]).

mod end;
mod looks;
mod news;
mod source;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use gwp_race_abi::descent::ExecutedFile;
use source::Source;

use super::allowance::Allowance;
use super::covered::CoveredFiles;
use super::not_watched::{Counts, NotWatched, Reason};
use super::programs::Programs;
use crate::kernel::executed::Executed;
use crate::kernel::process::thread_cpu_time_ns;
use crate::reader::HeaderReader;
use crate::tracee::threads::Stat;

/// The share of the budget of one processor that following may cost, and what may be spent before it is earned.
const FOLLOWING: f64 = 0.1;

const ADVANCE: Duration = Duration::from_millis(20);

/// A process that was only forked is looked at when it has lived so long: one that executes a program soon is
/// another one then, and one that ends sooner is not worth a tracer.
const FORKED_AGE: Duration = Duration::from_millis(5);

/// When one without metadata is looked at again.
const LOOKS: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(10),
];

/// Where so many processes of a program had nothing mapped at their first looks, further ones are looked at as if they had been once
/// more; so often at most.
const LOOKS_IN_VAIN: usize = 4;

const MOST_SKIPPED: usize = 3;

/// After a turn the next one comes no sooner, and where more was spent than the allowance, no sooner than the longer time.
const LEAST_REST: Duration = Duration::from_millis(1);

const LONG_REST: Duration = Duration::from_millis(100);

/// What is known of a process.
#[derive(Clone, Debug)]
struct Relative {
    /// What it executes, where that is known.
    program: Option<ExecutedFile>,
    /// How that is called.
    name: String,
    /// Whether it has metadata mapped, once it was looked at.
    covered: Option<bool>,
    is_watched: bool,
    /// It executes that by itself, and was not only forked.
    executes: bool,
    since: Instant,
    /// Why it has no tracer, as of the last try.
    reason: Reason,
    /// When it was started, as it was looked at; in clock ticks after boot.
    start_ticks: Option<u64>,
    /// Looks that found no metadata.
    looks: usize,
    due: Option<Instant>,
}

/// A process that is about to get a tracer.
#[derive(Clone, Debug)]
pub struct Start {
    /// What it executes is called so.
    pub name: String,
    /// When it was started, in clock ticks after boot; `None` where that is not known.
    pub start_ticks: Option<u64>,
    /// When it was told that it was forked, or executes what it does.
    pub since: Instant,
    program: Option<ExecutedFile>,
    executes: bool,
}

/// See the module.
pub struct Descendants {
    source: Source,
    files: CoveredFiles,
    programs: Programs,
    /// Nothing is covered, and everything is to be watched.
    takes_all: bool,
    /// The first one.
    first: u32,
    relatives: HashMap<u32, Relative>,
    agenda: BTreeSet<(Instant, u32)>,
    worthy: VecDeque<u32>,
    /// Those that wait until a tracer is ready.
    waiting: VecDeque<u32>,
    /// Those about whose files somebody was asked who has not answered yet.
    wait_for_answers: Vec<u32>,
    /// Programs with processes that have ended, about which somebody was asked.
    unanswered: Vec<ExecutedFile>,
    allowance: Allowance,
    /// CPU time of this thread that was spent of it, or before.
    charged_ns: u64,
    rest_until: Instant,
    not_watched: NotWatched,
}

impl Descendants {
    /// Follows nobody yet. `max_overhead`: the budget, a part of which this may spend. `takes_all`: those without metadata are worth a
    /// tracer, too. `reader`: who reads headers of files.
    #[must_use]
    pub fn new(max_overhead: f64, takes_all: bool, reader: HeaderReader) -> Self {
        let now = Instant::now();
        Self {
            source: Source::new(),
            files: CoveredFiles::everywhere(reader),
            programs: Programs::default(),
            takes_all,
            first: 0,
            relatives: HashMap::new(),
            agenda: BTreeSet::new(),
            worthy: VecDeque::new(),
            waiting: VecDeque::new(),
            wait_for_answers: Vec::new(),
            unanswered: Vec::new(),
            allowance: Allowance::new(FOLLOWING * max_overhead, ADVANCE, now),
            charged_ns: thread_cpu_time_ns(),
            rest_until: now,
            not_watched: NotWatched::default(),
        }
    }

    /// Why processes that live shortly may be missed and not counted, where nobody may follow them in the kernel.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        self.source.refusal()
    }

    /// Follows the first process, which is watched already.
    pub fn follow(&mut self, pid: u32) {
        if std::mem::replace(&mut self.first, pid) == pid {
            return;
        }
        let mut relative = Relative::new(comm(pid), None, Instant::now());
        relative.is_watched = true;
        if let Some(executed) = Executed::by(pid) {
            self.executes(&mut relative, executed);
        }
        self.relatives.insert(pid, relative);
        self.source.follow(pid);
    }

    /// Takes note of what a process executes.
    fn executes(&mut self, relative: &mut Relative, executed: Executed) {
        let file = self.programs.met(executed, &relative.name);
        relative.program = Some(file);
        if let Some(name) = self.programs.name(file) {
            name.clone_into(&mut relative.name);
        }
    }

    /// Whether a program with metadata was executed below the first one, watched or not.
    #[must_use]
    pub fn have_metadata(&self) -> bool {
        self.programs.have_metadata()
    }

    /// Waits for a process that is worth a tracer and has none; nothing where something else has changed. May be given up at any
    /// time.
    pub async fn next(&mut self) -> Option<u32> {
        while let Some(pid) = self.worthy.pop_front() {
            if self
                .relatives
                .get(&pid)
                .is_some_and(|relative| !relative.is_watched && relative.covered == Some(true))
            {
                return Some(pid);
            }
        }
        tokio::time::sleep_until(self.rest_until.into()).await;
        let due = self.agenda.first().map(|&(due, _)| due);
        tokio::select! {
            () = self.source.wait(due) => {}
            () = self.files.answered() => {}
        }
        self.turn(Instant::now());
        None
    }

    /// Takes in what was told, and looks at whom it is time to. What was told is always taken in, and one process looked at; more
    /// as long as the allowance lasts.
    fn turn(&mut self, now: Instant) {
        self.take_in_all(now);
        if self.files.take_news() {
            self.look_again(now);
        }
        let mut may_look = true;
        while may_look {
            if let Some(file) = self.programs.next_unknown() {
                self.count_ended(file);
            } else if let Some(&(due, pid)) = self.agenda.first()
                && due <= now
            {
                self.agenda.pop_first();
                self.look_at(pid, now);
            } else {
                break;
            }
            self.spend();
            may_look = self.allowance.has(now);
        }
        self.spend();
        let rest = if self.allowance.has(now) {
            LEAST_REST
        } else {
            LONG_REST
        };
        self.rest_until = now + rest;
    }

    /// Spends what this thread has worked since the last time: to be woken costs more than what there is to do then.
    fn spend(&mut self) {
        let used = thread_cpu_time_ns();
        let worked = used.saturating_sub(std::mem::replace(&mut self.charged_ns, used));
        let worked = Duration::from_nanos(worked) + self.files.take_cost();
        self.allowance.spend(worked);
    }

    /// Counts a process that was worth a tracer and got none.
    pub fn count(&mut self, name: &str, reason: Reason) {
        self.not_watched.count(name, reason, 1);
    }

    /// A process gets a tracer.
    pub fn begin(&mut self, pid: u32) -> Start {
        let relative = self.relatives.get_mut(&pid);
        relative.map_or_else(
            || Start {
                name: String::new(),
                start_ticks: None,
                since: Instant::now(),
                program: None,
                executes: false,
            },
            |relative| {
                relative.is_watched = true;
                Start {
                    name: relative.name.clone(),
                    start_ticks: relative.start_ticks,
                    since: relative.since,
                    program: relative.program,
                    executes: relative.executes,
                }
            },
        )
    }

    /// Whether a tracer was there before its process ended.
    pub fn traced(&mut self, start: &Start, in_time: bool) {
        if let Some(file) = start.program {
            self.programs
                .traced(file, start.executes, in_time, Instant::now());
        }
    }

    /// A process that is worth a tracer waits until one is ready. `reason`: why it has had none, should it end before.
    pub fn wait_for_tracer(&mut self, pid: u32, reason: Reason) {
        if let Some(relative) = self.relatives.get_mut(&pid) {
            relative.is_watched = false;
            relative.reason = reason;
            self.waiting.push_back(pid);
        }
    }

    /// A tracer is ready: those that wait for one are told of again.
    pub fn a_tracer_is_ready(&mut self) {
        self.worthy.append(&mut self.waiting);
    }

    /// A process has got no tracer, or not for long, and is tried again after this time.
    pub fn try_again(&mut self, pid: u32, reason: Reason, after: Duration) {
        if let Some(relative) = self.relatives.get_mut(&pid) {
            relative.is_watched = false;
            relative.reason = reason;
            self.put_on_agenda(pid, Instant::now() + after);
        }
    }

    /// Whether somebody lives who is, or may be, worth a tracer, and has none.
    #[must_use]
    pub fn has_prospects(&self) -> bool {
        self.relatives
            .values()
            .any(|relative| !relative.is_watched && relative.covered != Some(false))
    }

    /// Who was not watched.
    #[must_use]
    pub fn into_not_watched(self) -> Counts {
        self.not_watched.into_counts()
    }
}

impl Relative {
    const fn new(name: String, covered: Option<bool>, since: Instant) -> Self {
        Self {
            program: None,
            name,
            covered,
            is_watched: false,
            executes: false,
            since,
            reason: Reason::EndedEarly,
            start_ticks: None,
            looks: 0,
            due: None,
        }
    }
}

/// When a process was started: with its id, tells it from a later one that got the same id.
pub fn start_ticks(pid: u32) -> Option<u64> {
    Stat::read(as_pid(pid), as_pid(pid))
        .ok()
        .map(|stat| stat.start_ticks)
}

/// The kernel's name of a process, empty where it has ended.
fn comm(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

pub const fn as_pid(pid: u32) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(pid.cast_signed())
}

#[cfg(test)]
mod tests;
