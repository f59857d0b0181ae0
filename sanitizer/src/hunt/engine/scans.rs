//! Scans of the modules: when the loader is asked, and what follows from its answer.

use gwp_race_abi::phase;

use crate::hunt::loader::Scan;
use crate::hunt::modules::RefreshError;
use crate::hunt::wire::Notice;
use crate::kernel::process::monotonic_ns;
use crate::tracee;

use super::sampler::{Confirm, MODULES_UNKNOWN, Purpose, State};
use super::{Engine, EngineError, as_pid};

impl Engine {
    /// Scans the modules for the first time; once they are known, watching begins.
    pub(super) fn begin_watching(&mut self, anew: bool) {
        self.rig.program.look_at_file();
        self.begin_start_up();
        self.sampler.begin_scan(&mut self.rig, Purpose::Start, anew);
    }

    /// Scans for new modules if no sample is in hand; none is taken meanwhile.
    pub(super) fn scan_when_idle(&mut self) {
        let phase = self.rig.gates.phase().read();
        if self.sampler.state.is_idle()
            && phase.phase() == phase::IDLE
            && self.rig.gates.phase().advance(phase, phase::CLOSED)
        {
            self.sampler.generation = phase.generation();
            self.sampler
                .waiting
                .stop_waiting(&mut self.rig, &mut self.adviser);
            // Whatever is known of them: none may stay armed for nothing.
            self.rig.arming.watchpoints().unwatch();
            self.crew.fit_events_to_known(&mut self.rig);
            if self.is_scan_due() {
                // What can only be read when the modules are relocated is start-up, too.
                if self.upkeep.schedule.round() <= 1 {
                    self.begin_start_up();
                }
                self.sampler
                    .begin_scan(&mut self.rig, Purpose::Upkeep, false);
            } else {
                self.sampler.go_idle(&self.rig);
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
        self.upkeep.schedule.may_scan(monotonic_ns())
    }

    /// Goes on with what the scan was for, when the loader has answered.
    pub(super) fn on_scan(&mut self) -> Result<(), EngineError> {
        if !matches!(self.sampler.state, State::Scanning(_)) {
            return Ok(());
        }
        let Some(scan) = self.rig.loader.answer() else {
            return Ok(());
        };
        let pause = self.rig.loader.pause(self.rig.setup.max_overhead);
        self.upkeep.schedule.has_scanned(monotonic_ns(), pause);
        let State::Scanning(purpose) = std::mem::replace(&mut self.sampler.state, State::Idle)
        else {
            return Ok(());
        };
        match purpose {
            Purpose::Start => {
                self.take_in(scan)?;
                let worked = self.rig.budget.clock().pair_ns();
                self.rig.outbox.send(&Notice::Watching {
                    analyzed_modules: self.rig.modules.analyzed(),
                    cpu_ns: worked.saturating_sub(self.upkeep.cpu_before_start_ns),
                });
                self.upkeep.schedule.begin(monotonic_ns());
            }
            Purpose::Upkeep => match self.take_in_change(scan) {
                Err(EngineError::Modules(RefreshError::Target(error))) if error.is_vanished() => {}
                result => result?,
            },
            Purpose::Judge { confirm, completed } => self.judge_by(scan, confirm, completed),
        }
        self.rig.budget.end_start_up();
        self.sampler.go_idle(&self.rig);
        Ok(())
    }

    /// To hold the program, to open its events, and to read the modules is start-up, not sampling.
    pub(super) fn begin_start_up(&mut self) {
        let control = self.rig.gates.control();
        self.rig.budget.begin_start_up(control);
    }

    /// Takes in a scan of a program that was scanned before. (What a first one finds unloaded are the modules of the program before.)
    fn take_in_change(&mut self, scan: Scan) -> Result<(), EngineError> {
        if let Ok((_, changes)) = &scan
            && changes.unloaded
        {
            self.crew.creations.forget_stacks();
        }
        self.take_in(scan)
    }

    fn take_in(&mut self, scan: Scan) -> Result<(), EngineError> {
        let (modules, changes) = scan?;
        // Other code may stand at the same addresses now.
        let is_replaced = changes.changed && changes.unloaded;
        if is_replaced {
            // By the modules that were there when it was executed; what none of them is known for is told later.
            self.rig
                .tell_elsewhere(|modules, pc| modules.place(pc).is_some());
            let raced = self.sampler.pairs.take_news();
            self.adviser.tell_gains(&mut self.rig, &raced);
        }
        self.rig.modules = modules;
        if changes.changed || changes.bound {
            self.adviser.code_has_changed();
        }
        if is_replaced {
            self.sampler.pairs.forget();
            self.adviser.tell_coverage_and_forget(&mut self.rig);
            self.adviser.strategy.forget();
            self.profiler.forget_code();
            self.adviser.learned.lines.forget();
        } else if changes.changed || changes.bound {
            self.adviser.strategy.extend();
        }
        if changes.changed {
            // The memory routines that new modules call are known when those are relocated.
            self.upkeep.schedule.hurry(monotonic_ns());
            // Here, where the process is held and its id nobody else's.
            let rights = tracee::file_rights(as_pid(self.rig.program.pid)).unwrap_or_default();
            let modules = self.rig.modules.infos();
            let exe = self.rig.program.exe.clone();
            self.rig.outbox.send(&Notice::Modules(modules, rights, exe));
        }
        for warning in changes.warnings {
            self.rig.outbox.warn(warning);
        }
        Ok(())
    }

    /// Judges what was caught by the modules of a scan. A process that has ended this moment had those of the scan before.
    fn judge_by(&mut self, scan: Scan, mut confirm: Box<Confirm>, completed: bool) {
        let before = self.rig.modules.clone();
        if let Err(error) = self.take_in_change(scan) {
            self.rig.outbox.send(&Notice::Debug(error.to_string()));
        }
        // What was executed there may have been another library's code, and have had another meaning.
        let mut all = confirm.places().into_iter();
        if all.any(|pc| before.is_replaced_in(&self.rig.modules, pc)) {
            self.rig
                .figures
                .not_reported(MODULES_UNKNOWN, confirm.hits.len());
        } else {
            let pid = self.rig.program.pid;
            let creator = |tid| self.crew.creations.creator_of(pid, tid);
            confirm.judge(completed, &mut self.sampler.pairs, &mut self.rig, creator);
        }
    }

    /// Judges what is in hand when everything is disarmed: there is no later turn to do it.
    pub(super) fn judge_last(&mut self, completed: bool) {
        let (confirm, completed) = match std::mem::replace(&mut self.sampler.state, State::Idle) {
            State::Confirm(confirm) => {
                // There is no time for more: what was read of the code before must do.
                self.rig.loader.scan(self.rig.program.pid, false);
                (confirm, completed)
            }
            State::Settle {
                confirm, completed, ..
            } => {
                self.rig.loader.scan(self.rig.program.pid, false);
                (confirm, completed)
            }
            State::Scanning(Purpose::Judge { confirm, completed }) => (confirm, completed),
            _ => return,
        };
        match self.rig.loader.answer_within(2 * self.last_words()) {
            Some(scan) => self.judge_by(scan, confirm, completed),
            None => self
                .rig
                .figures
                .not_reported(MODULES_UNKNOWN, confirm.hits.len()),
        }
    }
}
