//! A session: the tracers of one program and its children, their findings, the summary.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use anyhow::bail;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::pauses::Pauses;
use super::{
    args::{Mixed, StrategyName, Unanalyzed, WatchArgs, YesNo},
    doctor::setcap,
    link::{Link, Message},
    reporter::{Explained, Reporter, Tally},
};
use crate::{
    hunt::watchdog::RELEASED,
    hunt::wire::{Ending, Notice, Setup, Statistics},
    kernel::process::nanos,
    report::Summary,
    target::threads::Stat,
};

/// A forked child that lives shorter than this is not worth a tracer.
const CHILD_AGE: Duration = Duration::from_millis(20);
/// Processes watched at the same time.
const MAX_TRACERS: usize = 64;
/// What is said of a tracer that has not said anything itself.
fn tracer_died(code: Option<i32>) -> String {
    let how = match code {
        Some(code @ 129..) => format!("by signal {}", code - 128),
        Some(code) => format!("with exit code {code}"),
        None => "with its watchdog".to_owned(),
    };
    format!(
        "the tracer has died ({how}), and so released the process; if memory has run out, free \
         some, or raise the limit (ulimit -v)"
    )
}
/// How long a tracer may take to disarm when told to stop.
const STOP_TIME: Duration = Duration::from_secs(5);

/// What a session tells its command.
#[derive(Debug, PartialEq)]
pub enum Happening {
    /// The first process is held and may exec.
    Seized,
    /// A race was reported.
    Race(u64),
    /// The tracer of the first process failed before it watched anything.
    Failed(String),
    /// Nothing is watched any more.
    AllEnded,
}

/// A process to be watched, if it is still the same.
struct Later {
    pid: u32,
    start_ticks: u64,
}

/// See the module.
pub struct Session {
    args: WatchArgs,
    first: u32,
    started: Instant,
    reporter: Reporter,
    links: HashMap<u32, Link>,
    /// Latest statistics of the tracers that run.
    current: HashMap<u32, Statistics>,
    /// Sums of those that have ended.
    past: Vec<Statistics>,
    watching: HashSet<u32>,
    /// Processes whose tracers have said why they end.
    farewells: HashSet<u32>,
    pauses: HashMap<u32, Pauses>,
    /// Processes that are let alone at present.
    paused: HashSet<u32>,
    later_sender: mpsc::UnboundedSender<Later>,
    later: mpsc::UnboundedReceiver<Later>,
    message_sender: mpsc::Sender<(u32, Message)>,
    messages: mpsc::Receiver<(u32, Message)>,
    found: mpsc::UnboundedReceiver<Explained>,
    stopping: bool,
    /// When watching ended.
    stopped: Option<Instant>,
    skipped_children: u64,
    /// Times that the watchdog released a process.
    releases: u64,
    /// Races that could not be explained, because too many waited for it.
    dropped: u64,
    seed: u64,
    /// The user was told that there are no gates.
    gates_are_missing: bool,
    /// Several processes are watched.
    has_company: bool,
}

impl Session {
    /// A session for a process, without a tracer yet.
    ///
    /// # Errors
    /// Fails when the output or the suppressions cannot be opened.
    pub fn new(args: &WatchArgs, first: u32) -> anyhow::Result<Self> {
        if args.coverage.is_some() && args.strategy == StrategyName::Clock {
            bail!(
                "--coverage tells of access sites, and --strategy clock knows none; leave one of the \
                 two out"
            );
        }
        let (found_sender, found) = mpsc::unbounded_channel();
        let (message_sender, messages) = mpsc::channel(256);
        let (later_sender, later) = mpsc::unbounded_channel();
        let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
        info!("seed {seed}");
        Ok(Self {
            reporter: Reporter::start(args, found_sender)?,
            args: args.clone(),
            first,
            started: Instant::now(),
            links: HashMap::new(),
            current: HashMap::new(),
            past: Vec::new(),
            watching: HashSet::new(),
            farewells: HashSet::new(),
            pauses: HashMap::new(),
            paused: HashSet::new(),
            later_sender,
            later,
            message_sender,
            messages,
            found,
            stopping: false,
            stopped: None,
            skipped_children: 0,
            releases: 0,
            dropped: 0,
            seed,
            gates_are_missing: false,
            has_company: false,
        })
    }

