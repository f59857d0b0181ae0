//! A machine whose processes use processors as they are told to, with samplers that spend what a lease allows, as soon as it does, and a stall more.

use std::{collections::BTreeMap, sync::atomic::Ordering::SeqCst, time::Duration};

use crate::{
    fleet::{
        purse::{SMALL, WINDOW},
        schedule::{Action, BuildId, Event, ProcessId, Reason, Scheduler},
        settings::Settings,
    },
    hunt::budget::{Advance, Allowance, Budget},
    kernel::{
        gates::Gates,
        process::{WorkClock, nanos},
    },
};

/// The last stall of a lease may cost so much more than was left.
pub const STALL: Duration = Duration::from_millis(1);
/// What it costs to begin a lease.
pub const BEGINNING: Duration = Duration::from_millis(5);
/// How often processes without a lease are looked at.
const LOOKS: u64 = 60;
/// How likely something new comes of a lease in a step.
const NEW: f64 = 0.4;
/// New races that are to be expected of any build for each second of cost.
pub const USUAL: f64 = 0.1;
/// Seconds of a piece of the log.
const PIECE: u64 = 60;

/// How many processors a process keeps busy.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    Steady(f64),
    /// Half of the time.
    Turns {
        busy: f64,
        period: Duration,
    },
}

