//! The processes below the started one: which of them are worth a tracer, and when.
//!
//! They are followed in the kernel ([`Descent`]), so that none is lost however fast its parent forks and ends; where that is not
//! permitted, `/proc` is searched. A process that executes a program is looked at as soon as it is told of, one that was only forked
//! when it has lived for a while. One without metadata may still load some, and is looked at again, ever more rarely. Whoever was worth
//! a tracer and got none is counted, with its name and the reason.
//!
//! What all this costs is bounded ([`Allowance`]), and what is known of a program is not asked again ([`Programs`]).

mod source;

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use tracing::debug;

use gwp_race_abi::descent::ExecutedFile;

use source::Source;

use super::{
    allowance::Allowance,
    covered::CoveredFiles,
    not_watched::{Counts, NotWatched, Reason},
    programs::{Carries, Programs},
};
use crate::{
    kernel::{descent::News, executed::Executed, process::thread_cpu_time_ns},
    tracee::{process, threads::Stat},
};

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
    allowance: Allowance,
    /// CPU time of this thread that was spent of it, or before.
    charged_ns: u64,
    rest_until: Instant,
    not_watched: NotWatched,
}

impl Descendants {
    /// Follows nobody yet. `max_overhead`: the budget, a part of which this may spend. `takes_all`: those without metadata are worth a
    /// tracer, too.
    #[must_use]
    pub fn new(max_overhead: f64, takes_all: bool) -> Self {
        let now = Instant::now();
        Self {
            source: Source::new(),
            files: CoveredFiles::default(),
            programs: Programs::default(),
            takes_all,
            first: 0,
            relatives: HashMap::new(),
            agenda: BTreeSet::new(),
            worthy: VecDeque::new(),
            waiting: VecDeque::new(),
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
        self.source.wait(due).await;
        self.turn(Instant::now());
        None
    }

    /// Takes in what was told, and looks at whom it is time to. What was told is always taken in, and one process looked at; more
    /// as long as the allowance lasts.
    fn turn(&mut self, now: Instant) {
        self.take_in_all(now);
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
        self.allowance.spend(Duration::from_nanos(worked));
    }

    /// Takes in what was told.
    fn take_in_all(&mut self, now: Instant) {
        let told = self.source.told(now);
        self.not_watched.count("", Reason::Untold, told.lost);
        if let Some(followed) = told.followed {
            self.catch_up(&followed, now);
        }
        for news in told.news {
            self.take_in(news, now);
        }
    }

    /// Takes in who is there, after something was not told of.
    fn catch_up(&mut self, followed: &HashSet<u32>, now: Instant) {
        let ended: Vec<u32> = self
            .relatives
            .keys()
            .copied()
            .filter(|pid| !followed.contains(pid))
            .collect();
        for pid in ended {
            self.has_ended(pid);
        }
        let new = followed
            .iter()
            .filter(|pid| !self.relatives.contains_key(pid));
        for pid in new.copied().collect::<Vec<_>>() {
            let relative = Relative::new(comm(pid), None, now);
            self.relatives.insert(pid, relative);
            self.put_on_agenda(pid, now);
        }
    }

    fn take_in(&mut self, news: News, now: Instant) {
        match news {
            News::Forked { pid, parent } => {
                let mut relative = Relative::new(String::new(), None, now);
                if let Some(parent) = self.relatives.get(&parent) {
                    relative.name.clone_from(&parent.name);
                    relative.program = parent.program;
                    // Where it does not execute what is covered: what it will, or has mapped since, is not known.
                    relative.covered = parent.covered.filter(|&covered| covered);
                }
                let age = self.least_life(&relative).max(FORKED_AGE);
                self.relatives.insert(pid, relative);
                self.put_on_agenda(pid, now + age);
            }
            News::Executes {
                pid,
                name,
                executed,
            } => {
                let mut relative = Relative::new(name, None, now);
                relative.executes = true;
                if let Some(executed) = executed {
                    self.executes(&mut relative, executed);
                }
                let age = match relative.program.map(|file| self.programs.carries(file)) {
                    Some(Carries::No) if !self.takes_all => self.next_look(&relative),
                    _ => self.least_life(&relative),
                };
                if let Some(before) = self.relatives.get(&pid) {
                    relative.is_watched = before.is_watched;
                    relative.due = before.due;
                }
                let is_watched = relative.is_watched;
                self.relatives.insert(pid, relative);
                if !is_watched {
                    self.put_on_agenda(pid, now + age);
                }
            }
            News::Ended { pid } => self.has_ended(pid),
        }
        let forgotten = self.programs.take_forgotten();
        self.not_watched.count("", Reason::Unidentified, forgotten);
    }

    /// How long a process must have lived to be worth a tracer.
    fn least_life(&self, relative: &Relative) -> Duration {
        relative.program.map_or(Duration::ZERO, |file| {
            self.programs
                .least_life(file, relative.executes, Instant::now())
        })
    }

    /// After how long a process without metadata is looked at again: where others have shown that it is in vain, later.
    fn next_look(&self, relative: &Relative) -> Duration {
        let without = relative.program.map_or(0, |file| {
            (self.programs.without(file) / LOOKS_IN_VAIN).min(MOST_SKIPPED)
        });
        let looks = LOOKS.get(relative.looks + without).or(LOOKS.last());
        looks.copied().unwrap_or_default()
    }

    fn has_ended(&mut self, pid: u32) {
        let Some(relative) = self.relatives.remove(&pid) else {
            return;
        };
        if let Some(due) = relative.due {
            self.agenda.remove(&(due, pid));
        }
        if relative.is_watched {
            return;
        }
        let carries = relative.program.map(|file| self.programs.carries(file));
        match (relative.program, carries) {
            (Some(file), Some(Carries::Unknown)) => self.programs.ended(file),
            (_, Some(Carries::Hidden)) => {
                let reason = if relative.covered == Some(true) {
                    relative.reason
                } else {
                    Reason::Unidentified
                };
                if relative.covered != Some(false) {
                    self.not_watched.count(&relative.name, reason, 1);
                }
            }
            (file, _) => {
                let is_covered = file.is_some_and(|file| self.programs.is_covered(file));
                if relative.covered.unwrap_or(is_covered) {
                    self.not_watched.count(&relative.name, relative.reason, 1);
                } else if file.is_none() && relative.covered.is_none() && relative.executes {
                    debug!(
                        "a program ended before it was looked at: {} (process {pid})",
                        relative.name
                    );
                }
            }
        }
    }

    /// Counts those that ended before anything was known of a program, if they were worth a tracer.
    fn count_ended(&mut self, file: ExecutedFile) {
        let others = [self.first, std::process::id()];
        let carries = self.programs.identify(file, None, &others, &mut self.files);
        let times = self.programs.take_ended(file);
        let name = self.programs.name(file).unwrap_or_default();
        match carries {
            Carries::Yes => self.not_watched.count(name, Reason::EndedEarly, times),
            Carries::Hidden => self.not_watched.count(name, Reason::Unidentified, times),
            Carries::No | Carries::Unknown => {}
        }
    }

    /// Counts a process that was worth a tracer and got none.
    pub fn count(&mut self, name: &str, reason: Reason) {
        self.not_watched.count(name, reason, 1);
    }

    fn put_on_agenda(&mut self, pid: u32, at: Instant) {
        if let Some(relative) = self.relatives.get_mut(&pid) {
            if let Some(before) = relative.due.replace(at) {
                self.agenda.remove(&(before, pid));
            }
            self.agenda.insert((at, pid));
        }
    }

    /// Whether it is worth a tracer.
    fn look_at(&mut self, pid: u32, now: Instant) {
        let Some(mut relative) = self.relatives.get(&pid).cloned() else {
            return;
        };
        relative.due = None;
        if !relative.is_watched {
            // That it has ended is about to be told, or was lost.
            if process::live_thread(as_pid(pid)).is_err() {
                self.has_ended(pid);
                return;
            }
            // Before anything else: what is found out may be about another one, which has got its id.
            relative.start_ticks = start_ticks(pid);
            self.judge(pid, &mut relative, now);
        }
        let due = relative.due;
        self.relatives.insert(pid, relative);
        if let Some(due) = due {
            self.agenda.insert((due, pid));
        }
    }

    fn judge(&mut self, pid: u32, relative: &mut Relative, now: Instant) {
        if relative.name.is_empty() {
            relative.name = comm(pid);
        }
        if relative.program.is_none()
            && let Some(executed) = Executed::by(pid)
        {
            self.executes(relative, executed);
        }
        // What was forked has mapped what its parent has.
        let inherits = relative.program.is_some_and(|file| {
            let is_covered =
                relative.covered == Some(true) || self.programs.carries(file) == Carries::Yes;
            is_covered && !relative.executes && self.programs.is_executed_by(file, pid)
        });
        if inherits {
            relative.covered = Some(true);
            self.is_worthy(pid, relative, now);
            return;
        }
        let carries = relative.program.map_or(Carries::Hidden, |file| {
            let others = [self.first, std::process::id()];
            self.programs
                .identify(file, Some(pid), &others, &mut self.files)
        });
        // What it will load is not mapped yet when it begins.
        let begins = relative.executes
            && relative.looks == 0
            && carries == Carries::No
            && now.saturating_duration_since(relative.since) < LOOKS[0];
        if begins && !self.takes_all {
            relative.due = Some(relative.since + self.next_look(relative));
            return;
        }
        let is_covered = self.takes_all || carries == Carries::Yes || self.files.are_in(pid);
        // It may execute another program by now, which is about to be told.
        if let Some(file) = relative.program
            && carries != Carries::Yes
            && !self.programs.is_executed_by(file, pid)
        {
            relative.due = Some(now + LOOKS[0]);
            return;
        }
        relative.covered = Some(is_covered);
        if let Some(file) = relative.program {
            self.programs.learn(file, is_covered, relative.looks == 0);
        }
        if is_covered {
            if relative.looks > 0 {
                self.source.tell_forks(pid, true);
            }
            self.is_worthy(pid, relative, now);
            return;
        }
        relative.due = Some(now + self.next_look(relative));
        relative.looks += 1;
        if relative.looks == 1 {
            self.source.tell_forks(pid, false);
        }
    }

    /// A process is worth a tracer, as soon as it has lived long enough.
    fn is_worthy(&mut self, pid: u32, relative: &mut Relative, now: Instant) {
        let least = relative.since + self.least_life(relative);
        if now < least {
            relative.due = Some(least);
        } else {
            self.worthy.push_back(pid);
        }
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

    /// Follows nobody any more, and counts those that still wait to be watched. Whose tracers have not begun are counted yet.
    pub fn finish(&mut self) {
        let now = Instant::now();
        self.take_in_all(now);
        while let Some(file) = self.programs.next_unknown() {
            self.count_ended(file);
        }
        for (_, relative) in self.relatives.drain() {
            let program = relative.program;
            let is_covered = program.is_some_and(|file| self.programs.is_covered(file));
            if !relative.is_watched && relative.covered.unwrap_or(is_covered) {
                self.not_watched.count(&relative.name, relative.reason, 1);
            }
        }
        self.agenda.clear();
        self.waiting.clear();
        self.source.end();
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

const fn as_pid(pid: u32) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(pid.cast_signed())
}

#[cfg(test)]
mod tests;
