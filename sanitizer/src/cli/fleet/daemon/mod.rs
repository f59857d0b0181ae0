//! The daemon: finds the processes of a machine that may be watched, and watches some of them at a time, as the [scheduler](Scheduler) says.
//!
//! Nothing is decided here. What has happened goes to the scheduler and to the breakers, and what they say is carried out: by a lease of the one tracer, which lets go whom it holds
//! when it is told to, when its process ends, and when the daemon does.

mod answers;
mod audit;
mod breakpoints;
mod contention;
mod end;
mod figures;
mod lease;
mod leases;
mod memory;
mod news;
mod pause;
mod processes;
mod roster;
mod sampler;
mod tracer;
mod trials;
mod who;

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant, SystemTime},
};

use anyhow::Context as _;
use tokio::{
    sync::mpsc,
    time::{Interval, MissedTickBehavior, interval},
};
use tracing::{info, warn};

use super::{
    config::Config, control::server::Server, discovery::Discovery, dry_run::takes_part_here,
    signals::Signals, socket::make_folder,
};
use crate::{
    cli::{
        args::{FleetArgs, LogForm, WatchArgs},
        debug_files::DebugFileArgs,
        form::Format,
        keeper::Keeper,
        link::{LinkId, Message},
        messages::tell,
        reporter::{Explained, Reporter},
    },
    fleet::{
        pressure::{Gauge, Pressure, some_avg10},
        schedule::{Event, Scheduler},
        utilization::Utilization,
    },
    hunt::wire::{Preparation, Statistics},
    kernel::process::{CpuClock, nanos},
    reader::HeaderReader,
    tracee::procfs::proc_is_ours,
};
use contention::Contention;
use figures::Counts;
use lease::Lease;
use memory::Memory;
use news::NewsOfProcesses;
use pause::Pause;
use roster::Roster;
use sampler::Sampler;
use trials::Trials;

/// How often it is looked at what nobody tells, and decided who is next.
const PERIOD: Duration = Duration::from_secs(1);
/// Messages of tracers that wait to be heard, as in a session.
const MOST_MESSAGES: usize = 256;

/// See the module.
struct Daemon {
    config: Config,
    log: LogForm,
    /// The options that `run` and `attach` have, as far as they hold here.
    args: WatchArgs,
    started: Instant,
    started_at: SystemTime,
    seed: u64,
    scheduler: Scheduler,
    discovery: Discovery,
    roster: Roster,
    trials: Trials,
    contention: Contention,
    /// Leases and controls, in the order in which they began.
    leases: Vec<Lease>,
    /// Leases that are over, of which races wait to be explained.
    over: Vec<Lease>,
    sampler: Sampler,
    messages: mpsc::Receiver<(LinkId, Message)>,
    reporter: Reporter,
    found: mpsc::UnboundedReceiver<Explained>,
    keeper: Keeper,
    server: Server,
    pause: Pause,
    gauge: Gauge,
    utilization: Utilization,
    is_pressed: bool,
    memory: Memory,
    /// Something has happened that may let a lease begin or end.
    is_urgent: bool,
    /// CPU time of this process, and of those who read headers for it, that the scheduler was told of.
    charged: Duration,
    /// All that leases have counted that have come to their end.
    sum: Statistics,
    /// What leases have cost, those that go on with what is known of them.
    cost: Duration,
    leases_over: u64,
    counts: Counts,
    races: u64,
    builds_left_alone: usize,
    overhead: Duration,
    gates_are_missing: bool,
}

/// Watches the processes of this machine, until a signal says that it is enough.
///
/// # Errors
/// The configuration is wrong, another daemon runs, or something cannot be written.
pub async fn run(args: &FleetArgs) -> anyhow::Result<ExitCode> {
    let config = Config::read(args.config.config.as_deref())?;
    anyhow::ensure!(
        proc_is_ours(),
        "/proc shows the processes of another pid namespace, or none; mount the one of this namespace: mount -t proc proc /proc"
    );
    let settings = config.settings;
    if !takes_part_here(settings.rollout) {
        tell("this machine takes no part: see rollout of the configuration");
        return Ok(ExitCode::SUCCESS);
    }
    let mut signals = Signals::new()?;
    let mut daemon = Daemon::new(config, args)?;
    daemon.tell_beginning();
    let mut news = NewsOfProcesses::of(&daemon.discovery)?;
    let mut tick = interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let done = daemon.watch(&mut signals, &mut tick, &mut news).await;
    let ended = daemon.end(signals).await;
    done.and(ended)?;
    Ok(ExitCode::SUCCESS)
}

