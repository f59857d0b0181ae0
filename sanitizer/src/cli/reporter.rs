//! The reporting thread: unwinds, symbolizes, deduplicates, suppresses and writes, so that
//! reading gigabytes of debug information delays nothing else.

use std::{
    collections::HashMap,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread::JoinHandle,
};

use anyhow::Context as _;

use super::args::{Format, WatchArgs};
use crate::{
    kernel::process::thread_cpu_time_ns,
    report::{
        Coverage, Deduper, Finding, JsonWriter, LookedAt, MapInfo, ModuleInfo, Race, RecordFile,
        RecordStderr, ReportWriter, Summary, Suppressions, TextWriter, WriteError, build_race,
        open_output,
    },
    symbols::Symbolizer,
};

/// Races that wait to be explained at most: each brings the stacks of both threads, some 300 KiB. A race
/// that finds no place here is caught again.
const MOST_WAITING: usize = 64;

/// Work for the reporting thread.
enum Work {
    Modules(u32, Vec<ModuleInfo>),
    Race(Box<Finding>, Vec<MapInfo>),
    Repeat,
    Coverage(u32, Vec<LookedAt>),
    Finish(Box<Summary>),
}

/// What has been found so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Different races reported.
    pub unique: u64,
    /// All, with repeats.
    pub total: u64,
    /// Suppressed by the user's file.
    pub suppressed: u64,
}

/// A race was looked at.
#[derive(Clone, Copy, Debug)]
pub struct Explained {
    /// The process that it was caught in.
    pub pid: u32,
    /// CPU time that it took, ns.
    pub cpu_ns: u64,
    /// What has been found so far.
    pub tally: Tally,
}

/// A handle on the reporting thread.
pub struct Reporter {
    work: mpsc::Sender<Work>,
    /// Races that wait to be explained.
    waiting: Arc<AtomicUsize>,
    thread: JoinHandle<anyhow::Result<Tally>>,
}

struct State {
    base: Symbolizer,
    symbolizers: HashMap<u32, Symbolizer>,
    suppressions: Option<Suppressions>,
    deduper: Deduper,
    writer: Box<dyn ReportWriter>,
    /// For what the file named by the user does not take.
    resort: Option<Box<dyn ReportWriter>>,
    tally: Tally,
    found: tokio::sync::mpsc::UnboundedSender<Explained>,
    /// The first failure to write; a standard error that nobody reads is none.
    failure: Option<anyhow::Error>,
    quiet: bool,
    json: bool,
    coverage: Option<CoverageFile>,
}

/// Where `--coverage` goes.
struct CoverageFile {
    path: PathBuf,
    file: RecordFile,
    coverage: Coverage,
}

impl Reporter {
    /// Opens the output and starts the thread, which tells of each race through `found`.
    ///
    /// # Errors
    /// Fails when the output or the suppressions cannot be opened.
    pub fn start(
        args: &WatchArgs,
        found: tokio::sync::mpsc::UnboundedSender<Explained>,
    ) -> anyhow::Result<Self> {
        let to_stderr = || writer(args, Box::new(RecordStderr), "standard error");
        let (writer, resort) = match &args.output {
            Some(path) => {
                let file = Box::new(open_output(path)?);
                let name = path.display().to_string();
                (writer(args, file, &name), Some(to_stderr()))
            }
            None => (to_stderr(), None),
        };
        let suppressions = args
            .suppressions
            .as_deref()
            .map(Suppressions::read)
            .transpose()?;
        let mut state = State {
            base: Symbolizer::new(),
            symbolizers: HashMap::new(),
            suppressions,
            deduper: Deduper::default(),
            writer,
            resort,
            tally: Tally::default(),
            found,
            failure: None,
            quiet: args.quiet,
            json: args.format == Format::Json,
            coverage: args
                .coverage
                .as_deref()
                .map(CoverageFile::open)
                .transpose()?,
        };
        let (work, queue) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let taken = Arc::clone(&waiting);
        let thread = std::thread::Builder::new()
            .name("reports".to_owned())
            .spawn(move || {
                for item in queue {
                    if matches!(item, Work::Race(..)) {
                        taken.fetch_sub(1, SeqCst);
                    }
                    state.handle(item);
                }
                match state.failure {
                    Some(error) => Err(error),
                    None => Ok(state.tally),
                }
            })
            .context("cannot start a thread; raise the limit of processes (ulimit -u) or of memory (ulimit -v)")?;
        Ok(Self {
            work,
            waiting,
            thread,
        })
    }

