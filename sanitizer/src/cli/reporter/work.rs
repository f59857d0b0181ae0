//! What the reporting thread does with what it is given.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

use crate::hunt::wire::{Decision, Refuted};
use crate::kernel::process::thread_cpu_time_ns;
use crate::kernel::rights::FileRights;
use crate::outbox::DaemonFigures;
use crate::reader::Client;
use crate::report::{
    Finding, LookedAt, MapInfo, ModuleInfo, Race, ReportWriter, Summary, Suppressions, WriteError,
    build_race, notes_of, places, review,
};
use crate::symbols::{Answer, Files as _, Question, Symbolizer};
use crate::verdict::Reason;

use super::sightings::{Again, Meeting};
use super::{CoverageFile, Explained, Fate, State};

/// A run with fewer stalls that has caught nothing has not looked for races enough to say that a suppression names none.
const ENOUGH_STALLS: u64 = 100;

/// The process that reads debug information ends when nobody has asked it anything for so long.
const REST: Duration = Duration::from_secs(60);

/// Work for the reporting thread.
pub(super) enum Work {
    Modules(u32, Vec<ModuleInfo>, Option<FileRights>, String),
    Race(Box<Finding>, Vec<MapInfo>),
    Repeat(Meeting),
    Coverage(u32, Vec<LookedAt>),
    CoverageIsCut(u32),
    Elsewhere(u32, Vec<(u64, u64)>),
    Decision(u32, Decision),
    Forget(u32),
    Reopen,
    Figures(Box<DaemonFigures>),
    Finish(Box<Summary>),
}

