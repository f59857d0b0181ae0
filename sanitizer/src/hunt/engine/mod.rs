//! The engine: owns stops, stalls, watchpoints and deadlines of one process.
//!
//! One sample is in hand at a time. Its life is the phase word in the gates' control block:
//!
//! ```text
//! IDLE -gate-> CLAIMED -stop-> REACHED -+-> STALL -deadline or hit-> CLOSED -+-> IDLE
//!                 ^                     |                                    |
//!                 |                     +-> SEEK -gate-> REACHED             +-> CONFIRM -gate-> CONFIRMED
//! ```
//!
//! Only the gate moves IDLE, CLAIMED, SEEK and CONFIRM on; only the engine moves the others. A
//! stall is CLOSED before its thread can move (invariant I7).

mod activity;
mod arrival;
mod close;
mod confirm;
mod coverage;
mod decision_log;
mod decisions;
mod figures;
mod first_thread;
mod hold;
mod identity;
mod let_alone;
mod locks;
mod looks;
mod pairs;
mod quiet;
mod release;
mod sample;
mod scans;
mod stops;
mod substitute;
mod target;
mod threads;
mod upkeep;
mod waiting;
mod wanted;
mod writers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::Control;
use gwp_race_abi::EVENT_BUSY;
use gwp_race_abi::EVENT_CONFIRMED;
use gwp_race_abi::EVENT_CROWDED;
use gwp_race_abi::EVENT_EXEC;
use gwp_race_abi::EVENT_HIT;
use gwp_race_abi::EVENT_KNOWN;
use gwp_race_abi::EVENT_SHARED;
use gwp_race_abi::EVENT_THREAD;
use gwp_race_abi::EVENT_THREADS_LEFT;
use gwp_race_abi::EVENT_UNKNOWN_PC;
use gwp_race_abi::Event;
use gwp_race_abi::phase;
use nix::unistd::Pid;

use crate::hunt::adoption::Adoption;
use crate::hunt::arming::Arming;
use crate::hunt::budget::Budget;
use crate::hunt::classify::StalledSide;
use crate::hunt::clock::Clock;
use crate::hunt::lines::Lines;
use crate::hunt::loader::Loader;
use crate::hunt::modules::ModuleSet;
use crate::hunt::modules::RefreshError;
use crate::hunt::plan::Planner;
use crate::hunt::plan::choose::ByWorth;
use crate::hunt::plan::log::Logged;
use crate::hunt::planned::Planned;
use crate::hunt::respite::Respite;
use crate::hunt::routine_call::RoutineCall;
use crate::hunt::strategy::Name;
use crate::hunt::strategy::Patience;
use crate::hunt::strategy::Strategy;
use crate::hunt::watched::Watched;
use crate::hunt::wire::Ending;
use crate::hunt::wire::Notice;
use crate::hunt::wire::Outbox;
use crate::hunt::wire::Refuted;
use crate::hunt::wire::Setup;
use crate::insn::Regs;
use crate::kernel::KernelError;
use crate::kernel::gates::Gates;
use crate::kernel::gates::Hit;
use crate::kernel::perf::Delivery;
use crate::kernel::process::monotonic_ns;
use crate::kernel::ptrace;
use crate::kernel::rights;
use crate::tracee::TargetError;
use crate::tracee::threads::Stat;
use crate::verdict::Policy;

use activity::Activity;
use decision_log::DecisionLog;
use decisions::Decisions;
use let_alone::OwnStops;
use locks::Locks;
use pairs::Pairs;
use substitute::Substitute;
use waiting::Waiting;
use wanted::Early;