impl Daemon {
    fn new(config: Config, args: &FleetArgs) -> anyhow::Result<Self> {
        let settings = config.settings;
        if let Some(store) = config.places.store.path() {
            make_folder(store).with_context(|| {
                format!(
                    "cannot make the folder of {}; name another store in [export]",
                    config.places.store
                )
            })?;
        }
        let learn = &config.learn;
        if let Some(ledger) = &learn.ledger {
            make_folder(ledger).with_context(|| {
                format!(
                    "cannot make the folder of {}; name another ledger in [learn], or \"none\"",
                    ledger.display()
                )
            })?;
        }
        // Before anything that another daemon might have.
        let server = Server::listen(&config.places.socket)?;
        let watch = watch_args(&config, args)?;
        let (found_sender, found) = mpsc::unbounded_channel();
        let reporter = Reporter::start(&watch, false, found_sender)?;
        let keeper = Keeper::start(learn.ledger.as_deref(), learn.half_life, config.shares_by());
        let keeper = keeper.context(
            "what is learned cannot be kept; name another ledger in [learn], or \"none\"",
        )?;
        let (sender, messages) = mpsc::channel(MOST_MESSAGES);
        let preparation = Preparation {
            stop_deadline_ns: nanos(watch.stop_deadline),
            gate_log: args.verbose >= 2,
            slots: u8::try_from(settings.leases).unwrap_or(u8::MAX),
            leaves_breakpoints: settings.yields_breakpoints,
        };
        let seed = fastrand::u64(..);
        info!("seed {seed}");
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let processors = u32::try_from(processors).unwrap_or(u32::MAX);
        Ok(Self {
            log: args.log,
            args: watch,
            started: Instant::now(),
            started_at: SystemTime::now(),
            seed,
            scheduler: Scheduler::new(settings, processors, seed, Duration::ZERO),
            discovery: Discovery::new(config.rules.clone(), HeaderReader::default),
            config,
            roster: Roster::default(),
            trials: Trials::default(),
            contention: Contention::default(),
            leases: Vec::new(),
            over: Vec::new(),
            sampler: Sampler::new(preparation, sender),
            messages,
            reporter,
            found,
            keeper,
            server,
            pause: Pause::default(),
            gauge: Gauge::new(settings.pressure),
            utilization: Utilization::default(),
            is_pressed: false,
            memory: Memory::new(settings.memory),
            is_urgent: true,
            charged: Duration::ZERO,
            sum: Statistics::default(),
            cost: Duration::ZERO,
            leases_over: 0,
            counts: Counts::default(),
            races: 0,
            builds_left_alone: 0,
            overhead: Duration::ZERO,
            gates_are_missing: false,
        })
    }

    fn tell_beginning(&self) {
        let places = &self.config.places;
        tell(&format!(
            "watching the programs of this machine; races are kept in {}, and `gwp-race fleet status` tells what is done, by {}",
            places.store,
            places.socket.display()
        ));
        let agent = &self.config.agent;
        if places.agent.is_none() && agent.destinations().next().is_some() {
            warn!("{}", agent.said(None));
        }
        if let Some(refusal) = self.discovery.refusal() {
            warn!(
                "programs are found by looking through /proc each minute, since eBPF cannot tell of them here: those that live more shortly are missed ({refusal})"
            );
        }
    }