    /// Sets the first process: its launcher may be started after the output was opened.
    pub fn set_first(&mut self, pid: u32) {
        self.first = pid;
    }

    /// Starts the tracer of a process.
    ///
    /// # Errors
    /// Fails when it cannot be started.
    pub fn watch(&mut self, pid: u32, launch: bool) -> anyhow::Result<()> {
        let setup = Setup {
            pid,
            launch,
            is_child: pid != self.first,
            sample_period_ns: self.args.sample_period.map(nanos),
            stall_ns: nanos(self.args.stall),
            stop_deadline_ns: nanos(self.args.stop_deadline),
            strategy: self.args.strategy.into(),
            learns: self.args.strategy != StrategyName::PlainClock,
            max_overhead: self.args.max_overhead,
            seed: self.seed.wrapping_add(self.past.len() as u64),
            report_mixed: self.args.mixed == Mixed::Report,
            report_unanalyzed: self.args.unanalyzed == Unanalyzed::Report,
            // A suppression may be about any frame, so each report needs its own stacks.
            full_repeats: self.args.suppressions.is_some(),
            gate_log: self.args.verbose >= 2,
            explain: self.args.verbose >= 1,
            coverage: self.args.coverage.is_some(),
        };
        let link = Link::start(&setup, self.message_sender.clone())?;
        self.links.insert(pid, link);
        self.tell_company();
        if let Some(link) = self.links.get_mut(&pid) {
            link.has_company(self.has_company);
        }
        Ok(())
    }

    /// Tells the tracers whether there are several, where that has changed.
    fn tell_company(&mut self) {
        let has = self.links.len() > 1;
        if std::mem::replace(&mut self.has_company, has) != has {
            self.links
                .values_mut()
                .for_each(|link| link.has_company(has));
        }
    }

    /// Waits for the next thing that the command must know of.
    pub async fn next(&mut self) -> Happening {
        loop {
            tokio::select! {
                Some((pid, message)) = self.messages.recv() => {
                    let happening = match message {
                        Message::Notice(notice) => self.on_notice(pid, *notice),
                        Message::Gone => self.on_gone(pid).await,
                    };
                    if let Some(happening) = happening {
                        return happening;
                    }
                }
                Some(later) = self.later.recv() => {
                    if let Some(happening) = self.watch_later(later) {
                        return happening;
                    }
                }
                Some(Explained { pid, cpu_ns, tally }) = self.found.recv() => {
                    if let Some(link) = self.links.get_mut(&pid) {
                        link.charge(cpu_ns);
                    }
                    return Happening::Race(tally.unique);
                }
            }
        }
    }

    fn on_notice(&mut self, pid: u32, notice: Notice) -> Option<Happening> {
        match notice {
            Notice::Seized => return Some(Happening::Seized),
            Notice::Watching { analyzed_modules } => {
                self.watching.insert(pid);
                if analyzed_modules > 0 {
                    info!("watching process {pid}: metadata in {analyzed_modules} modules");
                } else if pid == self.first {
                    warn!(
                        "nothing in process {pid} carries metadata, so no race can be found; \
                         compile it with clang -fexperimental-sanitize-metadata=atomics (see \
                         `gwp-race doctor {pid}`)"
                    );
                }
            }
            Notice::Modules(modules) => self.reporter.modules(pid, modules),
            Notice::Race(finding, maps) => {
                if !self.reporter.race(finding, maps) {
                    self.dropped += 1;
                    if let Some(link) = self.links.get_mut(&pid) {
                        link.tell_again();
                    }
                }
            }
            Notice::Repeat => self.reporter.repeat(),
            Notice::Forked(child) => {
                if self.args.follow_forks == YesNo::Yes {
                    self.soon(child, CHILD_AGE);
                }
            }
            Notice::WithoutGates(refusal) => self.warn_of_missing_gates(&refusal),
            Notice::Warning(text) => warn!("{text}"),
            Notice::Decision(text) => info!("{text}"),
            Notice::Coverage(functions) => self.reporter.coverage(pid, functions),
            Notice::Debug(text) => debug!("{text}"),
            Notice::Statistics(statistics) => drop(self.current.insert(pid, statistics)),
            Notice::Ended(ending, statistics) => {
                self.current.insert(pid, statistics);
                self.farewells.insert(pid);
                match ending {
                    Ending::FatalSignal(signal) => {
                        debug!("process {pid} was released before signal {signal}");
                        self.pause(pid);
                    }
                    // Its tracer was wrong about that.
                    Ending::TargetEnded if is_alive(pid) => self.pause(pid),
                    Ending::TargetEnded | Ending::Stopped => {}
                }
            }
            Notice::Failed(text) => {
                self.farewells.insert(pid);
                return self.on_failure(pid, text);
            }
        }
        None
    }