/// A thread that does not come to the site it was sent to within this time is let alone.
const SEEK_TIME: Duration = Duration::from_millis(2);
/// A stalled thread that has not made its access this long after its release is given up.
const CONFIRM_TIME: Duration = Duration::from_millis(50);
/// A stop takes less as a rule, from the gate's decision until the tracer has taken it.
const LATE_STOP: Duration = Duration::from_micros(500);
/// A claim whose stop has not come by then is void.
const CLAIM_TIME: Duration = Duration::from_millis(100);
/// Where accesses are far apart, stalls may be so many times as long as the user's `--stall`.
const LONGER_STALLS: u32 = 10;
/// How often modules, threads and the delivery are looked after.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// What has just been mapped is relocated by then, as a rule.
const SETTLING: Duration = Duration::from_millis(100);
/// A gate that is writing a record needs microseconds; after this its record is given up.
const RECORD_TIME: Duration = Duration::from_millis(1);
/// Stack bytes kept of a thread that stands still.
const STANDING_STACK: usize = 256 * 1024;
/// How often it is tried to let a thread go that stands still all the same.
const RELEASES: usize = 3;
/// Housekeeping rounds between two decays of what the strategy has learned.
const DECAY_ROUNDS: u64 = 10;

/// What is in hand.
enum State {
    Idle,
    /// The owner runs to an access site.
    Seek {
        tid: u32,
        /// What the strategy calls the place.
        site: u64,
        patience: Patience,
        deadline: u64,
        /// If it has arrived but no stop has come by then, none will.
        void: u64,
    },
    /// The owner stands before its access; others are watched.
    Stalled(Box<Stalled>),
    /// The owner was let go; did it make its access?
    Confirm(Box<Confirm>),
    /// Nobody stands still and no gate does anything: the loader scans the modules.
    Scanning(Purpose),
}

/// What a scan of the modules is for.
enum Purpose {
    /// To begin: the process is new to us, or executes another program.
    Start,
    /// To see what is new.
    Upkeep,
    /// To judge what was caught. Modules may have come and gone since the last look: what the
    /// program counters mean must be what they meant when the accesses were made.
    Judge {
        confirm: Box<Confirm>,
        completed: bool,
    },
}

struct Stalled {
    tid: u32,
    /// What the strategy calls the place.
    site: u64,
    regs: Regs,
    call: Option<RoutineCall>,
    watched: Watched,
    /// Only writes trap, and reads were to, as well.
    is_blind_to_reads: bool,
    before: Vec<u8>,
    /// The bytes were watched when it was claimed, and it stands since then.
    early: Option<Early>,
    opened: u64,
    /// CPU time that the program had used by then, ns, where that was looked at.
    used: Option<u64>,
    /// Traps counted before it.
    traps: u64,
    /// When to look whether others wait for a lock that it holds.
    look_at_locks: u64,
    /// So many were seen to.
    waiting: usize,
    /// A racing thread was stopped as well.
    has_caught: bool,
    /// Its whole stack, where it goes on again.
    deep: Option<(u32, Vec<u8>)>,
    deadline: u64,
}

struct Confirm {
    side: StalledSide,
    hits: Vec<Hit>,
    name: String,
    open: std::ops::Range<u64>,
    deadline: u64,
}

impl Confirm {
    /// Where the threads stood.
    fn places(&self) -> Vec<u64> {
        let racing = self.hits.iter().map(|hit| hit.regs.rip);
        racing.chain([self.side.regs.rip]).collect()
    }
}

/// What an engine needs that lasts longer than its process, and is another one's when that has ended.
pub struct Lasting {
    /// The gates.
    pub gates: Gates,
    /// Whoever reads the modules, with what was read before.
    pub loader: Loader,
    /// What a trap costs here, ns.
    pub trap_cost_ns: u64,
}

