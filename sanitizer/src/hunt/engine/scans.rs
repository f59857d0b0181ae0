//! Scans of the modules: when the loader is asked, and what follows from its answer.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::Counter;
use gwp_race_abi::phase;

use crate::hunt::loader::Scan;
use crate::hunt::modules::{ModuleSet, Place, RefreshError};
use crate::hunt::wire::Notice;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::pair_cpu_time_ns;
use crate::tracee;

use super::{Confirm, Engine, EngineError, Purpose, State, as_pid};

/// Why a hit was not reported whose modules could not be looked at in time.
const MODULES_UNKNOWN: &str = "modules-unknown";

impl Engine {
    /// Scans the modules for the first time; once they are known, watching begins.
    pub(super) fn begin_watching(&mut self, anew: bool) {
        self.program.look_at_file();
        self.begin_scan(Purpose::Start, anew);
    }

    /// Scans for new modules if no sample is in hand; none is taken meanwhile.
    pub(super) fn scan_when_idle(&mut self) {
        let phase = self.gates.phase().read();
        if matches!(self.state, State::Idle)
            && phase.phase() == phase::IDLE
            && self.gates.phase().advance(phase, phase::CLOSED)
        {
            self.generation = phase.generation();
            self.stop_waiting();
            // Whatever is known of them: none may stay armed for nothing.
            self.arming.watchpoints().unwatch();
            self.fit_events(self.arming.known());
            if self.is_scan_due() {
                self.begin_scan(Purpose::Upkeep, false);
            } else {
                self.go_idle();
            }
        }
    }

    /// The same where code runs that no module is known for.
    pub(super) fn scan_for_code(&mut self) {
        if self.is_scan_due() {
            self.scan_when_idle();
        }
    }

    pub(super) fn is_scan_due(&self) -> bool {
        self.schedule.may_scan(monotonic_ns())
    }

    /// Asks the loader; what is in hand must be no sample, and no thread stand still for one.
    pub(super) fn begin_scan(&mut self, purpose: Purpose, anew: bool) {
        self.enter(phase::CLOSED);
        self.nobody_stands();
        if self.is_start_up(&purpose) {
            self.budget.begin_start_up(self.gates.control());
        }
        match &purpose {
            Purpose::Judge { confirm, .. } => self
                .loader
                .scan_to_judge(self.program.pid, confirm.places()),
            _ => self.loader.scan(self.program.pid, anew),
        }
        self.state = State::Scanning(purpose);
    }

    /// Goes on with what the scan was for, when the loader has answered.
    pub(super) fn on_scan(&mut self) -> Result<(), EngineError> {
        if !matches!(self.state, State::Scanning(_)) {
            return Ok(());
        }
        let Some(scan) = self.loader.answer() else {
            return Ok(());
        };
        let pause = self.loader.pause(self.setup.max_overhead);
        self.schedule.has_scanned(monotonic_ns(), pause);
        let State::Scanning(purpose) = std::mem::replace(&mut self.state, State::Idle) else {
            return Ok(());
        };
        match purpose {
            Purpose::Start => {
                self.take_in(scan)?;
                self.outbox.send(&Notice::Watching {
                    analyzed_modules: self.modules.analyzed(),
                    cpu_ns: pair_cpu_time_ns().saturating_sub(self.cpu_before_start_ns),
                });
                self.schedule.begin(monotonic_ns());
            }
            Purpose::Upkeep => match self.take_in(scan) {
                Err(EngineError::Modules(RefreshError::Target(error))) if error.is_vanished() => {}
                result => result?,
            },
            Purpose::Judge { confirm, completed } => self.judge_by(scan, &confirm, completed),
        }
        self.budget.end_start_up();
        self.go_idle();
        Ok(())
    }

    /// Reading the modules is start-up, not sampling; so is what can only be read when they are relocated.
    const fn is_start_up(&self, purpose: &Purpose) -> bool {
        match purpose {
            Purpose::Start => true,
            Purpose::Upkeep => self.schedule.round() <= 1,
            Purpose::Judge { .. } => false,
        }
    }