    /// The tracer of a process could not go on. One that was watched already is tried again later.
    fn on_failure(&mut self, pid: u32, text: String) -> Option<Happening> {
        if pid == self.first && !self.watching.contains(&pid) {
            return Some(Happening::Failed(text));
        }
        if self.stopping || !self.watching.contains(&pid) || !is_alive(pid) {
            debug!("process {pid} is not watched any more: {text}");
            return None;
        }
        warn!("process {pid} is let alone for a while: {text}");
        self.pause(pid);
        None
    }

    /// Whether a process was watched at any time.
    #[must_use]
    pub fn has_watched(&self, pid: u32) -> bool {
        self.watching.contains(&pid)
    }

    /// Said once: the tracers of children have the same rights.
    fn warn_of_missing_gates(&mut self, refusal: &str) {
        debug!("{refusal}");
        if !std::mem::replace(&mut self.gates_are_missing, true) {
            warn!(
                "eBPF is not permitted here: gwp-race does in user space what its gates would do in \
                 the kernel, by the clock strategy alone, and finds less at the same cost; for the gates, run it as root (sudo), \
                 or once: {}",
                setcap()
            );
        }
    }

    async fn on_gone(&mut self, pid: u32) -> Option<Happening> {
        let farewell = self.farewells.remove(&pid);
        let mut failure = None;
        if let Some(mut link) = self.links.remove(&pid) {
            self.tell_company();
            let ended = tokio::time::timeout(STOP_TIME, link.ended()).await;
            let code = match ended {
                Ok(code) => code,
                Err(_) => {
                    link.kill();
                    link.ended().await
                }
            };
            if code == Some(RELEASED) {
                self.releases += 1;
                info!(
                    "the watchdog has released process {pid}: its tracer held a thread for more \
                     than {}",
                    humantime::format_duration(self.args.stop_deadline)
                );
                self.pause(pid);
            } else if !farewell {
                failure = self.on_failure(pid, tracer_died(code));
            }
        }
        if let Some(statistics) = self.current.remove(&pid) {
            self.past.push(statistics);
        }
        failure.or_else(|| self.all_ended())
    }

    fn all_ended(&self) -> Option<Happening> {
        let ended = self.links.is_empty() && (self.stopping || self.paused.is_empty());
        ended.then_some(Happening::AllEnded)
    }

    /// Lets a process alone for a while: after a signal that might have crashed it, and after a release by
    /// the watchdog.
    fn pause(&mut self, pid: u32) {
        let now = Instant::now();
        let pauses = self.pauses.entry(pid).or_insert_with(|| Pauses::new(now));
        let wait = pauses.begin(now);
        if self.soon(pid, wait) {
            self.paused.insert(pid);
        }
    }

