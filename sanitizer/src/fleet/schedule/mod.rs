//! Whose turn it is. A process is watched by *leases* of some seconds each, a few at the same time on a machine; this says when one begins and ends.
//!
//! A lease is paid from two [purses](Purse), that of the process and that of the machine, and what it may cost is set aside before it begins. The next
//! one is drawn by lot, by what a build promises, how active a process is, and how long it has waited; whoever has waited half a day is
//! next. Processes that live shortly are paid for together, by their build, and leased as soon as they begin, for by the time of a draw they are gone.
//!
//! Nothing is leased while the machine is short of processors or memory, while another tool holds the breakpoints, or when somebody has said so, and no more than there
//! are slots to be had.

mod build;
mod event;
mod holds;
mod lease;
mod lottery;
mod record;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Duration};

pub use event::{Action, BuildId, Event, ProcessId, Reason};
pub use holds::RETRY;

use build::Build;
use holds::Holds;
use lease::Lease;
use record::Record;

use super::{purse::Purse, settings::Settings};
use lottery::Ticket;

/// The shortest and the longest lease. To begin one costs some milliseconds, and what is found comes seldom after the first minute.
pub const SHORTEST: Duration = Duration::from_secs(2);
/// See [`SHORTEST`].
pub const LONGEST: Duration = Duration::from_secs(60);
/// The least that a lease needs. To begin one costs some 5 ms, and to stop a thread 1 to 4: with less there would be hardly anything but beginnings.
const LEAST: Duration = Duration::from_millis(20);
/// A lease in which nothing new has come for so long is over, if the process has worked meanwhile: by this CPU time. Who works in short bursts shows something new in the next one.
const QUIET: Duration = Duration::from_secs(10);
/// See [`QUIET`].
const WORKED: Duration = Duration::from_millis(100);
/// What a process or the machine may save, as a share of its budget: with it none has over 1.2 % in any ten minutes where 1 % is the budget.
const AHEAD: f64 = 0.2;
/// The same for the machine, which never has more than its budget: what it may save is a part of it.
const HOST_AHEAD: f64 = 0.1;

/// See the module. Times are counted from any fixed moment, and never go back.
#[derive(Clone, Debug)]
pub struct Scheduler {
    settings: Settings,
    processors: u32,
    random: fastrand::Rng,
    host: Purse,
    as_of: Duration,
    builds: HashMap<BuildId, Build>,
    /// New races that are to be expected of the best build for each second of what leases cost.
    best: f64,
    processes: HashMap<ProcessId, Record>,
    leases: Vec<Lease>,
    taken: usize,
    /// gwp-race takes too much memory for another lease.
    is_full: bool,
    holds: Holds,
    /// Processes that live shortly and have no lease yet, in the order of their beginnings.
    urgent: Vec<ProcessId>,
    /// Who was drawn and waits until the machine has saved enough: those that need less do not come before him.
    drawn: Option<ProcessId>,
}

impl Scheduler {
    /// Knows no process yet. `processors`: of the machine; `seed`: of the lots.
    #[must_use]
    pub fn new(settings: Settings, processors: u32, seed: u64, now: Duration) -> Self {
        let host = settings.budget.host;
        let mut purse = Purse::new(host * (1.0 - HOST_AHEAD), host * HOST_AHEAD);
        purse.earn(now, Duration::ZERO);
        Self {
            settings,
            processors,
            random: fastrand::Rng::with_seed(seed),
            host: purse,
            as_of: now,
            builds: HashMap::new(),
            best: 0.0,
            processes: HashMap::new(),
            leases: Vec::new(),
            taken: 0,
            is_full: false,
            holds: Holds::default(),
            urgent: Vec::new(),
            drawn: None,
        }
    }

    /// Takes note of what has happened. What is to be done about it, [`Scheduler::decide`] says.
    pub fn take(&mut self, now: Duration, event: Event) {
        match event {
            Event::Began {
                process,
                build,
                cpu,
            } => self.begin(now, process, build, cpu),
            Event::Used { process, cpu } => {
                if let Some(record) = self.processes.get_mut(&process) {
                    record.has_used(now, cpu);
                }
            }
            Event::Ended { process } => self.end(now, process),
            Event::Charged {
                process,
                cost,
                is_new,
                expected,
            } => {
                self.charge(now, process, cost, is_new);
                self.was_tried(process, cost, expected);
            }
            Event::LeaseEnded { process } => {
                self.leases.retain(|lease| lease.process != process);
                if let Some(record) = self.processes.get_mut(&process) {
                    record.lease_is_over();
                }
            }
            Event::Overhead { cost } => self.host.spend(cost),
            Event::Taken { slots } => self.taken = slots,
            Event::Full { is_full } => self.is_full = is_full,
            Event::Rests { process, until } => {
                if let Some(record) = self.processes.get_mut(&process) {
                    record.rests = until;
                }
            }
            Event::LeftAlone { build } => self.build(build).is_left_alone = true,
            Event::Forgotten { build } => {
                self.builds.remove(&build);
                self.find_best();
            }
            Event::Pressure { is_high } => self.holds.is_pressed = is_high,
            Event::BreakpointsTaken => self.holds.breakpoints_are_taken(now),
            Event::Paused { until } => self.holds.pause(until),
            Event::Resumed => self.holds.resume(),
        }
    }

