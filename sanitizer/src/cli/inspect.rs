//! `gwp-race inspect`: the metadata that a file, or each module of a process, carries.

mod block_map;
mod listed;
mod module;
#[cfg(test)]
mod oracle;
mod pc_section;
mod probes;
mod process;
#[cfg(test)]
mod schema;
mod small_tables;
mod source;
mod stack_map;
mod symbols;
mod tables;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use nix::unistd::Pid;

use super::debug_files::DebugDirArgs;
use super::stdout::{is_broken_pipe, written};
use super::told;
use crate::image::{Image, Opened};
use crate::kernel::named;
use crate::kernel::rights::as_caller;
use crate::pcmeta::PcSectionDescription;
use crate::report::clean::clean;
use crate::symbols::{CallFrames, DebugDirs, ModuleInfo, debug_image, load_metadata};

use module::Module;
use module::json::write_not_shown;
use source::Files;
use tables::Tables;

/// What to do about a file without metadata.
const BUILD_HINT: &str = "build it with clang -fexperimental-sanitize-metadata=atomics -mllvm \
    -enable-tail-merge=0 -mllvm -x86-promote-anyext-load=0, or with rustc -C passes=sanmd-module -C \
    llvm-args=\"-sanitizer-metadata-covered -sanitizer-metadata-atomics -enable-tail-merge=0 \
    -x86-promote-anyext-load=0\"";