    /// Watches a process after some time; false when it has ended already.
    fn soon(&self, pid: u32, wait: Duration) -> bool {
        let Some(start_ticks) = start_ticks(pid) else {
            return false;
        };
        let sender = self.later_sender.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // The session may have ended meanwhile.
            let _ = sender.send(Later { pid, start_ticks });
        });
        true
    }

    fn watch_later(&mut self, later: Later) -> Option<Happening> {
        let pid = later.pid;
        let was_paused = self.paused.remove(&pid);
        let alive = is_alive(pid) && start_ticks(pid) == Some(later.start_ticks);
        if !alive && was_paused {
            return self.all_ended();
        }
        if self.stopping || !alive || self.links.contains_key(&pid) {
            return None;
        }
        if self.links.len() >= MAX_TRACERS {
            self.skipped_children += 1;
            return None;
        }
        if let Err(error) = self.watch(pid, false) {
            warn!("process {pid} is not watched: {error:#}");
        }
        None
    }

    /// Disarms and releases everything; what the tracers still say is taken in.
    pub async fn stop(&mut self) {
        self.stopping = true;
        self.stopped.get_or_insert_with(Instant::now);
        for link in self.links.values_mut() {
            link.stop();
        }
        let deadline = tokio::time::sleep(STOP_TIME);
        tokio::pin!(deadline);
        while !self.links.is_empty() {
            tokio::select! {
                Some((pid, message)) = self.messages.recv() => {
                    match message {
                        Message::Notice(notice) => {
                            if let Some(Happening::Failed(text)) = self.on_notice(pid, *notice) {
                                warn!("{text}");
                            }
                        }
                        Message::Gone => drop(self.on_gone(pid).await),
                    }
                }
                () = &mut deadline => {
                    for link in self.links.values_mut() {
                        link.kill();
                    }
                    self.links.clear();
                }
            }
        }
    }

    /// Writes the summary. Call [`Session::stop`] before.
    ///
    /// # Errors
    /// Fails when a report could not be written.
    pub fn finish(self) -> anyhow::Result<Tally> {
        let summary = self.summary();
        if self.skipped_children > 0 {
            warn!(
                "{} children were not watched: {MAX_TRACERS} processes at a time are the limit",
                self.skipped_children
            );
        }
        self.reporter.finish(summary)
    }

    fn summary(&self) -> Summary {
        let all = self.past.iter().chain(self.current.values());
        let mut summary = Summary {
            elapsed_s: self
                .stopped
                .unwrap_or_else(Instant::now)
                .duration_since(self.started)
                .as_secs_f64(),
            watchdog_releases: self.releases,
            dropped: self.dropped,
            ..Summary::default()
        };
        let (mut unanalyzed, mut cpu) = (0, 0.0);
        for statistics in all {
            let gate = |name: &str| statistics.gates.get(name).copied().unwrap_or(0);
            summary.samples += gate("samples");
            summary.stalls += statistics.stalls;
            summary.stalls_cut_short += statistics.stalls_cut_short;
            // Those of the stalled thread, of other processes, and after the end of a stall are no hits.
            summary.hits += gate("traps")
                .saturating_sub(gate("stale"))
                .saturating_sub(gate("same-thread"))
                .saturating_sub(gate("other-process"));
            for name in ["unanalyzed", "atomic-ignored", "overflow"] {
                add(&mut summary.hits_swallowed, name, gate(name));
            }
            let gates = statistics.gates.iter();
            for (name, count) in gates.filter(|(name, _)| name.starts_with("sample-")) {
                add(&mut summary.no_stall, name, *count);
            }
            for (reason, count) in &statistics.no_stall {
                add(&mut summary.no_stall, reason, *count);
            }
            for (reason, count) in &statistics.not_reported {
                add(&mut summary.hits_swallowed, reason, *count);
            }
            for (decision, count) in &statistics.decisions {
                add(&mut summary.decisions, decision, *count);
            }
            summary.site_waits += statistics.waits;
            summary.site_waits_met += gate("site-met");
            if let Some((known, sampled)) = statistics.coverage {
                *summary.sites_total.get_or_insert(0) += known;
                *summary.sites_sampled.get_or_insert(0) += sampled;
            }
            summary.watched_s += statistics.watched_s;
            summary.target_stopped_s += statistics.stopped_s;
            summary.dropped += statistics.dropped_messages;
            summary.unwatchable_threads += statistics.unwatchable_threads;
            summary.value_changed_unknown_origin += statistics.value_changed_unknown_origin;
            unanalyzed += gate("sample-unknown-module") + gate("sample-unanalyzed");
            for (what, seconds) in &statistics.spent_s {
                *summary.spent_s.entry(what.clone()).or_default() += seconds;
            }
            cpu += statistics.target_cpu_s;
            debug!("statistics: {statistics:?}");
        }
        summary.analyzed_percent = (summary.samples > 0)
            .then(|| 100.0 - 100.0 * unanalyzed as f64 / summary.samples as f64);
        summary.target_cpu_s = cpu;
        let spent: f64 = summary.spent_s.values().sum();
        summary.slowdown_percent = if cpu > 0.0 { 100.0 * spent / cpu } else { 0.0 };
        summary
    }
}

/// When a process was started: with its id, tells it from a later one that got the same id.
fn start_ticks(pid: u32) -> Option<u64> {
    let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
    Stat::read(pid, pid).ok().map(|stat| stat.start_ticks)
}

/// Whether a process has not ended: of one that is only waited for, no file is left.
fn is_alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/exe")).exists()
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    if count > 0 {
        *counts.entry(name.to_owned()).or_default() += count;
    }
}