    /// The daemon's clock.
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes in what happens and does what is to be done, until a signal comes.
    async fn watch(
        &mut self,
        signals: &mut Signals,
        tick: &mut Interval,
        news: &mut NewsOfProcesses,
    ) -> anyhow::Result<()> {
        let mut looks = interval(breakpoints::LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = signals.next() => return Ok(()),
                _ = tick.tick() => self.second()?,
                _ = looks.tick() => self.look_at_breakpoints(),
                told = news.next() => {
                    told?;
                    self.look_at_processes()?;
                }
                () = self.discovery.looked() => self.take_changes()?,
                Some((link, message)) = self.messages.recv() => match message {
                    Message::Notice(notice) => self.hear(link, *notice),
                    Message::Gone => self.lose(link).await,
                },
                recalled = self.keeper.recalled() => self.remember(recalled),
                Some(explained) = self.found.recv() => self.explained(&explained),
                Some((question, answer)) = self.server.next() => {
                    let said = self.answer(question);
                    // He may have gone.
                    let _ = answer.send(said);
                }
            }
            if std::mem::take(&mut self.is_urgent) {
                self.carry_out();
            }
        }
    }

    /// What is looked at once a second.
    fn second(&mut self) -> anyhow::Result<()> {
        self.is_urgent = true;
        self.sampler.keep(Instant::now());
        self.look_at_processes()?;
        self.look_at_machine();
        self.look_at_memory();
        self.charge_own_work();
        self.hurry_leases();
        self.tell_figures();
        let now = self.now();
        for build in self.trials.expire(now) {
            self.leave_alone(build);
        }
        Ok(())
    }

    /// Whether the machine is short of something, and whether somebody wants nobody to be watched.
    fn look_at_machine(&mut self) {
        let now = self.now();
        let of = |name: &str| {
            // Where the kernel does not tell, nothing is known of pressure.
            let text = std::fs::read_to_string(Path::new("/proc/pressure").join(name));
            text.ok().and_then(|text| some_avg10(&text)).unwrap_or(0.0)
        };
        let pressure = Pressure {
            cpu: of("cpu"),
            memory: of("memory"),
        };
        let is_high = self.gauge.look(pressure);
        if std::mem::replace(&mut self.is_pressed, is_high) != is_high {
            self.scheduler.take(now, Event::Pressure { is_high });
        }
        // Where it cannot be read, all of the processors are thought to be used.
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        self.utilization.look(now, &text);
        self.sampler.machine_uses(self.utilization.used());
        // A link that leads nowhere is there, too.
        let is_there = std::fs::symlink_metadata(&self.config.places.pause).is_ok();
        self.pause.look(is_there);
        self.tell_pause();
    }

    /// Tells the scheduler of a pause that begins or ends.
    fn tell_pause(&mut self) {
        let now = self.now();
        self.is_urgent = true;
        match self.pause.change(now) {
            Some(true) => {
                self.scheduler.take(now, Event::Paused { until: None });
                if self.pause.is_by_file() {
                    let file = self.config.places.pause.display();
                    tell(&format!("nobody is watched as long as {file} is there"));
                } else {
                    tell("nobody is watched: somebody has said `gwp-race fleet pause`");
                }
            }
            Some(false) => {
                self.scheduler.take(now, Event::Resumed);
                tell("processes are watched again: the pause is over");
            }
            None => {}
        }
    }

    /// The machine pays for what this process does, and those who read headers for it. What it takes to explain a race is paid by the lease as well: rather twice than not at all.
    fn charge_own_work(&mut self) {
        let used = Duration::from_nanos(CpuClock::of(std::process::id()).ns())
            + self.discovery.cpu_of_readers();
        let cost = used.saturating_sub(self.charged);
        self.charged = used;
        self.charge_overhead(cost);
    }

    fn charge_overhead(&mut self, cost: Duration) {
        self.overhead += cost;
        self.scheduler.take(self.now(), Event::Overhead { cost });
    }
}

/// The options of `attach` that hold for a daemon.
fn watch_args(config: &Config, args: &FleetArgs) -> anyhow::Result<WatchArgs> {
    let usual = WatchArgs::usual()?;
    Ok(WatchArgs {
        format: match args.log {
            LogForm::Text => Format::Text,
            LogForm::Json => Format::Json,
        },
        store: Some(config.places.store.clone()),
        agent: config.places.agent.clone(),
        values: config.settings.values,
        verbose: args.verbose,
        // Its figures are those of `fleet status`.
        quiet: true,
        debug_files: DebugFileArgs {
            no_debuginfod: true,
            ..usual.debug_files
        },
        ..usual
    })
}
