//! What the engine keeps up beside its samples, once a second, or less often where that is dear: delivery, clocks, values, and what was missed.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::{Counter, phase};

use crate::hunt::delivery;
use crate::hunt::delivery::{LAST_RESORT, choose_delivery};
use crate::hunt::wire::{Notice, Statistics};
use crate::kernel::process::monotonic_ns;
use crate::tracee;

use super::rig::Rig;
use super::sampler::{Purpose, State};
use super::schedule::Schedule;
use super::{Engine, EngineError, as_pid};

/// What is looked after, and when.
pub struct Upkeep {
    /// CPU time of this process and its watchdog that does not count as that of this start, ns.
    pub(super) cpu_before_start_ns: u64,
    pub(super) schedule: Schedule,
    unstoppable: Unstoppable,
}

impl Upkeep {
    pub(super) fn new(cpu_before_start_ns: u64) -> Self {
        Self {
            cpu_before_start_ns,
            schedule: Schedule::default(),
            unstoppable: Unstoppable::default(),
        }
    }
}

/// Samples that were refused for want of a harmless stop.
#[derive(Debug, Default)]
pub(super) struct Unstoppable {
    /// How many, at the last look.
    seen: u64,
    /// That nobody can be stopped.
    is_told: bool,
}

impl Engine {
    pub(super) fn housekeeping(&mut self) -> Result<(), EngineError> {
        self.rig.gates.flush_log();
        self.look_for_exec()?;
        if self.ending.is_some() {
            return Ok(());
        }
        // What the program does once a second would never be met if each wait ended then.
        let is_free = self.sampler.is_at_rest(&self.rig) && !self.sampler.waiting.is_under_way();
        if !self.upkeep.schedule.looks(monotonic_ns()) {
            // It was looked at not long ago.
        } else if self.substitute.is_some() || is_free {
            self.look_after_program()?;
        } else if !matches!(self.sampler.state, State::Scanning(Purpose::Upkeep)) {
            self.sampler.waiting.delays_scan = true;
        }
        if self.upkeep.schedule.decays(monotonic_ns()) {
            self.rig.budget.decay();
            if self.substitute.is_some() {
                self.adviser.forget_some();
            } else {
                self.sampler.waiting.decays = true;
            }
        }
        self.crew.settle(&mut self.rig);
        self.rig.budget.charge_guard(self.rig.gates.control());
        let statistics = self.statistics();
        self.rig.outbox.send(&Notice::Statistics(statistics));
        Ok(())
    }

    /// Looks for what is new in the program: modules, values, threads, how it uses the processors. That takes its time.
    pub(super) fn look_after_program(&mut self) -> Result<(), EngineError> {
        let begun = self.rig.budget.clock().ns();
        if self.sampler.state.is_idle() {
            self.choose_delivery()?;
            self.scan_when_idle();
        }
        // A thread may have been claimed at this very moment.
        self.sampler.waiting.delays_scan &=
            !matches!(self.sampler.state, State::Scanning(_)) && self.is_scan_due();
        if matches!(self.sampler.state, State::Scanning(_)) {
            self.adviser.look_at_values(&self.rig);
        }
        if self.sampler.state.holds_nobody() {
            self.adviser.tell_coverage(&mut self.rig);
            let raced = self.sampler.pairs.take_news();
            self.adviser.tell_gains(&mut self.rig, &raced);
        }
        // What it has used until now is compared with the time.
        self.crew.settle(&mut self.rig);
        // To look takes its time, and somebody may stand still.
        if self.sampler.state.holds_nobody() {
            self.rig.look_after_clocks();
        }
        // Creations of threads are told by the gates, but a full buffer may have lost some.
        self.crew.take_in_new_threads(&mut self.rig)?;
        self.crew.take_back(&mut self.rig)?;
        let worked = self.rig.budget.clock().ns().saturating_sub(begun);
        self.upkeep
            .schedule
            .rest(monotonic_ns(), self.rig.budget.rest_after(worked));
        Ok(())
    }

