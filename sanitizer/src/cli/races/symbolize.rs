//! `gwp-race races symbolize`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    cli::{
        debug_files::DebugFileArgs,
        form::{Form, Format},
        messages::{log_to_stderr, tell},
        served_files::ServedFiles,
    },
    kernel::{
        foreign::Via,
        rights::{as_caller, give_back},
    },
    reader::{Client, Program},
    report::{
        NamelessModule, Race, Record, ReportWriter, SourceMap, WriteError, add_names,
        nameless_modules, read_records,
    },
    symbols::{
        DebugDirs, Files as _, Known, ModuleInfo, Sources, Symbolizer, build_id_of_digits,
        within_ours,
    },
};

/// Fill in functions and lines of a JSON file
///
/// `run` and `attach` with --format json have written the file, of stripped programs perhaps, on another machine. Functions, files and lines are taken from files with the build ids that the
/// report names, and from no others: in the folders of --debug-dir and /usr/lib/debug, from servers that DEBUGINFOD_URLS names, and from the module itself, if that very build is at the same path here. Nothing that a
/// process serves (FUSE) is looked into.
///
/// Identities of races and issues are made anew of what is named then; those of pairs, and fingerprints, stay what they were. What is known stays as it is. At the end it is told how many frames
/// have got names, and of which build ids there was nothing.
///
/// The exit code is 0 if the file could be read and written, and 1 if not.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races symbolize --debug-dir ./debug -o named.json races.json
  gwp-race races symbolize races.json | jq .accesses[].stack[0].function
  gwp-race races symbolize -o named.json races.json && gwp-race export --format text named.json")]
pub struct SymbolizeArgs {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub debug_files: DebugFileArgs,

    /// The file that --format json has written
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

pub fn run(args: &SymbolizeArgs) -> anyhow::Result<ExitCode> {
    // Nothing but files of the caller is used.
    give_back()?;
    log_to_stderr(false, 0);
    let mut read = as_caller(|| read_records(&args.file))??;
    let mut names = Names::new(args)?;
    for record in &mut read.records {
        if let Record::Race(race) = record {
            names.add_to(race);
        }
    }
    let map = SourceMap::default();
    let form = Form {
        format: Format::Json,
        source_root: None,
        source_map: &map,
        stats: false,
        has_baseline: false,
    };
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    let (mut writer, _) = form.write_to(path, false)?;
    match write(&read.records, &mut *writer) {
        // Who reads has read enough.
        Err(error) if error.is_closed() && args.output.is_none() => {}
        result => result?,
    }
    names.served.end();
    names.tell();
    if read.is_cut {
        let name = args.file.display();
        anyhow::bail!("the last record of {name} is not complete, and was left out");
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes all records as they came: a file may have those of several runs.
fn write(records: &[Record], writer: &mut dyn ReportWriter) -> Result<(), WriteError> {
    for record in records {
        match record {
            Record::Race(race) => writer.race(race)?,
            Record::Summary(summary) => writer.summary(summary)?,
        }
    }
    Ok(())
}

/// A file, and the module that it stands for.
type Found = (ModuleInfo, Arc<Known>);

/// Looks names up.
struct Names {
    dirs: Arc<DebugDirs>,
    served: ServedFiles,
    files: Arc<Mutex<Client>>,
    /// The files of modules, by path and build id, and how each is opened.
    known: HashMap<(String, String), Option<Found>>,
    /// Frames that have got names.
    named: usize,
    /// Frames that have none still, by build id and paths of their modules.
    nameless: BTreeMap<String, (BTreeSet<String>, usize)>,
}

impl Names {
    fn new(args: &SymbolizeArgs) -> anyhow::Result<Self> {
        let dirs = args.debug_files.dirs.shared()?;
        let served = ServedFiles::new(&args.debug_files, true);
        let sources = served.beside(Sources::new(Arc::clone(&dirs)));
        Ok(Self {
            dirs,
            served,
            files: Arc::new(Mutex::new(Client::new(Program::default(), sources))),
            known: HashMap::new(),
            named: 0,
            nameless: BTreeMap::new(),
        })
    }

    fn files(&self) -> MutexGuard<'_, Client> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_to(&mut self, race: &mut Race) {
        let mut symbolizer = Symbolizer::over(Arc::clone(&self.files) as _);
        for module in nameless_modules(race) {
            if let Some(module) = self.module(&module) {
                symbolizer.add_module(&module);
            }
        }
        let frames = race.accesses.iter().flat_map(|access| &access.stack);
        let places: Vec<u64> = frames.map(|frame| frame.pc.0).collect();
        self.served.complete(&symbolizer, || places.clone());
        self.named += add_names(race, &symbolizer);
        let frames = race.accesses.iter().flat_map(|access| &access.stack);
        for frame in frames.filter(|frame| frame.function.is_none()) {
            if let (Some(path), Some(build_id)) = (&frame.module, &frame.build_id) {
                let (paths, frames) = self.nameless.entry(build_id.clone()).or_default();
                paths.insert(path.clone());
                *frames += 1;
            }
        }
    }

    /// A module as a symbolizer takes it, where there is a file of its build.
    fn module(&mut self, module: &NamelessModule) -> Option<ModuleInfo> {
        let key = (module.path.clone(), module.build_id.clone());
        if !self.known.contains_key(&key) {
            let found = self.find(module);
            self.known.insert(key.clone(), found);
        }
        let (info, file) = self.known.get(&key)?.as_ref()?;
        let (start, end) = file.facts.range?;
        Some(ModuleInfo {
            start: start.wrapping_add(module.bias),
            end: end.wrapping_add(module.bias),
            bias: module.bias,
            ..info.clone()
        })
    }

    /// A file with a module's build id: itself, beside which its debug file is looked for, or the debug file alone.
    fn find(&mut self, module: &NamelessModule) -> Option<Found> {
        let build_id = build_id_of_digits(&module.build_id)?;
        let own = PathBuf::from(&module.path);
        let own = own.is_absolute().then(|| within_ours(own));
        let places = own.into_iter().chain(self.dirs.files_of(&build_id));
        let mut found = places.filter_map(|via| self.open(module, via, &build_id));
        if let Some(found) = found.next() {
            return Some(found);
        }
        let served = self.served.file(&build_id, &module.path)?;
        self.open(module, served.into(), &build_id)
    }

    /// A file, if it is of this build.
    fn open(&self, module: &NamelessModule, via: Via, build_id: &[u8]) -> Option<Found> {
        let info = ModuleInfo {
            path: module.path.clone(),
            via,
            build_id: build_id.to_vec(),
            ..ModuleInfo::default()
        };
        let file = self.files().open(&info)?;
        (file.facts.build_id == build_id).then_some((info, file))
    }

    fn tell(&self) {
        let left: usize = self.nameless.values().map(|(_, frames)| frames).sum();
        let all = self.named + left;
        tell(&format!(
            "{} of {all} frames without names or lines have got them",
            self.named
        ));
        for (build_id, (paths, frames)) in &self.nameless {
            let paths = paths.iter().cloned().collect::<Vec<_>>().join(", ");
            tell(&format!(
                "nothing was found for the build id {build_id} ({paths}; frames: {frames}); name a folder with its debug file by --debug-dir{}",
                if self.served.are_asked() {
                    ""
                } else {
                    ", or a server by DEBUGINFOD_URLS"
                }
            ));
        }
    }
}
