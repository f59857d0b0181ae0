//! A session: the tracers of one program and its children, their findings, the summary.

mod decision_log;
mod end;
mod live;
mod notice;
mod tracers;
mod warnings;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::info;
use tracing::warn;

use decision_log::DecisionLog;
pub use end::Left;

use super::args::{StrategyName, Unanalyzed, WatchArgs, YesNo};
use super::descendants::{Descendants, as_pid, start_ticks};
use super::heard::answer;
use super::keeper::Keeper;
use super::link::{Link, LinkId, Message};
use super::not_watched::Counts;
use super::pauses::Pauses;
use super::reporter::{Explained, Fate, Reporter};
use super::spares::Spares;
use super::starts::Starts;
use super::status::Status;
use super::told;
use super::watched::Watched;
use crate::{ledger::HALF_LIFE, reader::HeaderReader, tracee::threads};

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
    /// The first process is watched from now on: for the first time, or again after an exec.
    Watching,
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
    decision_log: Option<DecisionLog>,
    keeper: Keeper,
    status: Status,
    /// The tracers, whether they have a process or not.
    links: HashMap<LinkId, Link>,
    next_link: LinkId,
    spares: Spares,
    spares_tick: Interval,
    /// Who is below the first process; nobody where children are not to be watched.
    descendants: Option<Descendants>,
    starts: Starts,
    not_watched: Counts,
    left: Vec<Left>,
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
    /// It was found in something that was executed below the first one, watched or not.
    has_metadata: bool,
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
        if args.decision_log.is_some() && args.strategy != StrategyName::Planner {
            bail!(
                "--decision-log tells of the planner, which decides with --strategy planner only; give \
                 that, or leave the log out"
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
        let decision_log = args.decision_log.as_deref().map(DecisionLog::start);
        let decision_log = decision_log.transpose()?;
        if args.ledger.is_some() && args.strategy != StrategyName::Planner {
            bail!(
                "--ledger is for the planner, which decides with --strategy planner only; give that, or \
                 leave the ledger out"
            );
        }
        let keeper = Keeper::start(args.ledger.as_deref(), HALF_LIFE, None)?;
        let mut spares_tick = interval(LOOK_AFTER_SPARES);
        spares_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            descendants: follows.then(|| {
                let takes_all = args.unanalyzed == Unanalyzed::Report;
                Descendants::new(args.max_overhead, takes_all, HeaderReader::default())
            }),
            starts: Starts::new(
                args.max_overhead,
                std::thread::available_parallelism().map_or(1, usize::from),
                Instant::now(),
            ),
            not_watched: Counts::new(),
            left: Vec::new(),
            reporter,
            decision_log,
            keeper,
            status: Status::new(args, first.is_none()),
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
            has_metadata: false,
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
                () = self.status.is_due() => self.draw_status(),
                recalled = self.keeper.recalled() => {
                    let link = link_of(&self.watched, &mut self.links, recalled.pid);
                    self.keeper.tell(recalled, link);
                }
                Some(explained) = self.found.recv() => {
                    if let Some(link) = self.link_of(explained.pid) {
                        answer(link, &explained);
                    }
                    if let Fate::Reported(unique) = explained.fate {
                        return Happening::Race(unique);
                    }
                }
            }
        }
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
}

/// The tracer of a process.
fn link_of<'a>(
    watched: &Watched,
    links: &'a mut HashMap<LinkId, Link>,
    pid: u32,
) -> Option<&'a mut Link> {
    links.get_mut(&watched.get(pid)?.link?)
}

async fn next_child(descendants: &mut Option<Descendants>) -> Option<u32> {
    match descendants {
        Some(descendants) => descendants.next().await,
        None => std::future::pending().await,
    }
}

/// Whether a process has not ended. Its first thread may have: by itself, or since another one executes a program and takes its place.
fn is_alive(pid: u32) -> bool {
    threads::live_thread(as_pid(pid)).is_ok()
}
