//! What the engine keeps up beside its samples, once a second, or less often where that is dear: delivery, clocks, values, and what was missed.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::Counter;
use gwp_race_abi::phase;

use crate::addr::RuntimeAddr;
use crate::hunt::budget::Budget;
use crate::hunt::clocks;
use crate::hunt::delivery::{self, LAST_RESORT, choose_delivery};
use crate::hunt::wire::Notice;
use crate::kernel::cpus;
use crate::kernel::process::cpu_time_ns;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;
use crate::tracee;
use crate::tracee::memory;
use crate::tracee::memory::Resident;

use super::{Engine, EngineError, Purpose, State, as_pid};

/// Samples that were refused for want of a harmless stop.
#[derive(Debug, Default)]
pub(super) struct Unstoppable {
    /// How many, at the last look.
    seen: u64,
    /// That nobody can be stopped.
    is_told: bool,
}

impl Engine {
    /// Programs change what they do, and memory is used for something else.
    pub(super) fn forget_some(&mut self) {
        self.strategy.decay();
        self.learned.decay();
    }

    pub(super) fn housekeeping(&mut self) -> Result<(), EngineError> {
        self.gates.flush_log();
        self.look_for_exec()?;
        if self.ending.is_some() {
            return Ok(());
        }
        // What the program does once a second would never be met if each wait ended then.
        let is_free = self.is_at_rest() && !self.waiting.is_under_way();
        if !self.schedule.looks(monotonic_ns()) {
            // It was looked at not long ago.
        } else if self.substitute.is_some() || is_free {
            self.look_after_program()?;
        } else if !matches!(self.state, State::Scanning(Purpose::Upkeep)) {
            self.waiting.delays_scan = true;
        }
        if self.schedule.decays(monotonic_ns()) {
            self.budget.decay();
            if self.substitute.is_some() {
                self.forget_some();
            } else {
                self.waiting.decays = true;
            }
        }
        self.settle();
        self.budget.charge_guard(self.gates.control());
        let statistics = self.statistics();
        self.outbox.send(&Notice::Statistics(statistics));
        Ok(())
    }

    /// Looks for what is new in the program: modules, values, threads, how it uses the processors. That takes its time.
    pub(super) fn look_after_program(&mut self) -> Result<(), EngineError> {
        let begun = cpu_time_ns();
        if matches!(self.state, State::Idle) {
            self.choose_delivery()?;
            self.scan_when_idle();
        }
        // A thread may have been claimed at this very moment.
        self.waiting.delays_scan &= !matches!(self.state, State::Scanning(_)) && self.is_scan_due();
        self.look_at_values();
        if matches!(self.state, State::Idle | State::Scanning(_)) {
            self.tell_coverage();
        }
        // What it has used until now is compared with the time.
        self.settle();
        self.look_after_clocks();
        // Creations of threads are told by the gates, but a full buffer may have lost some.
        self.take_in_new_threads()?;
        self.take_back()?;
        let worked = cpu_time_ns().saturating_sub(begun);
        self.schedule
            .rest(monotonic_ns(), self.budget.rest_after(worked));
        Ok(())
    }

    /// Lets the strategy look at values, while nobody can be claimed: that takes its time. Nothing is fetched from anywhere
    /// for it.
    fn look_at_values(&mut self) {
        let pid = as_pid(self.program.pid);
        if matches!(self.state, State::Scanning(_))
            && let Ok(resident) = Resident::of(pid)
        {
            let read = |address, bytes: &mut [u8]| {
                let address = RuntimeAddr(address);
                resident.has(address) && matches!(memory::read_exact(pid, address, bytes), Ok(true))
            };
            self.strategy.look_at_values(&read);
        }
    }