    /// A program may install or remove a handler for the signal that stops it: the gates then
    /// refuse (I1), and another signal must do.
    pub(super) fn choose_delivery(&mut self) -> Result<(), EngineError> {
        let unstoppable = self.rig.counter(Counter::SampleUnstoppable);
        if unstoppable == self.upkeep.unstoppable.seen {
            return Ok(());
        }
        self.upkeep.unstoppable.seen = unstoppable;
        let chosen = match choose_delivery(self.rig.program.pid, &self.rig.gates) {
            Ok(Some(chosen)) if chosen != self.rig.arming.delivery() => chosen,
            Ok(None) => {
                self.upkeep.unstoppable.tell(&mut self.rig);
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.rig.outbox.send(&Notice::Debug(format!(
            "threads are stopped by {chosen} from now on"
        )));
        self.sampler
            .waiting
            .stop_waiting(&mut self.rig, &mut self.adviser);
        self.rig.arming.close_events(chosen);
        delivery::tell(self.rig.gates.control(), chosen);
        self.crew.fit_events_to_known(&mut self.rig);
        for tid in tracee::threads::list(as_pid(self.rig.program.pid))? {
            let tid = tid.as_raw().cast_unsigned();
            if self.rig.arming.seize(tid)? {
                self.rig.open_events(tid)?;
            }
        }
        Ok(())
    }

    /// A thread stands at the end of an exec. It is armed; the modules are read when it runs again.
    pub(super) fn on_exec(&mut self, tid: u32) -> Result<(), EngineError> {
        self.begin_start_up();
        self.profiler.forget(&self.rig);
        self.sampler.forget_caught(&mut self.rig);
        self.crew.creations.forget_all();
        self.sampler.abandon(&mut self.rig);
        self.sampler
            .waiting
            .stop_waiting(&mut self.rig, &mut self.adviser);
        self.sampler.enter(&self.rig, phase::CLOSED);
        self.rig.arming.reset_to(tid);
        self.rig.program.executes_another(tid);
        self.rig.program.check_architecture()?;
        let delivery = choose_delivery(tid, &self.rig.gates)?.unwrap_or(LAST_RESORT);
        self.upkeep.unstoppable.is_told = false;
        self.rig
            .outbox
            .send(&Notice::Debug(format!("threads are stopped by {delivery}")));
        self.rig.arming.close_events(delivery);
        delivery::tell(self.rig.gates.control(), delivery);
        // Nothing is armed, and nobody can be claimed.
        self.rig
            .gates
            .control()
            .process
            .tgid
            .store(u64::from(tid), SeqCst);
        self.crew.adoption.forget();
        self.crew.count_alone(&self.rig);
        self.crew.fit_events(&mut self.rig, 1);
        self.rig.budget.forget();
        self.adviser.locks.forget();
        self.adviser.learned.locks.forget();
        self.rig
            .program
            .begin_activity(self.rig.arming.tids().collect());
        self.rig.open_events(tid)
    }
}

impl Unstoppable {
    /// Tells once that a program's threads cannot be stopped.
    fn tell(&mut self, rig: &mut Rig) {
        if !std::mem::replace(&mut self.is_told, true) {
            rig.outbox.warn(format!(
                "process {} handles or blocks SIGURG and SIGWINCH itself, and does not ignore SIGTRAP: none of its threads can be stopped without its \
                 noticing, so none is, and no race is found in it; if it was attached to, start it by `gwp-race run`, which leaves it with SIGTRAP ignored; if it \
                 handles that, too, as all programs of Go do, watch the code in another program (see \"Go\" in docs/compatibility.md)",
                rig.program.pid
            ));
        }
    }
}

impl Engine {
    pub(super) fn statistics(&self) -> Statistics {
        const NANO: f64 = 1e-9;
        let sampled = self.rig.gates.control().budget.sampled_ns.load(SeqCst);
        let cpu_s = self.rig.program.cpu_used().max(sampled) as f64 * NANO;
        let [own_stops, times_let_alone] = self.crew.respite.counts();
        Statistics {
            gates: Counter::ALL
                .iter()
                .map(|&counter| (counter.name().to_owned(), self.rig.counter(counter)))
                .collect(),
            not_reported: self.rig.figures.not_reported.clone(),
            no_stall: self.rig.figures.no_stall.clone(),
            stops: self.rig.figures.stops,
            own_stops,
            times_let_alone,
            let_alone_s: self.crew.respite.alone_ns(monotonic_ns()) as f64 * NANO,
            stalls: self.rig.figures.stalls,
            waits: self.sampler.waiting.count,
            probe_bursts: self.profiler.bursts,
            probe_hits: self.profiler.hits,
            probes_armed: self.profiler.standing.armed,
            probes_hot: self.profiler.standing.hot,
            coverage: self.adviser.strategy.coverage(),
            expected_races: self.adviser.strategy.expected_races(),
            decisions: self.adviser.decisions.named(),
            stalls_of_preempted: self.rig.figures.stalls_of_preempted,
            stalls_cut_short: self.rig.figures.stalls_cut_short,
            watched_s: self.rig.figures.watched_ns as f64 * NANO,
            stopped_s: self.rig.budget.stopped_ns as f64 * NANO,
            spent_s: self.rig.budget.spent_s(self.rig.gates.control()),
            target_cpu_s: cpu_s,
            value_changed_unknown_origin: self.rig.figures.value_changed,
            unwatchable_threads: self.rig.arming.unwatchable() as u64,
            dropped_messages: self.rig.outbox.dropped(),
        }
    }
}
