//! What the engine keeps up beside its samples: threads, modules, delivery, figures.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::Counter;
use gwp_race_abi::phase;

use crate::hunt::modules::RefreshError;
use crate::hunt::wire::Notice;
use crate::hunt::wire::Statistics;
use crate::kernel::process::monotonic_ns;
use crate::target;

use super::{DECAY_ROUNDS, Engine, EngineError, SETTLING, State, as_pid, set_delivery};

/// How long reading the files of new modules may take.
const LOADING: Duration = Duration::from_secs(10);

impl Engine {
    /// Seizes threads and opens their events until two looks agree: a thread created between
    /// its creator's seizing and opening has none by inheritance.
    pub(super) fn adopt_threads(&mut self) -> Result<(), EngineError> {
        /// A process that creates threads all the time never agrees with itself.
        const PASSES: usize = 8;
        for _ in 0..PASSES {
            let mut news = false;
            for tid in target::threads::list(as_pid(self.pid))? {
                let tid = tid.as_raw().cast_unsigned();
                if self.arming.holds(tid) {
                    continue;
                }
                news = true;
                if self.arming.seize(tid)? {
                    self.open_events(tid)?;
                }
            }
            if !news {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn open_events(&mut self, tid: u32) -> Result<(), EngineError> {
        match self.arming.open(tid, &self.gates) {
            Ok(()) => Ok(()),
            Err(error) if self.arming.len() <= 1 => Err(error.into()),
            Err(error) => {
                self.arming.mark_unwatchable(tid);
                self.outbox.send(&Notice::Debug(error.to_string()));
                Ok(())
            }
        }
    }

    pub(super) fn check_architecture(&self) -> Result<(), EngineError> {
        if target::process::Architecture::of(as_pid(self.pid))?.is_x86_64() {
            Ok(())
        } else {
            Err(EngineError::Foreign(self.pid))
        }
    }

    pub(super) fn begin_watching(&mut self) -> Result<(), EngineError> {
        self.exe = std::fs::read_link(format!("/proc/{}/exe", self.pid))
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default();
        self.refresh_modules()?;
        self.outbox.send(&Notice::Watching {
            analyzed_modules: self.modules.analyzed(),
        });
        self.next_housekeeping = monotonic_ns() + SETTLING.as_nanos() as u64;
        // Reading the modules was start-up, not sampling.
        self.budget.restart();
        Ok(())
    }

    /// Looks for new modules while no sample is in hand, and none can come: loading the tables
    /// of a large library takes tens of milliseconds, for which no thread is to wait.
    pub(super) fn refresh_when_idle(&mut self) -> Result<(), EngineError> {
        let control = self.gates.control();
        let word = control.phase.load(SeqCst);
        let closed = phase::word(phase::generation(word), phase::CLOSED);
        if phase::of(word) != phase::IDLE
            || control
                .phase
                .compare_exchange(word, closed, SeqCst, SeqCst)
                .is_err()
        {
            return Ok(());
        }
        let result = self.refresh_modules();
        self.gates.control().phase.store(word, SeqCst);
        match result {
            Err(EngineError::Modules(RefreshError::Target(error))) if error.is_vanished() => Ok(()),
            result => result,
        }
    }

    pub(super) fn refresh_modules(&mut self) -> Result<(), EngineError> {
        // Reading large files takes a while.
        self.announce_look(LOADING);
        let changes = self.modules.refresh(self.pid, &mut self.gates);
        self.announce_look(Duration::ZERO);
        let changes = changes?;
        if changes.changed {
            // Other code may stand at the same addresses now.
            self.known.clear();
            // The memory routines that new modules call are known when those are relocated.
            let soon = monotonic_ns() + SETTLING.as_nanos() as u64;
            self.next_housekeeping = self.next_housekeeping.min(soon);
            self.outbox.send(&Notice::Modules(self.modules.infos()));
        }
        for warning in changes.warnings {
            self.outbox.send(&Notice::Warning(warning));
        }
        Ok(())
    }

    pub(super) fn housekeeping(&mut self) -> Result<(), EngineError> {
        self.rounds += 1;
        self.gates.flush_log();
        if matches!(self.state, State::Idle) {
            self.refresh_when_idle()?;
            self.choose_delivery()?;
        }
        if self.rounds.is_multiple_of(DECAY_ROUNDS) {
            self.strategy.decay();
        }
        // Creations of threads are told by the gates, but a full buffer may have lost some.
        if let Ok(tids) = target::threads::list(as_pid(self.pid)) {
            for tid in tids {
                self.arming.seize(tid.as_raw().cast_unsigned())?;
            }
        }
        let statistics = self.statistics();
        self.outbox.send(&Notice::Statistics(statistics));
        Ok(())
    }

    /// A program may install or remove a handler for the signal that stops it: the gates then
    /// refuse (I1), and another signal must do.
    pub(super) fn choose_delivery(&mut self) -> Result<(), EngineError> {
        let unstoppable = self.counter(Counter::SampleUnstoppable);
        if unstoppable == self.unstoppable {
            return Ok(());
        }
        self.unstoppable = unstoppable;
        let chosen = match crate::hunt::tracer::choose_delivery(self.pid) {
            Ok(chosen) if chosen != self.arming.delivery() => chosen,
            _ => return Ok(()),
        };
        self.outbox.send(&Notice::Debug(format!(
            "threads are stopped by {chosen:?} from now on"
        )));
        self.arming.close_events(chosen);
        set_delivery(self.gates.control(), chosen);
        for tid in target::threads::list(as_pid(self.pid))? {
            let tid = tid.as_raw().cast_unsigned();
            if self.arming.seize(tid)? {
                self.open_events(tid)?;
            }
        }
        Ok(())
    }

    pub(super) fn on_exec(&mut self, tid: u32) -> Result<(), EngineError> {
        self.abandon();
        self.arming.reset_to(tid);
        self.pid = tid;
        self.modules.unload(&mut self.gates);
        self.check_architecture()?;
        let delivery = crate::hunt::tracer::choose_delivery(tid)?;
        self.arming.close_events(delivery);
        set_delivery(self.gates.control(), delivery);
        self.open_events(tid)?;
        self.begin_watching()
    }

    pub(super) fn counter(&self, counter: Counter) -> u64 {
        self.gates.control().counters[counter as usize].load(SeqCst)
    }

    pub(super) fn statistics(&self) -> Statistics {
        const NANO: f64 = 1e-9;
        let cpu = target::process::cpu_time(as_pid(self.pid)).unwrap_or_default();
        let earned_cpu = self.counter(Counter::Samples) * self.setup.sample_period_ns;
        let cpu_s = match cpu.checked_sub(self.cpu_before) {
            Some(used) if !used.is_zero() => used.as_secs_f64(),
            _ => earned_cpu as f64 * NANO,
        };
        Statistics {
            gates: Counter::ALL
                .iter()
                .map(|&counter| (counter.name().to_owned(), self.counter(counter)))
                .collect(),
            not_reported: self.not_reported.clone(),
            no_stall: self.no_stall.clone(),
            stops: self.stops,
            stalls: self.stalls,
            watched_s: self.watched_ns as f64 * NANO,
            stopped_s: self.budget.stopped_ns as f64 * NANO,
            spent_s: self.gates.control().spent_ns.load(SeqCst) as f64 * NANO,
            target_cpu_s: cpu_s,
            value_changed_unknown_origin: self.value_changed,
            unwatchable_threads: self.arming.unwatchable() as u64,
            dropped_messages: self.outbox.dropped(),
        }
    }
}