    /// What is to be done now. To be asked after events that are urgent, and about once a second; one lease begins at a time.
    pub fn decide(&mut self, now: Duration) -> Vec<Action> {
        let since = now.saturating_sub(self.as_of);
        self.as_of = now;
        self.host.earn(now, since * self.processors);
        let mut actions = self.ends(now);
        if self.holds.reason(now).is_none() && !self.is_full {
            actions.extend(self.next(now));
        }
        actions
    }

    /// How long somebody waits whose purse has allowed a lease.
    #[must_use]
    pub fn longest_wait(&self, now: Duration) -> Duration {
        let waits = self.processes.values().map(|record| record.waits(now));
        waits.max().unwrap_or_default()
    }

    /// Processors that a process has kept busy lately.
    #[must_use]
    pub fn activity(&self, process: ProcessId) -> f32 {
        let record = self.processes.get(&process);
        record.map_or(0.0, Record::activity)
    }

    /// What the purse of a process holds.
    pub fn purse(&mut self, now: Duration, process: ProcessId) -> Duration {
        let record = self.processes.get_mut(&process);
        record.map_or(Duration::ZERO, |record| record.purse.left(now))
    }

    /// For how long nothing is leased for the sake of another tool that wants the breakpoints, where that is so.
    #[must_use]
    pub fn makes_room(&self, now: Duration) -> Option<Duration> {
        self.holds.makes_room(now)
    }

    /// What the machine's purse holds.
    pub fn purse_of_machine(&mut self, now: Duration) -> Duration {
        self.host.left(now)
    }

    fn build(&mut self, build: BuildId) -> &mut Build {
        let rate = self.settings.budget.process;
        self.builds
            .entry(build)
            .or_insert_with(|| Build::new(Purse::new(rate, rate * AHEAD)))
    }

    fn begin(&mut self, now: Duration, process: ProcessId, build: BuildId, cpu: Duration) {
        let rate = self.settings.budget.process;
        let purse = Purse::new(rate, rate * AHEAD);
        let best = self.best;
        let is_short_lived = self.build(build).is_short_lived(best);
        let record = Record::new(build, purse, now, cpu);
        self.processes.insert(process, record);
        if is_short_lived {
            self.urgent.push(process);
        }
    }

    fn end(&mut self, now: Duration, process: ProcessId) {
        self.leases.retain(|lease| lease.process != process);
        self.urgent.retain(|&one| one != process);
        if let Some(record) = self.processes.remove(&process) {
            self.build(record.build()).has_ended(now, &record);
        }
    }

    fn charge(&mut self, now: Duration, process: ProcessId, cost: Duration, is_new: bool) {
        self.host.spend(cost);
        let lease = self.leases.iter_mut().find(|one| one.process == process);
        if let Some(lease) = lease {
            lease.charge(cost);
            if is_new {
                let record = self.processes.get(&process);
                lease.has_news(now, record.map(Record::cpu).unwrap_or_default());
            }
            let (by_build, build) = (lease.is_paid_by_build, lease.build);
            if by_build {
                self.build(build).purse.spend(cost);
            } else if let Some(record) = self.processes.get_mut(&process) {
                record.purse.spend(cost);
            }
        }
    }

    /// A lease of a process has cost something, of which so many new races were to be expected.
    fn was_tried(&mut self, process: ProcessId, cost: Duration, expected: f64) {
        let build = self.processes.get(&process).map(Record::build);
        if let Some(build) = build.and_then(|build| self.builds.get_mut(&build)) {
            build.was_tried(cost, expected);
            self.find_best();
        }
    }

    fn find_best(&mut self) {
        let yields = self.builds.values().filter(|build| !build.is_left_alone);
        self.best = yields.filter_map(Build::yields).fold(0.0, f64::max);
    }

