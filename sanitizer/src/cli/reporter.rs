//! The reporting thread: unwinds, symbolizes, deduplicates, suppresses and writes, so that
//! reading gigabytes of debug information delays nothing else.

mod beforehand;
mod closing;
mod coverage_file;
mod fate;
mod keeps;
mod places;
mod progress;
mod report_file;
mod sightings;
mod source_files;
mod stored;
mod work;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

use super::args::{Mixed, WatchArgs};
use super::form::Form;
use super::served_files::ServedFiles;
use super::status::may_draw;
use crate::debuginfod::Haste;
use crate::hunt::wire::Decision;
use crate::kernel::descriptors::own_table;
use crate::kernel::limits::explained;
use crate::kernel::rights::FileRights;
use crate::reader::{Client, Program};
use crate::report::{
    Deduper, Elsewhere, Finding, LookedAt, MapInfo, ModuleInfo, Programs, ReportWriter, SourceMap,
    Summary, status_line::Stderr,
};
use crate::symbols::{Sources, Symbolizer};
use crate::verdict::Reason;

use beforehand::Beforehand;
pub use closing::{Closing, Tally};
use coverage_file::CoverageFile;
pub use fate::{Explained, Fate};
use places::Places;
use progress::Progress;
use report_file::ReportFile;
pub use sightings::Meeting;
use sightings::Sightings;
use source_files::SourceFiles;
use stored::Stored;
use work::Work;

/// Races that wait to be explained at most: each brings the stacks of both threads, some 300 KiB. A race
/// that finds no place here is caught again.
const MOST_WAITING: usize = 64;

/// Decisions that wait to be told at most.
const MOST_UNTOLD: usize = 1000;

/// How long files of servers are waited for once watching has ended.
const LAST_FILES: Duration = Duration::from_secs(10);

/// A handle on the reporting thread.
pub struct Reporter {
    work: mpsc::Sender<Work>,
    /// Races that wait to be explained.
    waiting: Arc<AtomicUsize>,
    /// Decisions that wait to be told.
    untold: Arc<AtomicUsize>,
    progress: Arc<Progress>,
    closing: oneshot::Receiver<Closing>,
    /// Coverage is wanted.
    covers: bool,
    /// Reports go to a file that can be opened anew.
    can_reopen: bool,
    /// Some races are known beforehand.
    knows_races: bool,
    haste: Option<Haste>,
}

struct State {
    progress: Arc<Progress>,
    /// Reads the files of all.
    files: Arc<Mutex<Client>>,
    base: Symbolizer,
    symbolizers: HashMap<u32, Symbolizer>,
    source_files: SourceFiles,
    served_files: ServedFiles,
    beforehand: Beforehand,
    stored: Option<Stored>,
    deduper: Deduper,
    writer: Box<dyn ReportWriter>,
    /// What it writes to, where that can be opened anew.
    report_file: Option<ReportFile>,
    /// For what the file named by the user does not take.
    resort: Option<Box<dyn ReportWriter>>,
    tally: Tally,
    /// Races of a plain and an atomic access are wanted.
    mixed: bool,
    /// The bytes that were watched are.
    values: bool,
    /// What was no race on a second look, by its reason.
    refuted: BTreeMap<Reason, u64>,
    /// The last of it at each stalled access of a process: its repeats are none either.
    refuted_at: HashMap<(u32, u64), Reason>,
    found: tokio::sync::mpsc::UnboundedSender<Explained>,
    /// The first failure to write; a standard error that nobody reads is none.
    failure: Option<anyhow::Error>,
    quiet: bool,
    /// Known races and the end are written in any case.
    is_complete: bool,
    coverage: Option<CoverageFile>,
    /// The modules of which it was told what of their tables is left out; with `--verbose` only.
    looked_into: Option<HashSet<(String, Vec<u8>)>>,
    elsewhere: Elsewhere,
    places: Places,
    sightings: Sightings,
    programs: Programs,
}

impl Reporter {
    /// Opens the output and starts the thread, which tells of each race through `found`. `beside`: the
    /// program's output goes where ours does.
    ///
    /// # Errors
    /// Fails when the output or the suppressions cannot be opened.
    pub fn start(
        args: &WatchArgs,
        beside: bool,
        found: tokio::sync::mpsc::UnboundedSender<Explained>,
    ) -> anyhow::Result<Self> {
        Self::start_with(args, beside, found, Program::default())
    }