/// Takes a lock, also where somebody has panicked who held it.
pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(super) fn files(&self) -> MutexGuard<'_, Client> {
        lock(&self.files)
    }

    /// CPU time that has been used to explain, here and by whoever reads, ns.
    fn used_ns(&self) -> u64 {
        thread_cpu_time_ns()
            + self.files().cpu_ns()
            + self.source_files.cpu_ns
            + self.served_files.cpu_ns()
    }

    /// The symbolizer of a process.
    fn symbolizer(&mut self, pid: u32) -> &mut Symbolizer {
        // What was read of a file serves all processes, and survives their end.
        let base = &self.base;
        self.symbolizers.entry(pid).or_insert_with(|| base.clone())
    }

    /// Tells which tables of new modules are left out of reports.
    fn tell_left_out(&mut self, modules: &[ModuleInfo]) {
        let files = Arc::clone(&self.files);
        let Some(looked_into) = &mut self.looked_into else {
            return;
        };
        for module in modules {
            if !looked_into.insert((module.path.clone(), module.build_id.clone())) {
                continue;
            }
            let mut files = lock(&files);
            let left_out = files.open(module).and_then(|file| {
                let question = Question::LeftOut(module.path.clone());
                files.ask(&file, question, None)
            });
            if let Some(Answer::LeftOut(lines)) = left_out {
                for line in lines {
                    tracing::info!("left out of reports: {line}");
                }
            }
        }
    }

    /// The next thing to do; nothing when there will be none.
    pub(super) fn next(&mut self, queue: &mpsc::Receiver<Work>) -> Option<Work> {
        self.keep_counts();
        // Others may have something to be done all the time, and no question.
        self.files().rest_after(REST);
        match queue.recv_timeout(REST) {
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.keep_counts();
                self.files().rest();
                while self.has_unkept() {
                    match queue.recv_timeout(REST) {
                        Err(mpsc::RecvTimeoutError::Timeout) => self.keep_counts(),
                        item => return item.ok(),
                    }
                }
                queue.recv().ok()
            }
            item => item.ok(),
        }
    }

    pub(super) fn handle(&mut self, work: Work) {
        match work {
            Work::Modules(pid, modules, rights, exe) => {
                self.tell_left_out(&modules);
                self.source_files.set_rights(pid, rights);
                self.symbolizer(pid).set_modules(&modules);
                let file = modules.iter().find(|module| module.path == exe);
                let build_id = file.map_or(&[][..], |file| &file.build_id);
                if let Some(program) = self.programs.add(pid, &exe, build_id) {
                    self.keep_program(&program);
                }
            }
            Work::Race(finding, maps) => {
                let before = self.used_ns();
                let mixed = self.mixed;
                let symbolizer = self.symbolizer(finding.pid).clone();
                self.served_files
                    .complete(&symbolizer, || places(&symbolizer, &finding));
                let symbolizer = self.symbolizer(finding.pid);
                let fate = match review(symbolizer, &finding, mixed) {
                    Ok(doubts) => {
                        let mut race = build_race(symbolizer, &finding, &maps);
                        let sizes = [finding.stalled.size, finding.racing.size];
                        race.notes.extend(notes_of(doubts, sizes));
                        if !self.values {
                            race.forget_values();
                        }
                        self.refuted_at.remove(&(finding.pid, finding.stalled.pc));
                        let fate = self.race(race, Meeting::of(&finding));
                        self.progress.tell(self.tally);
                        fate
                    }
                    Err(reason) => self.refuted(&finding, reason),
                };
                // Nobody listens any more once watching has ended.
                let _ = self.found.send(Explained {
                    pid: finding.pid,
                    cpu_ns: self.used_ns().saturating_sub(before),
                    fate,
                });
            }
            Work::Repeat(meeting) => self.repeat(meeting),
            Work::Coverage(pid, functions) => {
                let symbolizer = self.symbolizer(pid).clone();
                if let Some(file) = &mut self.coverage {
                    file.add(&symbolizer, &functions);
                }
            }
            Work::CoverageIsCut(pid) => {
                if let Some(file) = &mut self.coverage {
                    file.cut.insert(pid);
                }
            }
            Work::Elsewhere(pid, counted) => {
                let symbolizer = self.symbolizer(pid).clone();
                for (pc, samples) in counted {
                    self.elsewhere.add(symbolizer.frame_by_symbol(pc), samples);
                }
            }
            Work::Decision(pid, decision) => {
                let before = self.used_ns();
                let symbolizer = self.symbolizer(pid).clone();
                let text = self.places.told(&symbolizer, &decision);
                self.places.worked(self.used_ns().saturating_sub(before));
                tracing::info!("{text}");
            }
            Work::Reopen => {
                if let Some(file) = &self.report_file {
                    file.reopen();
                }
            }
            Work::Figures(figures) => self.tell_figures(&figures),
            Work::Forget(pid) => {
                self.symbolizers.remove(&pid);
                self.source_files.forget(pid);
                self.programs.forget(pid);
                self.sightings.forget(pid);
                self.refuted_at.retain(|&(of, _), _| of != pid);
            }
            Work::Finish(mut summary) => {
                summary.programs = self.programs.list();
                summary.hottest_unanalyzed = self.elsewhere.hottest(summary.samples);
                summary.races_unique = self.tally.unique;
                summary.races_known = self.tally.known;
                summary.races_total = self.tally.total;
                summary.sightings = self.sightings.all();
                let figures = self.files().figures().clone();
                summary.readers_ended = figures.ended;
                summary.files_not_read = figures.unread;
                for (line, pattern, races) in self
                    .beforehand
                    .suppressions
                    .iter()
                    .flat_map(Suppressions::used)
                {
                    tracing::info!("line {line} of the suppressions ({pattern}): {races} times");
                }
                let suppressions = self.beforehand.suppressions.as_ref();
                let caught = self.tally.total + self.tally.suppressed;
                let is_enough = caught > 0 || summary.stalls >= ENOUGH_STALLS;
                summary.suppressions_unused = suppressions
                    .filter(|_| is_enough)
                    .map_or_else(Vec::new, Suppressions::unused);
                for (reason, hits) in &self.refuted {
                    let name = reason.name().to_owned();
                    *summary.hits_swallowed.entry(name).or_default() += hits;
                }
                if self.tally.suppressed > 0 {
                    summary
                        .hits_swallowed
                        .insert("suppressed".to_owned(), self.tally.suppressed);
                }
                if !self.quiet || self.is_complete {
                    self.write(|writer| writer.summary(&summary));
                }
                self.keep_all(&summary.programs);
                if let Some(Err(error)) = self.coverage.as_mut().map(CoverageFile::write) {
                    tracing::error!("{error}");
                    self.failure.get_or_insert(error);
                }
            }
        }
    }

    /// A race that is none.
    fn refuted(&mut self, finding: &Finding, reason: Reason) -> Fate {
        *self.refuted.entry(reason).or_default() += 1;
        let (stalled, racing) = (finding.stalled.pc, finding.racing.regs.rip);
        self.refuted_at.insert((finding.pid, stalled), reason);
        Fate::Refuted(Refuted {
            stalled,
            racing,
            is_settled: reason == Reason::UnknownAtomicity,
            reason,
        })
    }

    /// What was told of a place was caught again.
    fn repeat(&mut self, meeting: Meeting) {
        if let Some(&reason) = self.refuted_at.get(&(meeting.pid, meeting.stalled)) {
            *self.refuted.entry(reason).or_default() += 1;
            return;
        }
        let now = humantime::format_rfc3339_nanos(SystemTime::now()).to_string();
        match self.sightings.again(meeting, &now) {
            Again::Suppressed => self.tally.suppressed += 1,
            Again::Race | Again::Unknown => self.tally.total += 1,
        }
    }

    /// Reports a race, unless it is suppressed or a repeat.
    fn race(&mut self, mut race: Race, meeting: Meeting) -> Fate {
        if self
            .beforehand
            .suppressions
            .as_mut()
            .is_some_and(|list| list.suppresses(&race))
        {
            self.tally.suppressed += 1;
            self.sightings.suppressed(meeting);
            return Fate::Suppressed;
        }
        self.tally.total += 1;
        self.sightings.saw(meeting, &race);
        if !self.deduper.record(&race) {
            return Fate::Repeated;
        }
        if let Some(symbolizer) = self.symbolizers.get(&race.pid) {
            self.source_files.add_to(&mut race, symbolizer);
        }
        race.known = self.beforehand.baseline.knows(&race);
        let fate = self.tell(&race);
        self.keep(&race);
        fate
    }

    /// Tells a race.
    fn tell(&mut self, race: &Race) -> Fate {
        if race.known {
            self.tally.known += 1;
            if !self.quiet || self.is_complete {
                self.write(|writer| writer.race(race));
            }
            return Fate::Known;
        }
        self.tally.unique += 1;
        self.write(|writer| writer.race(race));
        Fate::Reported(self.tally.unique)
    }

    /// Writes to where the user wants it or, if that fails, to standard error: nothing that was
    /// found is lost.
    pub(super) fn write(
        &mut self,
        report: impl Fn(&mut dyn ReportWriter) -> Result<(), WriteError>,
    ) {
        self.progress.set_writing(true);
        self.try_write(report);
        self.progress.set_writing(false);
    }

    fn try_write(&mut self, report: impl Fn(&mut dyn ReportWriter) -> Result<(), WriteError>) {
        let Err(error) = report(&mut *self.writer) else {
            return;
        };
        match &mut self.resort {
            Some(resort) => {
                if self.failure.is_none() {
                    // Told at once, too: the session may last for days.
                    tracing::error!("{error}; what it does not take follows here");
                }
                // Beyond this there is nobody to tell; the exit code does.
                for race in self.writer.take_unwritten() {
                    let _ = resort.race(&race);
                }
                let _ = report(&mut **resort);
            }
            None if error.is_closed() => return,
            None if self.failure.is_some() => return,
            None => tracing::error!("{error}"),
        }
        self.failure.get_or_insert(error.into());
    }
}