    /// Leases that are to end, told once each.
    fn ends(&mut self, now: Duration) -> Vec<Action> {
        let held = self.holds.reason(now);
        let slots = self.settings.leases.saturating_sub(self.taken);
        let mut too_many = self.leases.len().saturating_sub(slots);
        let mut actions = Vec::new();
        for lease in &mut self.leases {
            let is_left_alone = self.builds.get(&lease.build);
            let is_left_alone = is_left_alone.is_some_and(|build| build.is_left_alone);
            // Those that have begun first are the first ones here.
            let is_taken = too_many > 0;
            too_many = too_many.saturating_sub(1);
            let record = self.processes.get(&lease.process);
            let cpu = record.map(Record::cpu).unwrap_or_default();
            let reason = held
                .or(is_left_alone.then_some(Reason::LeftAlone))
                .or(is_taken.then_some(Reason::Taken))
                .or_else(|| lease.reason_to_end(now, cpu));
            if let Some(reason) = reason
                && lease.is_to_end()
            {
                let process = lease.process;
                actions.push(Action::End { process, reason });
            }
        }
        actions
    }

    /// The next lease; or the end of one that makes room for it.
    fn next(&mut self, now: Duration) -> Option<Action> {
        let slots = self.settings.leases.saturating_sub(self.taken);
        let has_room = self.leases.len() < slots;
        let drawn = self.drawn(now);
        // Who has waited long comes before those who cannot wait.
        let is_late = drawn.is_some_and(|drawn| drawn.waited >= lottery::LONG);
        if !is_late && let Some(process) = self.next_urgent(now) {
            if has_room {
                return self.lease(now, process, true);
            }
            let mut longest = self.leases.iter_mut();
            let lease = longest.find(|lease| lease.may_be_displaced(now))?;
            let process = lease.process;
            return lease.is_to_end().then_some(Action::End {
                process,
                reason: Reason::Displaced,
            });
        }
        let drawn = drawn.filter(|drawn| has_room && drawn.needs <= self.free(now))?;
        self.drawn = None;
        self.lease(now, drawn.process, false)
    }

    /// Begins a lease, for which what it may cost is set aside.
    fn lease(&mut self, now: Duration, process: ProcessId, by_build: bool) -> Option<Action> {
        let free = self.free(now);
        let record = self.processes.get_mut(&process)?;
        let build = record.build();
        record.is_leased(by_build);
        let left = if by_build {
            self.urgent.retain(|&one| one != process);
            // Others of the build are paid by the same purse.
            let leases = self.leases.iter();
            let others = leases.filter(|one| one.is_paid_by_build && one.build == build);
            let reserved: Duration = others.map(Lease::rest).sum();
            let left = self.builds.get_mut(&build)?.purse.left(now);
            left.saturating_sub(reserved)
        } else {
            record.purse.left(now)
        };
        let most = left.min(free);
        let cpu = record.cpu();
        self.leases
            .push(Lease::new(process, build, (now, cpu), most, by_build));
        Some(Action::Begin {
            process,
            most,
            share: self.settings.budget.lease,
        })
    }

    /// What of the machine's purse is not set aside.
    fn free(&mut self, now: Duration) -> Duration {
        let reserved: Duration = self.leases.iter().map(Lease::rest).sum();
        self.host.left(now).saturating_sub(reserved)
    }

    /// The process that lives shortly, has a purse, and has waited longest.
    fn next_urgent(&mut self, now: Duration) -> Option<ProcessId> {
        let free = self.free(now);
        let share = self.settings.budget.lease;
        let urgent = self.urgent.iter().copied();
        let mut chosen = urgent.filter(|process| {
            let record = self.processes.get(process);
            let record = record.filter(|record| !record.is_resting(now));
            let build = record.and_then(|record| self.builds.get_mut(&record.build()));
            build.is_some_and(|build| build.can_pay(now, share, free))
        });
        let first = chosen.next();
        drop(chosen);
        // One that has lived on is drawn by lot like others.
        let processes = &self.processes;
        self.urgent.retain(|process| {
            let record = processes.get(process);
            record.is_some_and(|record| now.saturating_sub(record.began()) <= build::SHORT)
        });
        first
    }

    /// Who was drawn, if his purse allows it still; else one is drawn by lot of those whose purses do.
    fn drawn(&mut self, now: Duration) -> Option<Ticket> {
        if let Some(ticket) = self.drawn.and_then(|process| self.ticket(now, process)) {
            return Some(ticket);
        }
        let processes: Vec<_> = self.processes.keys().copied().collect();
        let mut tickets = Vec::new();
        for process in processes {
            tickets.extend(self.ticket(now, process));
        }
        let drawn = lottery::draw(&mut tickets, &mut self.random);
        self.drawn = drawn.map(|ticket| ticket.process);
        drawn
    }

    /// What a process takes part with, if its purse allows a lease.
    fn ticket(&mut self, now: Duration, process: ProcessId) -> Option<Ticket> {
        let record = self.processes.get_mut(&process)?;
        let build = self.builds.get(&record.build())?;
        if build.is_left_alone {
            return None;
        }
        Some(Ticket {
            process,
            needs: record.needs(now, self.settings.budget.lease)?,
            promise: build.promise(self.best),
            activity: record.activity(),
            waited: record.waits(now),
        })
    }
}
