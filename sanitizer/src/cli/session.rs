//! A session: the tracers of one program and its children, their findings, the summary.

mod tracers;
mod warnings;

use std::{
    collections::HashMap,
    task::Poll,
    time::{Duration, Instant},
};

use anyhow::bail;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{Interval, MissedTickBehavior, interval},
};
use tracing::{debug, info, warn};

use super::pauses::Pauses;
use super::{
    args::{StrategyName, Unanalyzed, WatchArgs, YesNo},
    descendants::{Descendants, start_ticks},
    link::{Link, LinkId, Message},
    not_watched::Counts,
    reporter::{Closing, Explained, Fate, Reporter},
    spares::Spares,
    starts::Starts,
    told,
    totals::summarized,
    watched::Watched,
};
use crate::{
    hunt::wire::{Ending, Notice},
    kernel::process::thread_cpu_time_ns,
    report::Summary,
};

/// How often those are looked after that are ready and have no process.
const LOOK_AFTER_SPARES: Duration = Duration::from_secs(1);
/// How long races that were caught may take to be explained when watching has ended: gigabytes of debug information are read in less.
const LAST_EXPLANATIONS: Duration = Duration::from_secs(60);
/// How long a tracer may take to disarm when told to stop.
const STOP_TIME: Duration = Duration::from_secs(5);

/// What a session tells its command.
#[derive(Debug, PartialEq)]
pub enum Happening {
    /// The first process is held and may exec.
    Seized,
    /// A race was reported that was not reported before; so many were in all.
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
    /// The tracers, whether they have a process or not.
    links: HashMap<LinkId, Link>,
    next_link: LinkId,
    spares: Spares,
    spares_tick: Interval,
    /// Who is below the first process; nobody where children are not to be watched.
    descendants: Option<Descendants>,
    starts: Starts,
    not_watched: Counts,
    watched: Watched,
    first_was_watched: bool,
    /// The first process is a launcher that nobody holds yet.
    launches: bool,
    later_sender: mpsc::UnboundedSender<Later>,
    later: mpsc::UnboundedReceiver<Later>,
    message_sender: mpsc::Sender<(LinkId, Message)>,
    messages: mpsc::Receiver<(LinkId, Message)>,
    found: mpsc::UnboundedReceiver<Explained>,
    stopping: bool,
    /// When watching ended.
    stopped: Option<Instant>,
    /// Times that the watchdog released a process.
    releases: u64,
    /// Races that could not be explained, because too many waited for it.
    dropped: u64,
    seed: u64,
    /// The user was told that there are no gates.
    gates_are_missing: bool,
    /// The user was told that children may be missed.
    search_is_told: bool,
    /// Several processes are watched.
    has_company: bool,
    /// CPU time of this thread that is charged, ns; `None` before anything was watched.
    charged_ns: Option<u64>,
    /// Metadata was found in one of them.
    has_analyzed: bool,
    /// The user was told that there is none.
    no_metadata_is_told: bool,
}