    /// A process's modules are these now.
    pub fn modules(&self, pid: u32, modules: Vec<ModuleInfo>) {
        // The thread ends only after `finish`.
        let _ = self.work.send(Work::Modules(pid, modules));
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
    pub fn repeat(&self) {
        let _ = self.work.send(Work::Repeat);
    }

    /// These functions of a process were looked at.
    pub fn coverage(&self, pid: u32, functions: Vec<LookedAt>) {
        let _ = self.work.send(Work::Coverage(pid, functions));
    }

    /// Writes the summary and waits until all is written.
    ///
    /// # Errors
    /// Fails when something could not be written.
    pub fn finish(self, summary: Summary) -> anyhow::Result<Tally> {
        let _ = self.work.send(Work::Finish(Box::new(summary)));
        drop(self.work);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(anyhow::anyhow!("the reporting thread failed")))
    }
}

impl CoverageFile {
    fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: open_output(path).context("cannot write what --coverage asks for")?,
            coverage: Coverage::default(),
        })
    }

    fn add(&mut self, symbolizer: &Symbolizer, functions: &[LookedAt]) {
        for looked_at in functions {
            let frame = symbolizer.frame_by_symbol(looked_at.start);
            let module = frame.module.unwrap_or_default();
            let name = frame.function.unwrap_or_default();
            self.coverage.add(module, frame.offset, name, *looked_at);
        }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let path = self.path.display();
        self.coverage.write(&mut self.file).with_context(|| {
            format!("cannot write the coverage to {path}; free some space, or name another file")
        })
    }
}

/// Writes reports in the form that was asked for.
fn writer(args: &WatchArgs, out: Box<dyn Write + Send>, name: &str) -> Box<dyn ReportWriter> {
    match args.format {
        Format::Text => Box::new(TextWriter::new(out, name, args.stats)),
        Format::Json => Box::new(JsonWriter::new(out, name)),
    }
}

impl State {
    fn handle(&mut self, work: Work) {
        match work {
            Work::Modules(pid, modules) => {
                // What was read of a file serves all processes, and survives their end.
                let base = &self.base;
                let symbolizer = self.symbolizers.entry(pid).or_insert_with(|| base.clone());
                symbolizer.set_modules(&modules);
            }
            Work::Race(finding, maps) => {
                let symbolizer = self.symbolizers.entry(finding.pid).or_default();
                let before = thread_cpu_time_ns();
                let race = build_race(symbolizer, &finding, &maps);
                self.race(&race);
                // Nobody listens any more once watching has ended.
                let _ = self.found.send(Explained {
                    pid: finding.pid,
                    cpu_ns: thread_cpu_time_ns() - before,
                    tally: self.tally,
                });
            }
            Work::Repeat => self.tally.total += 1,
            Work::Coverage(pid, functions) => {
                let symbolizer = self.symbolizers.entry(pid).or_default();
                if let Some(file) = &mut self.coverage {
                    file.add(symbolizer, &functions);
                }
            }
            Work::Finish(mut summary) => {
                summary.races_unique = self.tally.unique;
                summary.races_total = self.tally.total;
                if self.tally.suppressed > 0 {
                    summary
                        .hits_swallowed
                        .insert("suppressed".to_owned(), self.tally.suppressed);
                }
                if !self.quiet || self.json {
                    self.write(|writer| writer.summary(&summary));
                }
                if let Some(Err(error)) = self.coverage.as_mut().map(CoverageFile::write) {
                    tracing::error!("{error}");
                    self.failure.get_or_insert(error);
                }
            }
        }
    }

    /// Reports a race, unless it is suppressed or a repeat.
    fn race(&mut self, race: &Race) {
        if self
            .suppressions
            .as_mut()
            .is_some_and(|list| list.suppresses(race))
        {
            self.tally.suppressed += 1;
            return;
        }
        self.tally.total += 1;
        if self.deduper.record(race) {
            self.tally.unique += 1;
            self.write(|writer| writer.race(race));
        }
    }

    /// Writes to where the user wants it or, if that fails, to standard error: nothing that was
    /// found is lost.
    fn write(&mut self, report: impl Fn(&mut dyn ReportWriter) -> Result<(), WriteError>) {
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
                let _ = report(&mut **resort);
            }
            None if error.is_closed() => return,
            None if self.failure.is_some() => return,
            None => tracing::error!("{error}"),
        }
        self.failure.get_or_insert(error.into());
    }
}