/// See the module.
pub struct Engine {
    setup: Setup,
    /// CPU time of this process and its watchdog that does not count as that of this start, ns.
    cpu_before_start_ns: u64,
    pid: u32,
    exe: String,
    gates: Gates,
    trap_cost_ns: u64,
    arming: Arming,
    modules: Arc<ModuleSet>,
    loader: Loader,
    budget: Budget,
    adoption: Adoption,
    respite: Respite,
    own_stops: OwnStops,
    strategy: Box<dyn Strategy>,
    waiting: Waiting,
    locks: Locks,
    lines: Lines,
    decisions: Decisions,
    decision_log: DecisionLog,
    /// The round in which some of it was told last.
    decisions_told: u64,
    coverage_told: coverage::Told,
    random: fastrand::Rng,
    policy: Policy,
    outbox: Outbox,
    state: State,
    /// The generation of the sample in hand.
    generation: u64,
    next_housekeeping: u64,
    /// Before this time no scan for new modules is to be had, because the last one was dear.
    next_scan: u64,
    rounds: u64,
    /// CPU time between clock samples of a thread, ns.
    period_ns: u64,
    /// Samples refused for want of a harmless stop, at the last housekeeping.
    unstoppable: u64,
    told_unstoppable: bool,
    cpu_before: Duration,
    /// CPU time that it has used since, at the last look, ns.
    cpu_seen_ns: u64,
    /// When the clocks were looked after last.
    activity: Activity,
    watched_ns: u64,
    stops: u64,
    stalls: u64,
    /// Those that were ended early, because too many accesses trapped.
    stalls_cut_short: u64,
    value_changed: u64,
    no_stall: BTreeMap<String, u64>,
    not_reported: BTreeMap<String, u64>,
    /// Where there are no gates.
    substitute: Option<Substitute>,
    pairs: Pairs,
    ending: Option<Ending>,
}

/// Why an engine cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A system call.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The target's files in `/proc`.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Its modules.
    #[error(transparent)]
    Modules(#[from] RefreshError),
    /// No thread of it is left.
    #[error("process {0} has ended before it could be watched")]
    Gone(u32),
    /// Another process has its id by now.
    #[error("process {0} has ended before it could be watched, and another one has its number")]
    Replaced(u32),
    /// Another instruction set.
    #[error(
        "process {0} is not a 64-bit x86 program, and only those can be watched: build it for \
         x86-64"
    )]
    Foreign(u32),
}

impl EngineError {
    /// Whether the process, or the thread that was asked about, is gone.
    fn is_gone(&self) -> bool {
        match self {
            Self::Kernel(error) => error.is_gone(),
            Self::Target(error) => error.is_vanished(),
            Self::Gone(_) => true,
            Self::Modules(_) | Self::Replaced(_) | Self::Foreign(_) => false,
        }
    }
}

impl Engine {
    /// An engine that holds nothing yet. `cpu_before_ns`: CPU time that this process and its watchdog had used before they were to begin.
    #[must_use]
    pub fn new(
        mut setup: Setup,
        lasting: Lasting,
        delivery: Delivery,
        outbox: Outbox,
        cpu_before_ns: u64,
    ) -> Self {
        let Lasting {
            gates,
            loader,
            trap_cost_ns,
        } = lasting;
        let control = gates.control();
        // Evidence of another process is in the gates' memory, of other generations.
        let generation = phase::generation(control.phase.load(SeqCst));
        control.watchdog.standing_since_ns.store(0, SeqCst);
        control.process.tgid.store(u64::from(setup.pid), SeqCst);
        control
            .process
            .tracer
            .store(u64::from(std::process::id()), SeqCst);
        control
            .evidence
            .ignore_atomic
            .store(u64::from(!setup.report_mixed), SeqCst);
        control
            .evidence
            .keep_unanalyzed
            .store(u64::from(setup.report_unanalyzed), SeqCst);
        control.stall.stop_racing.store(1, SeqCst);
        let places_once = setup.learns && !setup.full_repeats;
        control.stall.places_once.store(places_once.into(), SeqCst);
        control
            .claim
            .timeout_ns
            .store(CLAIM_TIME.as_nanos() as u64, SeqCst);
        set_delivery(control, delivery);
        let period_ns = setup
            .sample_period_ns
            .unwrap_or_else(|| Budget::usual_period_ns(setup.max_overhead, trap_cost_ns));
        let budget = Budget::new(
            control,
            period_ns,
            setup.max_overhead,
            trap_cost_ns,
            setup.is_child,
        );
        let mut random = fastrand::Rng::with_seed(setup.seed);
        let period = Duration::from_nanos(period_ns);
        let substitutes = !gates.are_in_kernel();
        let mut arming = Arming::new(setup.pid, delivery, period, random.u64(..));
        if rights::are_lent() && !rights::are_for_named() {
            arming = arming.without_others();
        }
        if substitutes {
            arming = arming.without_gates();
            // To wait at a site is to stop whoever comes there: what that costs only a gate can bound.
            setup.strategy = Name::Clock;
        }
        let decision_log = DecisionLog::default();
        let engine = Self {
            pid: setup.pid,
            cpu_before_start_ns: cpu_before_ns,
            trap_cost_ns,
            exe: String::new(),
            arming,
            modules: Arc::default(),
            loader,
            budget,
            adoption: Adoption::new(setup.max_overhead),
            respite: Respite::new(setup.max_overhead),
            own_stops: OwnStops::default(),
            strategy: strategy_of(&setup, random.u64(..), &decision_log),
            waiting: Waiting::default(),
            locks: Locks::default(),
            lines: Lines::default(),
            decisions: Decisions::default(),
            decision_log,
            decisions_told: 0,
            coverage_told: coverage::Told::default(),
            policy: Policy {
                mixed: setup.report_mixed,
                unanalyzed: setup.report_unanalyzed,
            },
            random,
            gates,
            outbox,
            state: State::Idle,
            generation,
            next_housekeeping: 0,
            next_scan: 0,
            rounds: 0,
            unstoppable: 0,
            told_unstoppable: false,
            cpu_before: Duration::ZERO,
            cpu_seen_ns: 0,
            activity: Activity::default(),
            watched_ns: 0,
            stops: 0,
            stalls: 0,
            stalls_cut_short: 0,
            value_changed: 0,
            no_stall: BTreeMap::new(),
            not_reported: BTreeMap::new(),
            period_ns,
            substitute: substitutes.then(|| Substitute::new(setup.max_overhead)),
            pairs: Pairs::default(),
            ending: None,
            setup,
        };
        // Where there are gates, what may claim a thread is decided when the program is known.
        engine.clock_may_claim(substitutes);
        engine.allow_threads();
        engine
    }