/// Show the metadata that programs and processes carry
///
/// gwp-race reports races only in code whose compiler wrote down which instructions are atomic.
/// This shows, for files or for every module of a process, which versions of the metadata are
/// there, how many functions are covered by it and analyzed for atomics, how much of the code
/// that is, and how many bytes it adds to the file. Other tables that compilers write about code
/// are decoded as well: basic-block address maps, stack maps, stack sizes, fault maps, pseudo
/// probes, the points of SanitizerCoverage, and PC sections of any name.
///
/// A table that cannot be read is named with the reason, and the others are shown. Tables that were
/// stripped from a program are taken from its debug file, where that is found.
///
/// The exit code is 0 if any of this was found, 1 if nothing, or if one of the files cannot be read.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race inspect ./server              a program or a shared library
  gwp-race inspect 4711                  every module of the process 4711
  gwp-race inspect --list ./server       every function and every atomic instruction
  gwp-race inspect --list --pc-section 'my_calls!C=instruction,4' ./server
  gwp-race inspect --json $(pidof server) | jq .analyzed_percent
  gwp-race inspect --list server.o       an object file
  gwp-race inspect libserver.a ./*.so    each file in an archive, and some libraries
  gwp-race inspect ./4711                a file whose name is a number")]
pub struct InspectArgs {
    /// ELF files, archives of them, or ids of processes
    ///
    /// Files may be linked or not.
    /// The sections of an object file are shown at addresses of their own, one behind the other;
    /// --json tells which. Of an archive each member is shown, of a process each module.
    #[arg(value_name = "FILE|PID", required = true)]
    pub targets: Vec<String>,

    /// List every function, instruction and entry
    ///
    /// Every covered function, every atomic instruction and every entry of other tables, one line each: link address, size, features and the symbol's name as the linker has it.
    #[arg(long)]
    pub list: bool,

    /// Print one JSON object a line for each module
    #[arg(long)]
    pub json: bool,

    /// Decode this section of `!pcsections`
    ///
    /// `!pcsections` metadata in LLVM's IR has made it; the form is NAME[!C]=ENTRY[|ENTRY]. Nothing in a file tells what the entries of such a section hold, so it is said here: the
    /// section's name, with !C where the IR has it; `instruction` or `function`; `pc64` for
    /// -mcmodel=medium and large; and the sizes of the constants, in the bytes that they take in
    /// memory, with an r in front (r8) where they are no integers. Entries of several kinds have | in
    /// between, and where only some of them have !C, it stands behind `instruction` or
    /// `function`. Can be given more than once.
    #[arg(long, value_name = "NAME=ENTRY")]
    pub pc_section: Vec<PcSectionDescription>,

    /// Decode the sections that this file describes
    ///
    /// One a line as in --pc-section. Empty lines, and lines that begin with #, say nothing.
    #[arg(long, value_name = "FILE")]
    pub pc_sections: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub debug_files: DebugDirArgs,
}

impl InspectArgs {
    /// The sections that the options describe.
    fn descriptions(&self) -> anyhow::Result<Vec<PcSectionDescription>> {
        let mut descriptions = self.pc_section.clone();
        if let Some(file) = &self.pc_sections {
            let name = file.display();
            let text = as_caller(|| named::read_text(file))?
                .with_context(|| format!("cannot read {name}; check the path"))?;
            for (number, line) in (1..).zip(text.lines()) {
                let line = line.trim();
                if !line.is_empty() && !line.starts_with('#') {
                    let description = line.parse();
                    descriptions.push(description.with_context(|| format!("{name}:{number}"))?);
                }
            }
        }
        Ok(descriptions)
    }
}

/// Carries out the command on standard output.
///
/// # Errors
/// As [`inspect`].
pub fn run(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    written(|out| inspect(args, out))
}

/// Writes what the files and processes carry, all of it with `list`; says whether there is anything.
/// What cannot be read of them is named and passed over: modules of a process, members of an archive,
/// tables of a file, and of several files one.
///
/// # Errors
/// A file is no ELF file; there is no such process, or it may not be looked at; a section that was
/// described is not there, or holds something else; `out` cannot be written to.
pub fn inspect(args: &InspectArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    let descriptions = args.descriptions()?;
    let mut inspection = Inspection {
        args,
        descriptions: &descriptions,
        debug_dirs: args.debug_files.shared()?,
        missing: descriptions.iter().collect(),
        misdescribed: None,
        found: false,
        out,
    };
    let mut failed = 0;
    for target in &args.targets {
        match inspection.target(target) {
            // Of one there is nothing else to tell.
            Err(error) if args.targets.len() == 1 || is_broken_pipe(&error) => return Err(error),
            Err(error) => {
                failed += 1;
                inspection.error(target, &told(&error))?;
            }
            Ok(()) => {}
        }
    }
    if let Some(misdescribed) = inspection.misdescribed {
        anyhow::bail!(misdescribed);
    }
    if let Some(missing) = inspection.missing.first() {
        let (name, targets) = (&missing.name, args.targets.join(", "));
        anyhow::bail!(
            "{targets}: no section is called {name}; see which there are with readelf -S"
        );
    }
    let all = args.targets.len();
    anyhow::ensure!(
        failed == 0,
        "{failed} of {all} cannot be inspected; see above what to do about each"
    );
    Ok(inspection.found)
}

/// What is being looked at, and what was found so far.
struct Inspection<'a> {
    args: &'a InspectArgs,
    descriptions: &'a [PcSectionDescription],
    debug_dirs: Arc<DebugDirs>,
    /// The descriptions whose sections no file had.
    missing: Vec<&'a PcSectionDescription>,
    /// Why a section that was described cannot be read like that.
    misdescribed: Option<String>,
    /// Something was found.
    found: bool,
    out: &'a mut dyn Write,
}

impl Inspection<'_> {
    /// Shows a file or a process.
    fn target(&mut self, target: &str) -> anyhow::Result<()> {
        // Only digits are a process, so that every file can be named: `./4711`.
        if let Ok(pid) = target.parse::<i32>() {
            return self.process(Pid::from_raw(pid));
        }
        as_caller(|| self.file(target))?
    }

    /// Shows a file.
    fn file(&mut self, target: &str) -> anyhow::Result<()> {
        let path = Path::new(target);
        match Image::open_all(path)? {
            Opened::File(image) => {
                let info = ModuleInfo {
                    path: std::path::absolute(path)?.to_string_lossy().into_owned(),
                    via: path.to_owned().into(),
                    build_id: image.build_id().unwrap_or_default().to_vec(),
                    ..ModuleInfo::default()
                };
                self.image(target, &image, Some(&info))?;
            }
            Opened::Archive(archive) if archive.is_empty() => {
                self.error(target, "an archive without files; give one that has some")?;
            }
            Opened::Archive(archive) => {
                for (name, image) in archive.members() {
                    let name = name.to_string_lossy();
                    match image {
                        Ok(image) => drop(self.image(&name, &image, None)?),
                        Err(error) => self.error(&name, &error.to_string())?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Shows an ELF file; its debug file is looked for where it is a module of its own. What became
    /// of the detector's metadata in it.
    fn image(
        &mut self,
        name: &str,
        image: &Image,
        info: Option<&ModuleInfo>,
    ) -> anyhow::Result<Carries> {
        let is_stripped = !image.has_symbol_table() && !image.is_object();
        let debug = info.filter(|_| is_stripped);
        let debug = debug.and_then(|info| debug_image(info, &self.debug_dirs, u64::MAX));
        let files = Files {
            image,
            debug: debug.as_ref(),
        };
        let frames = OnceCell::new();
        let metadata = load_metadata(image, || frames.get_or_init(|| CallFrames::of(image)));
        let tables = Tables::load(&files, self.descriptions);
        let (list, json) = (self.args.list, self.args.json);
        Module::new(name, &files, &metadata, &tables).write(list, json, self.out)?;
        anyhow::ensure!(
            !image.is_cut(),
            "{name} was cut short while it was read; inspect it again"
        );
        self.missing.retain(|description| !tables.has(description));
        if let Some(error) = tables.misdescribed() {
            self.misdescribed.get_or_insert_with(|| error.to_string());
        }
        let carries = match metadata {
            Err(_) => Carries::Unreadable,
            Ok(metadata) if metadata.is_empty() => Carries::Nothing,
            Ok(_) => Carries::Metadata,
        };
        self.found |= carries == Carries::Metadata || !tables.is_empty();
        Ok(carries)
    }

    /// Tells why something cannot be shown.
    fn error(&mut self, name: &str, error: &str) -> anyhow::Result<()> {
        if self.args.json {
            write_not_shown(name, error, self.out)?;
        } else if error.starts_with(&format!("{name}: ")) {
            writeln!(self.out, "{}", clean(error))?;
        } else {
            writeln!(self.out, "{}: {}", clean(name), clean(error))?;
        }
        Ok(())
    }
}

/// What became of the detector's metadata in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carries {
    Metadata,
    Nothing,
    Unreadable,
}