impl Load {
    fn at(self, now: Duration) -> f64 {
        match self {
            Self::Steady(load) => load,
            Self::Turns { busy, period } => {
                let part = now.as_secs_f64() / period.as_secs_f64();
                if part.fract() < 0.5 { busy } else { 0.0 }
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    began: Duration,
    most: Duration,
    cpu: f64,
    spent: f64,
}

/// What a lease earns, by the budget that real ones have.
struct Account {
    gates: Gates,
    budget: Budget,
}

impl Account {
    /// Of a lease that may cost so much in all, and such a share of what its process uses.
    fn new(most: Duration, share: f64) -> Self {
        const PERIOD_NS: u64 = 10_000_000;
        const TRAP_NS: u64 = 5_000;
        let gates = Gates::in_user_space().unwrap();
        let control = gates.control();
        let (saved, clock) = (
            Advance::Saved(Allowance::usual(most)),
            WorkClock::of_share(1),
        );
        let budget = Budget::new(control, PERIOD_NS, share, TRAP_NS, saved, clock);
        let budget = budget.without_gates(control);
        Self { gates, budget }
    }

    /// What it has earned in all when its process has used so much CPU time, seconds.
    fn earned(&mut self, used: f64) -> f64 {
        let used = nanos(Duration::from_secs_f64(used));
        self.budget.earn(self.gates.control(), used);
        let earned = self.gates.control().budget.earned_ns.load(SeqCst);
        Duration::from_nanos(earned).as_secs_f64()
    }
}

/// A process.
#[derive(Clone, Debug)]
pub struct Simulated {
    pub id: ProcessId,
    pub build: BuildId,
    pub leases: u32,
    load: Load,
    ends: Option<Duration>,
    /// CPU time in seconds, and up to when that is.
    cpu: f64,
    as_of: Duration,
    lease: Option<Lease>,
    leased_at: Option<Duration>,
    /// Seconds of CPU time and of cost, by the piece of time.
    log: BTreeMap<u64, (f64, f64)>,
}

impl Simulated {
    /// Whether it keeps so much of a processor busy all the time.
    pub fn uses_at_least(&self, least: f64) -> bool {
        matches!(self.load, Load::Steady(load) if load >= least)
    }

    /// Works until then, or its end.
    fn go_to(&mut self, now: Duration) {
        let until = self.ends.map_or(now, |ends| ends.min(now));
        let seconds = until.saturating_sub(self.as_of).as_secs_f64();
        let used = seconds * self.load.at(self.as_of);
        self.as_of = self.as_of.max(until);
        self.cpu += used;
        if let Some(lease) = &mut self.lease {
            lease.cpu += used;
        }
        self.log.entry(piece(until)).or_default().0 += used;
    }
}

fn piece(now: Duration) -> u64 {
    now.as_secs() / PIECE
}

/// See the module.
pub struct World {
    pub scheduler: Scheduler,
    pub random: fastrand::Rng,
    pub processors: u32,
    /// Leases that have ended: how long they have lasted, and why, where they were told to.
    pub ended: Vec<(Duration, Option<Reason>)>,
    /// What the process of each has used in it, and what it has cost, seconds.
    pub costs: Vec<(f64, f64)>,
    /// New races that are to be expected of builds for each second of cost, where that is not [`USUAL`].
    pub yields: BTreeMap<u32, f64>,
    /// Leases at the same time since somebody has looked.
    pub most_leases: usize,
    now: Duration,
    processes: BTreeMap<ProcessId, Simulated>,
    gone: Vec<Simulated>,
    leased: Vec<ProcessId>,
    accounts: BTreeMap<ProcessId, Account>,
}

impl World {
    /// As often it is decided.
    pub const STEP: Duration = Duration::from_secs(1);

    pub fn new(settings: Settings, processors: u32, seed: u64) -> Self {
        Self {
            scheduler: Scheduler::new(settings, processors, seed, Duration::ZERO),
            random: fastrand::Rng::with_seed(seed),
            processors,
            ended: Vec::new(),
            costs: Vec::new(),
            yields: BTreeMap::new(),
            most_leases: 0,
            now: Duration::ZERO,
            processes: BTreeMap::new(),
            gone: Vec::new(),
            leased: Vec::new(),
            accounts: BTreeMap::new(),
        }
    }

    pub const fn now(&self) -> Duration {
        self.now
    }

    /// How many leases there are.
    pub const fn leases(&self) -> usize {
        self.leased.len()
    }

    pub fn start(&mut self, build: BuildId, load: Load, lives: Option<Duration>) -> ProcessId {
        let id = ProcessId((self.processes.len() + self.gone.len()) as u64);
        let one = Simulated {
            id,
            build,
            leases: 0,
            load,
            ends: lives.map(|lives| self.now + lives),
            cpu: 0.0,
            as_of: self.now,
            lease: None,
            leased_at: None,
            log: BTreeMap::new(),
        };
        self.processes.insert(id, one);
        let event = Event::Began {
            process: id,
            build,
            cpu: Duration::ZERO,
        };
        self.scheduler.take(self.now, event);
        id
    }

    /// All processes, those that have ended too.
    pub fn simulated(&self) -> impl Iterator<Item = &Simulated> {
        self.processes.values().chain(&self.gone)
    }

    pub fn leased_at(&self, process: ProcessId) -> Option<Duration> {
        let mut all = self.simulated();
        all.find(|one| one.id == process)?.leased_at
    }

    /// What all leases have cost, in seconds, and how many there were.
    pub fn cost_of_leases(&self) -> (f64, u32) {
        let pieces = self.simulated().flat_map(|one| one.log.values());
        let leases = self.simulated().map(|one| one.leases);
        (pieces.map(|one| one.1).sum(), leases.sum())
    }

    /// CPU time and cost of all processes of a build, in seconds.
    pub fn of_build(&self, build: BuildId) -> (f64, f64) {
        let of_build = self.simulated().filter(|one| one.build == build);
        let pieces = of_build.flat_map(|one| one.log.values());
        pieces.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    pub fn run_until(&mut self, end: Duration) {
        while self.now < end {
            self.now += Self::STEP;
            self.step();
        }
    }

    fn step(&mut self) {
        let now = self.now;
        let ended: Vec<_> = self
            .processes
            .values()
            .filter(|one| one.ends.is_some_and(|ends| ends <= now))
            .map(|one| one.id)
            .collect();
        for process in ended {
            self.end(process);
        }
        for process in self.leased.clone() {
            self.sample(process);
        }
        let is_due = |one: &&mut Simulated| (now.as_secs() + one.id.0).is_multiple_of(LOOKS);
        for one in self.processes.values_mut().filter(is_due) {
            one.go_to(now);
            let cpu = Duration::from_secs_f64(one.cpu);
            let process = one.id;
            self.scheduler.take(now, Event::Used { process, cpu });
        }
        for action in self.scheduler.decide(now) {
            match action {
                Action::Begin {
                    process,
                    most,
                    share,
                } => self.begin(process, most, share),
                Action::End { process, reason } => self.end_lease(process, Some(reason)),
            }
        }
        self.most_leases = self.most_leases.max(self.leased.len());
    }

    fn begin(&mut self, process: ProcessId, most: Duration, share: f64) {
        let one = self.processes.get_mut(&process).unwrap();
        one.go_to(self.now);
        one.leases += 1;
        one.leased_at.get_or_insert(self.now);
        let lease = Lease {
            began: self.now,
            most,
            cpu: 0.0,
            spent: 0.0,
        };
        assert!(one.lease.replace(lease).is_none(), "{process:?}");
        self.leased.push(process);
        self.accounts.insert(process, Account::new(most, share));
    }

    /// Spends as much as may be.
    fn sample(&mut self, process: ProcessId) {
        let now = self.now;
        let one = self.processes.get_mut(&process).unwrap();
        one.go_to(now);
        let account = self.accounts.get_mut(&process);
        let (Some(lease), Some(account)) = (&mut one.lease, account) else {
            return;
        };
        let rest = lease.most.as_secs_f64() - lease.spent;
        let earned = account.earned(lease.cpu);
        let mut cost = (earned - lease.spent).min(rest).max(0.0);
        if cost > 0.0 && cost == rest {
            cost += STALL.as_secs_f64();
        }
        lease.spent += cost;
        one.log.entry(piece(now)).or_default().1 += cost;
        let cpu = Duration::from_secs_f64(one.cpu);
        self.scheduler.take(now, Event::Used { process, cpu });
        let event = Event::Charged {
            process,
            cost: Duration::from_secs_f64(cost),
            is_new: self.random.f64() < NEW,
            expected: cost * self.yields.get(&one.build.0).copied().unwrap_or(USUAL),
        };
        self.scheduler.take(now, event);
    }

    fn end_lease(&mut self, process: ProcessId, reason: Option<Reason>) {
        self.leased.retain(|&one| one != process);
        let one = self.processes.get_mut(&process);
        if let Some(lease) = one.and_then(|one| one.lease.take()) {
            self.accounts.remove(&process);
            self.ended.push((self.now - lease.began, reason));
            self.costs.push((lease.cpu, lease.spent));
            let event = Event::LeaseEnded { process };
            self.scheduler.take(self.now, event);
        }
    }

    fn end(&mut self, process: ProcessId) {
        if self.leased.contains(&process) {
            self.sample(process);
        }
        self.end_lease(process, None);
        let mut one = self.processes.remove(&process).unwrap();
        one.go_to(self.now);
        let cpu = Duration::from_secs_f64(one.cpu);
        self.scheduler.take(self.now, Event::Used { process, cpu });
        self.scheduler.take(self.now, Event::Ended { process });
        self.gone.push(one);
    }

    /// What the machine has paid in each ten minutes, as a number of processors.
    pub fn host_windows(&self) -> impl Iterator<Item = f64> {
        let mut all: BTreeMap<u64, f64> = BTreeMap::new();
        for (piece, (_, cost)) in self.simulated().flat_map(|one| &one.log) {
            *all.entry(*piece).or_default() += cost;
        }
        let pieces = WINDOW.as_secs() / PIECE;
        (0..piece(self.now)).map(move |first| {
            let window = all.range(first..first + pieces);
            window.map(|(_, cost)| cost).sum::<f64>() / WINDOW.as_secs_f64()
        })
    }

    /// Fails where the machine has paid more than its budget in any ten minutes; the most that it has, and the budget, as numbers of processors.
    pub fn assert_host_is_spared(&self) -> (f64, f64) {
        let budget = Settings::default().budget.host * f64::from(self.processors);
        let most = self.host_windows().fold(0.0, f64::max);
        // Leases that end may cost a stall more than they had; that is paid back before the next one begins.
        let slack = 4.0 * STALL.as_secs_f64() / WINDOW.as_secs_f64();
        assert!(most <= budget + slack, "{most} {budget}");
        (most, budget)
    }

    /// How many seconds more than it may each process has paid in the ten minutes in which that was most.
    pub fn process_excess(&self) -> impl Iterator<Item = (ProcessId, f64)> {
        const RATE: f64 = 0.01;
        const AHEAD: f64 = 0.002;
        let pieces = WINDOW.as_secs() / PIECE;
        self.simulated().map(move |one| {
            let sums = |from: u64, to: u64| {
                let range = one.log.range(from..to);
                range.fold((0.0, 0.0), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1))
            };
            // Time is known by pieces here: the ten minutes that count may begin in any part of one.
            let excess = (0..=piece(self.now)).map(|first| {
                let (used, cost) = sums(first, first + pieces);
                let mut busiest: f64 = 0.0;
                for end in first..first + pieces {
                    let before = sums((end + 1).saturating_sub(pieces + 1), end + 1).0;
                    busiest = busiest.max(before);
                }
                // Each lease may end with a stall more than it had.
                let slack = STALL.as_secs_f64() * f64::from(one.leases.min(60));
                let steady = RATE * used + AHEAD * busiest;
                let small = (RATE * used + SMALL.as_secs_f64()).min((RATE + AHEAD) * busiest);
                cost - steady.max(small) - slack
            });
            (one.id, excess.fold(f64::MIN, f64::max))
        })
    }
}