    fn start_with(
        args: &WatchArgs,
        beside: bool,
        found: tokio::sync::mpsc::UnboundedSender<Explained>,
        reader: Program,
    ) -> anyhow::Result<Self> {
        // Before the output is opened, which may be one of these files.
        let mut stored = Stored::open(args)?;
        let beforehand = Beforehand::read(args, stored.as_mut())?;
        let map = SourceMap::new(&args.source_map);
        let source_files = SourceFiles::new(map.clone())?;
        let served_files = ServedFiles::new(&args.debug_files, may_draw(args));
        let sources = served_files.beside(Sources::new(args.debug_files.dirs.dirs()?));
        let haste = served_files.haste();
        let form = Form {
            format: args.format,
            source_root: args.source_root.as_deref(),
            source_map: &map,
            stats: args.stats,
            has_baseline: args.baseline.is_some() || args.store.is_some(),
        };
        let to_stderr = |form: Form<'_>| form.writer(Box::new(Stderr), "standard error", beside);
        // Nobody reads half a document.
        let resort = to_stderr(if form.is_document() {
            form.as_text()
        } else {
            form
        });
        let path = args.output.clone().or_else(|| form.usual_output());
        let mut report_file = None;
        let (writer, resort) = match (args.output_fd, path) {
            (Some(number), _) => (form.write_to_descriptor(number, beside)?, Some(resort)),
            (None, Some(path)) => {
                let (writer, file) = form.write_to(&path, beside)?;
                report_file = ReportFile::new(path, file);
                (writer, Some(resort))
            }
            (None, None) => (to_stderr(form), None),
        };
        let can_reopen = report_file.is_some();
        let knows_races = !beforehand.baseline.is_empty();
        let progress = Arc::new(Progress::default());
        let files = Arc::new(Mutex::new(Client::new(reader, sources)));
        let mut state = State {
            progress: Arc::clone(&progress),
            base: Symbolizer::over(Arc::clone(&files) as _),
            files,
            symbolizers: HashMap::new(),
            source_files,
            served_files,
            beforehand,
            stored,
            deduper: Deduper::default(),
            writer,
            report_file,
            resort,
            tally: Tally::default(),
            mixed: args.mixed == Mixed::Report,
            values: args.values,
            refuted: BTreeMap::new(),
            refuted_at: HashMap::new(),
            found,
            failure: None,
            quiet: args.quiet,
            is_complete: form.is_complete(),
            coverage: args
                .coverage
                .as_deref()
                .map(CoverageFile::open)
                .transpose()?,
            looked_into: (args.verbose > 0).then(HashSet::new),
            elsewhere: Elsewhere::default(),
            places: Places::default(),
            sightings: Sightings::default(),
            programs: Programs::default(),
        };
        let (work, queue) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let untold = Arc::new(AtomicUsize::new(0));
        let taken = [&waiting, &untold].map(Arc::clone);
        let (told, closing) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        std::thread::Builder::new()
            .name("reports".to_owned())
            .spawn(move || {
                // Should it wait for a file for ever, what this process opens from now on is to end with it all the same.
                if let Err(error) = own_table() {
                    tracing::debug!(%error, "the reporting thread shares the descriptors of all");
                }
                let _ = ready.send(());
                while let Some(item) = state.next(&queue) {
                    let [races, decisions] = &taken;
                    match item {
                        Work::Race(..) => races.fetch_sub(1, SeqCst),
                        Work::Decision(..) => decisions.fetch_sub(1, SeqCst),
                        _ => 0,
                    };
                    state.handle(item);
                }
                // It is gone when we are.
                state.files().rest();
                state.served_files.end();
                // Nobody waits any more where it took too long.
                let _ = told.send(Closing {
                    tally: state.tally,
                    failure: state.failure,
                    ..Closing::default()
                });
            })
            .map_err(|error| anyhow::anyhow!("cannot start a thread: {}", explained(&error)))?;
        // If it has panicked, that is told in the end.
        let _ = is_ready.recv();
        Ok(Self {
            work,
            waiting,
            untold,
            progress,
            closing,
            covers: args.coverage.is_some(),
            can_reopen,
            knows_races,
            haste,
        })
    }