    /// What is left for another process, when this one has ended: nobody is held, and no event open.
    #[must_use]
    pub fn into_lasting(mut self) -> Lasting {
        self.arming.close_events(self.arming.delivery());
        self.gates.reset();
        Lasting {
            gates: self.gates,
            loader: self.loader,
            trap_cost_ns: self.trap_cost_ns,
        }
    }

    /// Takes over a process that waits before its exec, and says so. It is armed at its exec
    /// stop, as after any later exec.
    ///
    /// # Errors
    /// Fails when the process cannot be held.
    pub fn launch(&mut self) -> Result<(), EngineError> {
        if !self.arming.seize(self.pid)? {
            return Err(EngineError::Gone(self.pid));
        }
        self.check_identity()?;
        self.begin_activity();
        self.outbox.send(&Notice::Seized);
        Ok(())
    }

    /// Whether the process is to be launched, not attached to.
    #[must_use]
    pub const fn is_launch(&self) -> bool {
        self.setup.launch
    }

    /// Tells the watchdog that the next look at the tracees comes after this time.
    pub fn announce_heartbeat(&self, after: Duration) {
        let at = monotonic_ns().saturating_add(after.as_nanos() as u64);
        self.gates.control().watchdog.heartbeat_ns.store(at, SeqCst);
    }

    /// Charges what others have worked for this target.
    pub fn charge(&mut self, ns: u64) {
        self.budget.charge_explaining(self.gates.control(), ns);
    }

    /// Says whether other processes are watched as well.
    pub fn has_company(&mut self, has: bool) {
        self.budget.has_company(has);
    }

    /// Tells every race with its stacks again, once: one of them was dropped.
    pub fn tell_again(&mut self) {
        self.pairs.forget_told();
    }

    /// What was told of two places is no race.
    pub fn refute(&mut self, refuted: Refuted) {
        self.pairs.refute(refuted);
    }

    /// How the engine has ended, once it has.
    #[must_use]
    pub const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The socket to the daemon.
    pub const fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// The loader.
    #[must_use]
    pub const fn loader(&self) -> &Loader {
        &self.loader
    }