impl Session {
    /// A session for a process, without a tracer yet; for `None` it is one that is yet to be started, whose
    /// output goes where ours does.
    ///
    /// # Errors
    /// Fails when the output or the suppressions cannot be opened.
    pub fn new(args: &WatchArgs, first: Option<u32>) -> anyhow::Result<Self> {
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
        let follows = args.follow_forks == YesNo::Yes;
        // Before anything is opened in the kernel that is to end with this process.
        let reporter = Reporter::start(args, first.is_none(), found_sender)?;
        let mut spares_tick = interval(LOOK_AFTER_SPARES);
        spares_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            descendants: follows.then(|| {
                Descendants::new(args.max_overhead, args.unanalyzed == Unanalyzed::Report)
            }),
            starts: Starts::new(
                args.max_overhead,
                std::thread::available_parallelism().map_or(1, usize::from),
                Instant::now(),
            ),
            not_watched: Counts::new(),
            reporter,
            args: args.clone(),
            first: first.unwrap_or_default(),
            started: Instant::now(),
            links: HashMap::new(),
            next_link: 0,
            spares: Spares::new(Instant::now()),
            spares_tick,
            watched: Watched::default(),
            first_was_watched: false,
            launches: false,
            later_sender,
            later,
            message_sender,
            messages,
            found,
            stopping: false,
            stopped: None,
            releases: 0,
            dropped: 0,
            seed,
            gates_are_missing: false,
            search_is_told: false,
            has_company: false,
            charged_ns: None,
            has_analyzed: false,
            no_metadata_is_told: false,
        })
    }

    /// Sets the first process: its launcher may be started after the output was opened.
    pub fn set_first(&mut self, pid: u32) {
        self.first = pid;
    }

    /// Waits for the next thing that the command must know of.
    pub async fn next(&mut self) -> Happening {
        loop {
            tokio::select! {
                Some((link, message)) = self.messages.recv() => {
                    let happening = match message {
                        Message::Notice(notice) => self.on_message(link, *notice),
                        Message::Gone => self.on_gone(link).await,
                    };
                    if let Some(happening) = happening {
                        return happening;
                    }
                }
                child = next_child(&mut self.descendants), if !self.stopping => {
                    match child {
                        Some(child) => self.take_in(child),
                        None if self.watched.len() == 0 => {
                            if let Some(happening) = self.all_ended() {
                                return happening;
                            }
                        }
                        None => {}
                    }
                }
                Some(later) = self.later.recv() => {
                    if let Some(happening) = self.watch_later(later) {
                        return happening;
                    }
                }
                _ = self.spares_tick.tick(), if self.spares.are_some() => {
                    self.look_after_spares();
                }
                Some(Explained { pid, cpu_ns, fate }) = self.found.recv() => {
                    if let Some(link) = self.link_of(pid) {
                        link.charge(cpu_ns);
                    }
                    match fate {
                        Fate::Reported(unique) => return Happening::Race(unique),
                        Fate::Refuted(refuted) => {
                            if let Some(link) = self.link_of(pid) {
                                link.refute(refuted);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    fn on_message(&mut self, link: LinkId, notice: Notice) -> Option<Happening> {
        match (notice, self.watched.of(link)) {
            (Notice::Ready { cpu_ns }, _) => self.on_ready(link, Duration::from_nanos(cpu_ns)),
            (notice, Some(pid)) => self.on_notice(pid, notice),
            (Notice::WithoutGates(refusal), None) => {
                self.warn_of_missing_gates(&refusal);
                None
            }
            (Notice::Failed(text), None) => {
                warn!(
                    "processes are not watched for a while, since no tracer could be made ready: {text}"
                );
                None
            }
            (notice, None) => {
                debug!("of no process: {notice:?}");
                None
            }
        }
    }

    fn on_notice(&mut self, pid: u32, notice: Notice) -> Option<Happening> {
        match notice {
            // See `on_message`.
            Notice::Ready { .. } => {}
            Notice::Seized => {
                self.launches = false;
                return Some(Happening::Seized);
            }
            Notice::Watching {
                analyzed_modules,
                cpu_ns,
            } => {
                let cpu = Duration::from_nanos(cpu_ns);
                if let Some(process) = self.watched.get_mut(pid) {
                    process.was_watched = true;
                }
                self.has_begun(pid, Some(cpu));
                if pid == self.first {
                    self.first_was_watched = true;
                    self.warn_of_search();
                }
                if analyzed_modules > 0 {
                    self.has_analyzed = true;
                    info!("watching process {pid}: metadata in {analyzed_modules} modules");
                } else if pid == self.first && self.descendants.is_none() {
                    self.warn_of_no_metadata();
                }
            }
            Notice::Modules(modules) => self.reporter.modules(pid, modules),
            Notice::Race(finding, maps) => {
                if !self.reporter.race(finding, maps) {
                    self.dropped += 1;
                    if let Some(link) = self.link_of(pid) {
                        link.tell_again();
                    }
                }
            }
            Notice::Repeat(stalled) => self.reporter.repeat(pid, stalled),
            Notice::WithoutGates(refusal) => self.warn_of_missing_gates(&refusal),
            Notice::Warning(text) => warn!("{text}"),
            Notice::Decision(text) => info!("{text}"),
            Notice::Coverage(functions) => {
                debug!(
                    "process {pid}: {} functions were looked at",
                    functions.len()
                );
                self.reporter.coverage(pid, functions);
            }
            Notice::Elsewhere(counted) => self.reporter.elsewhere(pid, counted),
            Notice::Debug(text) => debug!("{text}"),
            Notice::Statistics(statistics) => {
                self.watched.count(pid, statistics);
                self.charge_own_work(pid);
                // By now it would have started what it is there to start.
                if pid == self.first {
                    self.warn_of_no_metadata();
                }
            }
            Notice::Ended(ending, statistics) => {
                self.watched.count(pid, statistics);
                self.says_farewell(pid);
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
                self.says_farewell(pid);
                return self.on_failure(pid, text);
            }
        }
        None
    }

    /// Charges what this thread has worked since the last time to a process, which has just told what it has done meanwhile. What
    /// it took to get here is no cost of sampling.
    fn charge_own_work(&mut self, pid: u32) {
        let used = thread_cpu_time_ns();
        if let (Some(charged), Some(link)) = (self.charged_ns.replace(used), self.link_of(pid)) {
            link.charge(used.saturating_sub(charged));
        }
    }

    fn says_farewell(&mut self, pid: u32) {
        if let Some(process) = self.watched.get_mut(pid) {
            process.said_farewell = true;
        }
    }

    /// The tracer of a process could not go on. One that was watched already is tried again later.
    fn on_failure(&mut self, pid: u32, text: String) -> Option<Happening> {
        if pid == self.first && !self.first_was_watched {
            return Some(Happening::Failed(text));
        }
        if self.stopping || !self.has_watched(pid) || !is_alive(pid) {
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
        if pid == self.first {
            return self.first_was_watched;
        }
        let process = self.watched.get(pid);
        process.is_some_and(|process| process.was_watched)
    }

    fn all_ended(&self) -> Option<Happening> {
        let has_prospects = || {
            let descendants = self.descendants.as_ref();
            descendants.is_some_and(Descendants::has_prospects)
        };
        let ended = self.watched.len() == 0
            && (self.stopping || !self.watched.are_some_paused() && !has_prospects());
        ended.then_some(Happening::AllEnded)
    }

    /// Lets a process alone for a while: after a signal that might have crashed it, and after a release by
    /// the watchdog.
    fn pause(&mut self, pid: u32) {
        let now = Instant::now();
        let Some(process) = self.watched.get_mut(pid) else {
            return;
        };
        let pauses = process.pauses.get_or_insert_with(|| Pauses::new(now));
        let wait = pauses.begin(now);
        if self.soon(pid, wait)
            && let Some(process) = self.watched.get_mut(pid)
        {
            process.is_paused = true;
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
        let process = self.watched.get_mut(pid);
        let was_paused = process.is_some_and(|process| std::mem::take(&mut process.is_paused));
        let alive = is_alive(pid) && start_ticks(pid) == Some(later.start_ticks);
        if !alive && was_paused {
            self.forget(pid);
            return self.all_ended();
        }
        let process = self.watched.get(pid);
        if self.stopping || !alive || process.is_some_and(|process| process.link.is_some()) {
            return None;
        }
        if let Err(error) = self.watch(pid, false) {
            warn!("process {pid} is not watched: {}", told(&error));
        }
        None
    }

    /// Disarms and releases everything; what the tracers still say is taken in.
    pub async fn stop(&mut self) {
        self.stopping = true;
        if let Some(descendants) = &mut self.descendants {
            descendants.finish();
        }
        self.stopped.get_or_insert_with(Instant::now);
        for link in self.links.values_mut() {
            link.stop();
        }
        // They hold nobody, and those that are being made would not listen for a while.
        for link in self.spares.all() {
            if let Some(link) = self.links.get_mut(&link) {
                link.kill();
            }
        }
        let deadline = tokio::time::sleep(STOP_TIME);
        tokio::pin!(deadline);
        while !self.links.is_empty() {
            tokio::select! {
                Some((link, message)) = self.messages.recv() => {
                    match message {
                        Message::Notice(notice) => {
                            if let Some(Happening::Failed(text)) = self.on_message(link, *notice) {
                                warn!("{text}");
                            }
                        }
                        Message::Gone => drop(self.on_gone(link).await),
                    }
                }
                () = &mut deadline => {
                    for (id, link) in &mut self.links {
                        if let Some(pid) = self.watched.of(*id) {
                            self.reporter.coverage_is_cut(pid);
                        }
                        link.kill();
                    }
                    self.links.clear();
                }
            }
        }
        for pid in self.watched.beginning() {
            self.has_begun(pid, None);
        }
        if let Some(descendants) = self.descendants.take() {
            self.not_watched = descendants.into_not_watched();
        }
    }

    /// Writes the summary. Call [`Session::stop`] before. A signal that asks for the end is heard again from now on.
    pub async fn finish(mut self) -> Closing {
        self.warn_of_no_metadata();
        let summary = self.summary();
        let asked = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
        ];
        let mut asked: Vec<_> = asked.into_iter().flat_map(signal).collect();
        let hurry = std::future::poll_fn(move |context| {
            let heard = asked
                .iter_mut()
                .any(|stream| stream.poll_recv(context).is_ready());
            if heard {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        self.reporter
            .finish(summary, LAST_EXPLANATIONS, hurry)
            .await
    }

    fn summary(&self) -> Summary {
        let totals = summarized(&self.watched.sum(), self.starts.spent().as_secs_f64());
        Summary {
            elapsed_s: self
                .stopped
                .unwrap_or_else(Instant::now)
                .duration_since(self.started)
                .as_secs_f64(),
            watchdog_releases: self.releases,
            not_watched: self.not_watched.clone(),
            dropped: self.dropped + totals.dropped,
            ..totals
        }
    }
}

async fn next_child(descendants: &mut Option<Descendants>) -> Option<u32> {
    match descendants {
        Some(descendants) => descendants.next().await,
        None => std::future::pending().await,
    }
}

/// Whether a process has not ended: of one that is only waited for, no file is left.
fn is_alive(pid: u32) -> bool {
    // Not by the file itself, whose file system may not answer.
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}