    /// A process's modules are these now, these its rights over files, as far as they are known, and it executes `exe` (empty where that is not known).
    pub fn modules(
        &self,
        pid: u32,
        modules: Vec<ModuleInfo>,
        rights: Option<FileRights>,
        exe: String,
    ) {
        // The thread ends only after `finish`.
        let _ = self.work.send(Work::Modules(pid, modules, rights, exe));
    }

    /// A race was caught; false where too many wait to be explained, and this one is dropped.
    #[must_use]
    pub fn race(&self, finding: Box<Finding>, maps: Vec<MapInfo>) -> bool {
        // Nobody else adds to it.
        if self.waiting.load(SeqCst) >= MOST_WAITING {
            return false;
        }
        self.waiting.fetch_add(1, SeqCst);
        let _ = self.work.send(Work::Race(finding, maps));
        true
    }

    /// A race that was told before was caught again.
    pub fn repeat(&self, meeting: Meeting) {
        let _ = self.work.send(Work::Repeat(meeting));
    }

    /// These functions of a process were looked at.
    pub fn coverage(&self, pid: u32, functions: Vec<LookedAt>) {
        let _ = self.work.send(Work::Coverage(pid, functions));
    }

    /// The tracer of a process has ended without telling which functions it had looked at since the last time.
    pub fn coverage_is_cut(&self, pid: u32) {
        let _ = self.work.send(Work::CoverageIsCut(pid));
    }

    /// Clock samples of a process were at these program counters, outside analyzed functions.
    pub fn elsewhere(&self, pid: u32, counted: Vec<(u64, u64)>) {
        let _ = self.work.send(Work::Elsewhere(pid, counted));
    }

    /// Something was decided in a process, to be told with the names of the places. Where too much waits for that, it is told without.
    pub fn decision(&self, pid: u32, decision: Decision) {
        if self.untold.load(SeqCst) >= MOST_UNTOLD {
            tracing::info!("{}", places::unnamed(&decision));
            return;
        }
        self.untold.fetch_add(1, SeqCst);
        let _ = self.work.send(Work::Decision(pid, decision));
    }

    /// What was found until now.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.progress.tally()
    }

    /// Whether reports go to a file that can be moved away.
    #[must_use]
    pub const fn can_reopen(&self) -> bool {
        self.can_reopen
    }

    /// The file was moved away: what comes goes to a new one of its name.
    pub fn reopen(&self) {
        let _ = self.work.send(Work::Reopen);
    }

    /// A process has ended, and all was told of it: its id may be another one's from now on.
    pub fn forget(&self, pid: u32) {
        let _ = self.work.send(Work::Forget(pid));
    }

    /// Writes the summary and waits until all is written, but not longer than `limit` for races to be explained (a file that
    /// a program names may be such that it would never come to an end), and no longer than `hurry`.
    pub async fn finish(
        mut self,
        summary: Summary,
        limit: Duration,
        hurry: impl Future<Output = ()>,
    ) -> Closing {
        const SLICE: Duration = Duration::from_millis(50);
        if let Some(haste) = &self.haste {
            haste.within(LAST_FILES);
        }
        let _ = self.work.send(Work::Finish(Box::new(summary)));
        drop(self.work);
        tokio::pin!(hurry);
        let mut left = limit;
        let why = loop {
            tokio::select! {
                closing = &mut self.closing => match closing {
                    Ok(closing) => return closing,
                    Err(_) => break "the reporting thread failed".to_owned(),
                },
                () = &mut hurry => break "it was told to end".to_owned(),
                () = tokio::time::sleep(SLICE) => {
                    if !self.progress.is_writing() {
                        left = left.saturating_sub(SLICE);
                    }
                    if left.is_zero() {
                        let limit = humantime::format_duration(limit);
                        break format!("reading debug information took more than {limit}");
                    }
                }
            }
        };
        if let Some(haste) = &self.haste {
            haste.discard();
        }
        let Tally { unique, .. } = self.progress.tally();
        let waiting = self.waiting.load(SeqCst);
        Closing {
            tally: Tally {
                unique,
                ..Tally::default()
            },
            failure: Some(anyhow::anyhow!(
                "{why}, so the summary and what was still to be told ({waiting} races and the one in hand{}) are lost; try again \
                 with -v, or without the debug information of the program (strip)",
                if self.covers {
                    ", and the coverage: its file is empty"
                } else {
                    ""
                }
            )),
            ..Closing::default()
        }
    }
}

#[cfg(test)]
mod tests;