    /// A program may install or remove a handler for the signal that stops it: the gates then
    /// refuse (I1), and another signal must do.
    pub(super) fn choose_delivery(&mut self) -> Result<(), EngineError> {
        let unstoppable = self.counter(Counter::SampleUnstoppable);
        if unstoppable == self.unstoppable.seen {
            return Ok(());
        }
        self.unstoppable.seen = unstoppable;
        let chosen = match choose_delivery(self.program.pid, &self.gates) {
            Ok(Some(chosen)) if chosen != self.arming.delivery() => chosen,
            Ok(None) => {
                self.cannot_stop();
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.outbox.send(&Notice::Debug(format!(
            "threads are stopped by {chosen} from now on"
        )));
        self.stop_waiting();
        self.arming.close_events(chosen);
        delivery::tell(self.gates.control(), chosen);
        self.fit_events(self.arming.known());
        for tid in tracee::threads::list(as_pid(self.program.pid))? {
            let tid = tid.as_raw().cast_unsigned();
            if self.arming.seize(tid)? {
                self.open_events(tid)?;
            }
        }
        Ok(())
    }

    /// Tells once that a program's threads cannot be stopped.
    fn cannot_stop(&mut self) {
        if !std::mem::replace(&mut self.unstoppable.is_told, true) {
            self.outbox.warn(format!(
                "process {} handles or blocks SIGTRAP, SIGURG and SIGWINCH itself, as all programs of Go do: none of its \
                 threads can be stopped without its noticing, so none is, and no race is found in it; watch the code in a program that leaves one of them \
                 alone (see \"Go\" in docs/compatibility.md)",
                self.program.pid
            ));
        }
    }

    /// A thread stands at the end of an exec. It is armed; the modules are read when it runs again.
    pub(super) fn on_exec(&mut self, tid: u32) -> Result<(), EngineError> {
        self.forget_caught();
        self.abandon();
        self.stop_waiting();
        self.enter(phase::CLOSED);
        self.arming.reset_to(tid);
        self.program.pid = tid;
        self.program.check_architecture()?;
        let delivery = choose_delivery(tid, &self.gates)?.unwrap_or(LAST_RESORT);
        self.unstoppable.is_told = false;
        self.outbox
            .send(&Notice::Debug(format!("threads are stopped by {delivery}")));
        self.arming.close_events(delivery);
        delivery::tell(self.gates.control(), delivery);
        // Nothing is armed, and nobody can be claimed.
        self.gates
            .control()
            .process
            .tgid
            .store(u64::from(tid), SeqCst);
        self.adoption.forget();
        self.count_alone();
        self.fit_events(1);
        self.budget.forget();
        self.locks.forget();
        self.learned.locks.forget();
        self.program.begin_activity(self.arming.tids().collect());
        self.open_events(tid)
    }

    /// Lets the processors' clocks tick as often as what the program does can pay for, and wants them where those of
    /// threads are dear.
    fn look_after_clocks(&mut self) {
        /// A look at less says nothing.
        const LEAST: Duration = Duration::from_millis(500);
        /// Looks in a row: what a program does at its start is not what it does.
        const LOOKS: u32 = 3;
        let passed_ns = monotonic_ns().saturating_sub(self.program.activity.time_ns);
        // To look takes its time, and somebody may stand still.
        if passed_ns < nanos(LEAST) || !matches!(self.state, State::Idle | State::Scanning(_)) {
            return;
        }
        let passed_ns = passed_ns as f64;
        let share = self.setup.max_overhead;
        let ticking = self.arming.ticking_cpus();
        let before = std::mem::take(&mut self.program.activity);
        self.program.begin_activity(self.arming.tids().collect());
        let done = self.program.activity.since(&before);
        let used = self.program.activity.used_ns.saturating_sub(before.used_ns) as f64 / passed_ns;
        if self.substitute.is_none() {
            let waiting = done.map_or(0.0, |done| done.waited * 1e9 / passed_ns);
            let of = cpus::usable_by(as_pid(self.program.pid));
            self.budget.program_uses(used, of, waiting);
        }
        if self.arming.may_be_dear()
            && let Some(done) = done
            && clocks::are_dear(done.turns * 1e9 / passed_ns, used, share)
        {
            self.program.activity.dear = before.dear + 1;
            if self.program.activity.dear >= LOOKS {
                self.arming.want_cpus();
            }
        }
        let period_ns = if ticking == 0 || self.setup.sample_period_ns.is_some() {
            self.period_ns
        } else {
            let trap_cost_ns = self.gates.control().budget.trap_cost_ns.load(SeqCst);
            Budget::period_of_cpus_ns(self.period_ns, ticking, used, share, trap_cost_ns)
        };
        self.arming
            .set_period_of_cpus(Duration::from_nanos(period_ns));
    }
}