    fn take_in(&mut self, scan: Scan) -> Result<(), EngineError> {
        let (modules, changes) = scan?;
        // Other code may stand at the same addresses now.
        let is_replaced = changes.changed && changes.unloaded;
        if is_replaced {
            // By the modules that were there when it was executed; what none of them is known for is told later.
            self.tell_elsewhere(|modules, pc| modules.place(pc).is_some());
        }
        self.modules = modules;
        if is_replaced {
            self.pairs.forget();
            self.tell_coverage_and_forget();
            self.strategy.forget();
            self.learned.lines.forget();
        } else if changes.changed || changes.bound {
            self.strategy.extend();
        }
        if changes.changed {
            // The memory routines that new modules call are known when those are relocated.
            self.schedule.hurry(monotonic_ns());
            // Here, where the process is held and its id nobody else's.
            let rights = tracee::file_rights(as_pid(self.program.pid)).unwrap_or_default();
            let modules = self.modules.infos();
            self.outbox.send(&Notice::Modules(modules, rights));
        }
        for warning in changes.warnings {
            self.outbox.warn(warning);
        }
        Ok(())
    }

    /// Judges what was caught by the modules of a scan. A process that has ended this moment had those of the scan before.
    fn judge_by(&mut self, scan: Scan, confirm: &Confirm, completed: bool) {
        let before = self.modules.clone();
        if let Err(error) = self.take_in(scan) {
            self.outbox.send(&Notice::Debug(error.to_string()));
        }
        // What was executed there may have been another library's code, and have had another meaning.
        let mut all = confirm.places().into_iter();
        if all.any(|pc| before.is_replaced_in(&self.modules, pc)) {
            self.figures
                .not_reported(MODULES_UNKNOWN, confirm.hits.len());
        } else {
            self.judge(confirm, completed);
        }
    }

    /// Judges what is in hand when everything is disarmed: there is no later turn to do it.
    pub(super) fn judge_last(&mut self, completed: bool) {
        let (confirm, completed) = match std::mem::replace(&mut self.state, State::Idle) {
            State::Confirm(confirm) => {
                // There is no time for more: what was read of the code before must do.
                self.loader.scan(self.program.pid, false);
                (confirm, completed)
            }
            State::Scanning(Purpose::Judge { confirm, completed }) => (confirm, completed),
            _ => return,
        };
        match self.loader.answer_within(2 * self.last_words()) {
            Some(scan) => self.judge_by(scan, &confirm, completed),
            None => self
                .figures
                .not_reported(MODULES_UNKNOWN, confirm.hits.len()),
        }
    }

    /// What was caught in a program that the process does not execute any more: what its program
    /// counters meant can no longer be known.
    pub(super) fn forget_caught(&mut self) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Confirm(confirm) | State::Scanning(Purpose::Judge { confirm, .. }) => {
                self.figures
                    .not_reported(MODULES_UNKNOWN, confirm.hits.len());
            }
            State::Stalled(_) => self.figures.not_reported(MODULES_UNKNOWN, self.caught()),
            _ => {}
        }
    }

    /// Tells where the program was seen to execute outside analyzed functions, at those addresses that are `wanted` now.
    ///
    /// The gate counts by the modules that it knows: what was executed before they were read counts as analyzed
    /// here, where it turned out to be.
    pub(super) fn tell_elsewhere(&mut self, wanted: impl Fn(&ModuleSet, u64) -> bool) {
        let (mut late, mut counted) = (0, Vec::new());
        for [place, number] in &self.gates.control().samples.elsewhere {
            if !wanted(&self.modules, place.load(SeqCst)) {
                continue;
            }
            let (pc, number) = (place.swap(0, SeqCst), number.swap(0, SeqCst));
            let place = self.modules.place(pc);
            let function = place.as_ref().and_then(Place::function);
            if function.is_some_and(|function| function.is_analyzed()) {
                late += number;
            } else if number > 0 {
                counted.push((pc, number));
            }
        }
        self.add(Counter::SamplesAnalyzed, late);
        if !counted.is_empty() {
            self.outbox.send(&Notice::Elsewhere(counted));
        }
    }
}