    /// The gates.
    #[must_use]
    pub const fn gates(&self) -> &Gates {
        &self.gates
    }

    /// How long the engine may sleep.
    #[must_use]
    pub fn sleep(&self) -> Duration {
        let deadline = match &self.state {
            // Before the first scan of the modules nothing is due.
            State::Idle | State::Scanning(_) if self.next_housekeeping == 0 => return HOUSEKEEPING,
            State::Idle | State::Scanning(_) if let Some(substitute) = &self.substitute => {
                substitute.due().min(self.next_housekeeping)
            }
            State::Idle if self.arming.is_empty() => self.next_housekeeping,
            State::Idle => self.next_housekeeping.min(self.waiting.due()),
            State::Scanning(_) => self.next_housekeeping,
            State::Seek { deadline, .. } => *deadline,
            State::Stalled(stalled) => stalled.look_at_locks.min(stalled.deadline),
            State::Confirm(confirm) => confirm.deadline,
        };
        let due = Duration::from_nanos(deadline.saturating_sub(monotonic_ns()));
        due.min(HOUSEKEEPING)
    }

    /// Handles all stops and events that have come, then what is due.
    ///
    /// # Errors
    /// Fails when it cannot go on; the caller then exits, which releases everything.
    pub fn turn(&mut self) -> Result<(), EngineError> {
        self.on_stops()?;
        if self.ending.is_some() {
            return Ok(());
        }
        self.on_events()?;
        self.on_scan()?;
        self.on_time()?;
        let worked = self.budget.settle(self.gates.control());
        self.has_worked(worked);
        self.substitute_on_time()?;
        self.tell_some_decisions();
        Ok(())
    }

    fn on_events(&mut self) -> Result<(), EngineError> {
        while let Some(event) = self.gates.next_event() {
            self.on_event(event)?;
        }
        self.read_rings();
        Ok(())
    }

    fn on_time(&mut self) -> Result<(), EngineError> {
        let now = monotonic_ns();
        match &self.state {
            State::Seek {
                tid,
                site,
                deadline,
                ..
            } if now >= *deadline => {
                let (tid, site) = (*tid, *site);
                self.give_up_seek(tid, site);
            }
            State::Stalled(stalled) if now >= stalled.deadline => self.end_stall(None),
            State::Stalled(stalled) if now >= stalled.look_at_locks => self.look_at_locks(),
            State::Confirm(confirm) if now >= confirm.deadline => self.end_confirm(false),
            State::Idle if self.substitute.is_none() && !self.arming.is_empty() => {
                self.tend_wait(now)?;
            }
            _ => {}
        }
        if self.next_housekeeping != 0 && now >= self.next_housekeeping {
            self.next_housekeeping = now + HOUSEKEEPING.as_nanos() as u64;
            self.housekeeping()?;
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) -> Result<(), EngineError> {
        match event.kind {
            EVENT_THREAD => {
                self.arming.note_creation(event.by);
                self.take_in_thread(event.tid)?;
                if self.arming.wants_others(self.arming.known()) {
                    self.scan_when_idle();
                }
            }
            EVENT_THREADS_LEFT => self.left_threads(),
            EVENT_EXEC => self.look_for_exec()?,
            EVENT_UNKNOWN_PC => self.scan_for_code(),
            EVENT_BUSY if matches!(self.state, State::Idle) => self.site_is_busy(),
            EVENT_CROWDED => {
                if let State::Seek { tid, site, .. } = self.state
                    && event.value == self.generation
                {
                    self.give_up_seek(tid, site);
                }
            }
            EVENT_SHARED
                if matches!(self.state, State::Idle)
                    && event.value == self.gates.control().sharing.since_ns.load(SeqCst) =>
            {
                self.end_sharing();
            }
            EVENT_BUSY
                if matches!(self.state, State::Stalled(_)) && event.value == self.generation =>
            {
                self.cut_stall_short();
            }
            EVENT_HIT
                if matches!(self.state, State::Stalled(_)) && event.value == self.generation =>
            {
                self.on_hit_in_kernel();
            }
            EVENT_KNOWN
                if matches!(self.state, State::Stalled(_)) && event.value == self.generation =>
            {
                self.shorten_stall();
            }
            EVENT_CONFIRMED
                if matches!(self.state, State::Confirm(_)) && event.value == self.generation =>
            {
                self.end_confirm(true);
            }
            _ => {}
        }
        Ok(())
    }

    /// How long a thread that is about to receive a signal which may crash it waits for what is still to be told.
    #[must_use]
    pub const fn last_words(&self) -> Duration {
        Duration::from_nanos(self.setup.stop_deadline_ns / 4)
    }

    /// Disarms everything and tells the last numbers. The threads are released by the exit of
    /// this process, without a stop (invariant I3).
    pub fn end(&mut self, ending: Ending) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(ending);
        let _ = self.take_records();
        // What is still to be told may take a while: nobody stands still for it.
        match &self.state {
            State::Stalled(_) if self.caught() > 0 => self.end_stall(None),
            State::Stalled(stalled) => self.let_go(stalled.tid),
            _ => {}
        }
        let completed = matches!(self.state, State::Confirm(_)) && self.is_confirmed_soon();
        self.gates
            .control()
            .phase
            .store(phase::word(self.generation, phase::CLOSED), SeqCst);
        self.arming.close_events(self.arming.delivery());
        self.site_is_disarmed();
        self.judge_last(completed);
        self.gates.flush_log();
        self.tell_coverage();
        self.tell_elsewhere(|_, _| true);
        self.tell_last_decisions();
        let statistics = self.statistics();
        self.outbox.send(&Notice::Ended(ending, statistics));
    }
}

