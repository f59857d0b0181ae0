//! The thread that hands what was learned to the [agent](crate::outbox), which sends it to a collector, and asks that what other machines have learned. It waits for the agent, which nobody else does here.
//!
//! What others have learned is data of strangers: a file is taken if it is whole, and of the build that was asked for, and else ignored, which is told. It is kept in the ledger, so that the next lease has it, however short it is.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use tracing::{debug, warn};

use crate::{
    delivery::hints::HintFile,
    kernel::limits::explained,
    learned::{KnownFunction, Learned},
    ledger::{Gains, Module},
    outbox::{Agent, Asking, HandingError, Hinted, Wanted},
    report::clean::clean,
    store::millis,
};

/// How often what was learned is handed over; the first time somewhere between half of it and all, so that many machines that are started at once do not send at once.
const PERIOD: Duration = Duration::from_secs(900);
/// How often it is asked for what others have learned, and how soon again where something is to come.
const LOOK: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(2);
/// Functions that wait to be handed over: of more, it is learned by other machines, or by this one later.
const MOST_WAITING: usize = 8192;
/// Builds that are asked for: those that have run here last.
const MOST_WANTED: usize = 256;
/// What waits for the thread.
const MOST_TOLD: usize = 256;
/// A build that has not run for so long is not asked for any more.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// What the thread is told.
pub(super) enum Told {
    /// This was gained.
    Gained(Gains),
    /// This build runs; and what is known by others' telling is this.
    Runs(Wanted),
}

/// What others have learned of a build.
pub(super) struct Found {
    pub(super) module: Module,
    /// Tells it from what is said later.
    pub(super) tag: String,
    pub(super) functions: Vec<KnownFunction>,
}

/// The thread, as the ledger's sees it.
pub(super) struct Sharing {
    told: SyncSender<Told>,
    found: Receiver<Found>,
    thread: JoinHandle<()>,
}

impl Sharing {
    /// Starts the thread, which speaks to the agent at a socket.
    pub(super) fn start(socket: &Path) -> anyhow::Result<Self> {
        let (told, queue) = sync_channel(MOST_TOLD);
        let (sender, found) = channel();
        let mut work = Work::new(Agent::new(socket), sender);
        let thread = std::thread::Builder::new()
            .name("sharing".to_owned())
            .spawn(move || work.go_on(&queue))
            .map_err(|error| anyhow::anyhow!("cannot start a thread: {}", explained(&error)))?;
        Ok(Self {
            told,
            found,
            thread,
        })
    }

    /// What is not taken is learned again: nobody waits.
    pub(super) fn tell(&self, told: Told) {
        if self.told.try_send(told).is_err() {
            debug!("the thread that shares what is learned has too much to do");
        }
    }

    /// What has come, if something has.
    pub(super) fn found(&self) -> Option<Found> {
        self.found.try_recv().ok()
    }

    /// Waits until what is left was handed over, or could not be.
    pub(super) fn end(self) {
        drop(self.told);
        drop(self.found);
        let _ = self.thread.join();
    }
}

/// A build that runs here.
struct Run {
    /// Tells what is known of it by others' telling.
    tag: String,
    last: Instant,
}

/// What the thread has.
struct Work {
    agent: Agent,
    found: Sender<Found>,
    gains: Gains,
    /// What was to be handed over and was not.
    left: Vec<Learned>,
    runs: BTreeMap<Module, Run>,
    /// When it is handed over, and asked, the next time.
    hands: Instant,
    asks: Instant,
    /// How long it is waited until it is asked again for what is to come.
    pause: Duration,
}

impl Work {
    fn new(agent: Agent, found: Sender<Found>) -> Self {
        let now = Instant::now();
        Self {
            agent,
            found,
            gains: Gains::default(),
            left: Vec::new(),
            runs: BTreeMap::new(),
            hands: now + PERIOD.mul_f64(0.5 + fastrand::f64() / 2.0),
            asks: now + LOOK,
            pause: SOON,
        }
    }

    fn go_on(&mut self, queue: &Receiver<Told>) {
        loop {
            let next = self.hands.min(self.asks);
            match queue.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Told::Gained(gains)) => self.gains.add_shared(&gains, MOST_WAITING),
                Ok(Told::Runs(wanted)) => self.runs(wanted, Instant::now()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            if self.hands <= now {
                self.hand_over();
                // What is left is not left for long.
                let pause = if self.left.is_empty() { PERIOD } else { LOOK };
                self.hands = now + pause;
            }
            if self.asks <= now {
                let pause = self.ask(now);
                self.asks = Instant::now() + pause;
            }
        }
        self.hand_over();
    }

    /// A build runs here.
    fn runs(&mut self, wanted: Wanted, now: Instant) {
        let Wanted { module, tag } = wanted;
        if let Some(run) = self.runs.get_mut(&module) {
            run.last = now;
            return;
        }
        if self.runs.len() >= MOST_WANTED {
            let oldest = self.runs.iter().min_by_key(|(_, run)| run.last);
            if let Some(module) = oldest.map(|(module, _)| module.clone()) {
                self.runs.remove(&module);
            }
        }
        self.runs.insert(module, Run { tag, last: now });
        self.pause = SOON;
        self.asks = self.asks.min(now + SOON);
    }

    fn hand_over(&mut self) {
        if self.left.is_empty() {
            self.left = std::mem::take(&mut self.gains).into_learned(millis(SystemTime::now()));
        }
        while !self.left.is_empty() || self.agent.owes() {
            match self.agent.hand_over_learned(&mut self.left) {
                Ok(()) => {}
                Err(HandingError::Never(why)) => {
                    debug!("the agent will never take some of what was learned: {why}");
                }
                Err(error) => {
                    debug!("what was learned is handed over later: {error}");
                    return;
                }
            }
        }
    }

    /// Asks what others have learned; after what time to ask again.
    fn ask(&mut self, now: Instant) -> Duration {
        self.runs
            .retain(|_, run| now.saturating_duration_since(run.last) < KEPT_FOR);
        let runs = self.runs.iter().map(|(module, run)| Wanted {
            module: module.clone(),
            tag: run.tag.clone(),
        });
        let wanted: Vec<_> = runs.collect();
        if wanted.is_empty() {
            return LOOK;
        }
        match self.agent.hints(wanted) {
            Ok(Asking {
                hinted: Some(hinted),
                ..
            }) => {
                self.take(*hinted);
                self.pause = SOON;
                Duration::ZERO
            }
            Ok(Asking {
                is_pending: true, ..
            }) => {
                let pause = self.pause;
                self.pause = LOOK.min(2 * pause);
                pause
            }
            Ok(_) => LOOK,
            Err(error) => {
                debug!("the agent does not say what others have learned: {error}");
                LOOK
            }
        }
    }

    /// Something was said of a build.
    fn take(&mut self, hinted: Hinted) {
        let Hinted { module, tag, body } = hinted;
        let Some(run) = self.runs.get_mut(&module) else {
            return;
        };
        // Also of what is wrong: it need not be sent again before it is another one.
        run.tag.clone_from(&tag);
        let what = match HintFile::decode(&body) {
            Ok(file) if file.module == module => {
                let functions = file.functions;
                debug!(name = module.name, functions = functions.len(), "told");
                // Nobody may be left who wants to know.
                let _ = self.found.send(Found {
                    module,
                    tag,
                    functions,
                });
                return;
            }
            Ok(_) => "it is of another build".to_owned(),
            Err(error) => error.to_string(),
        };
        warn!(
            "what other machines have learned of {} ({}) is ignored: {what}; see that the collector is the same version of gwp-race, and nobody else answers in its place",
            clean(&module.name),
            module.build
        );
    }
}

#[cfg(test)]
mod tests;