fn strategy_of(setup: &Setup, seed: u64, log: &DecisionLog) -> Box<dyn Strategy> {
    match setup.strategy {
        Name::Clock if !setup.learns => Box::new(Clock::new(seed).without_learning()),
        Name::Clock => Box::new(Clock::new(seed)),
        Name::Planner => Box::new(Planned::new(planner_of(setup, seed, log), seed)),
    }
}

fn planner_of(setup: &Setup, seed: u64, log: &DecisionLog) -> Box<dyn Planner> {
    let planner = ByWorth::new(seed);
    if !setup.decision_log {
        return Box::new(planner);
    }
    let log = log.clone();
    Box::new(Logged::new(planner, seed, move |record| log.add(&record)))
}

/// The longest stall that a strategy may have: within the watchdog's deadline, which also has to hold what
/// comes before and after.
fn longest_stall(setup: &Setup) -> Duration {
    let usual = Duration::from_nanos(setup.stall_ns);
    let deadline = Duration::from_nanos(setup.stop_deadline_ns);
    usual
        .saturating_mul(LONGER_STALLS)
        .min(deadline / 2)
        .max(usual)
}

/// How long after its claim a thread's stall ends, at the latest: something of the watchdog's deadline is left for what comes after.
fn latest_end(setup: &Setup) -> Duration {
    Duration::from_nanos(setup.stop_deadline_ns / 4 * 3)
}

fn set_delivery(control: &Control, delivery: Delivery) {
    let value = match delivery {
        Delivery::Sigtrap => gwp_race_abi::delivery::SIGTRAP,
        Delivery::GateSignal(signal) => u32::from(signal),
    };
    control.events.delivery.store(u64::from(value), SeqCst);
}

/// Lets a stopped thread go on. One that is gone needs nothing, and one that SIGKILL has woken
/// neither.
fn release(tid: u32, signal: i32) {
    for _ in 0..RELEASES {
        // What is told of again is tried again then.
        if ptrace::resume(tid, signal).is_ok()
            || !stands(tid)
            || ptrace::has_news(tid).unwrap_or(false)
        {
            return;
        }
    }
    // Nobody would ever let it go. Our exit does.
    std::process::exit(i32::from(crate::hunt::ending::FAILED));
}

/// Whether a thread stands still for its tracer.
fn stands(tid: u32) -> bool {
    Stat::read(as_pid(tid), as_pid(tid)).is_ok_and(|stat| stat.state == 't')
}

const fn as_pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed())
}
