//! `gwp-race inspect`: the metadata that a file, or each module of a process, carries.

mod block_map;
mod listed;
#[cfg(test)]
mod oracle;
mod pc_section;
mod probes;
mod small_tables;
mod stack_map;
mod symbols;
mod tables;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use nix::unistd::Pid;
use serde::Serialize;
use serde_json::json;

use crate::image::Image;
use crate::pcmeta::{
    Format, Function, Metadata, PcSectionDescription, SectionKind, SectionSummary,
};
use crate::target::Modules;

use listed::{Listed, write_line};
use symbols::Symbol;
use tables::{Source, Tables};

/// What to do about a file without metadata.
const BUILD_HINT: &str = "build it with clang -fexperimental-sanitize-metadata=atomics, or with \
    rustc -C passes=sanmd-module -C llvm-args=\"-sanitizer-metadata-covered \
    -sanitizer-metadata-atomics\"";

/// Show the metadata that a program or a process carries
///
/// gwp-race reports races only in code whose compiler wrote down which instructions are atomic.
/// This shows, for a file or for every module of a process, which versions of the metadata are
/// there, how many functions are covered by it and analyzed for atomics, how much of the code
/// that is, and how many bytes it adds to the file. Other tables that compilers write about code
/// are decoded as well: basic-block address maps, stack maps, stack sizes, fault maps, pseudo
/// probes, the points of SanitizerCoverage, and PC sections of any name.
///
/// The exit code is 0 if any of this was found, 1 if nothing.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race inspect ./server              a program or a shared library
  gwp-race inspect 4711                  every module of the process 4711
  gwp-race inspect --list ./server       every function and every atomic instruction
  gwp-race inspect --list --pc-section 'my_calls!C=instruction,4' ./server
  gwp-race inspect --json $(pidof server) | jq .analyzed_percent
  gwp-race inspect --list server.o       an object file
  gwp-race inspect ./4711                a file whose name is a number")]
pub struct InspectArgs {
    /// An ELF file, linked or not, or the id of a process
    ///
    /// The sections of an object file are shown at addresses of their own, one behind the other;
    /// --json tells which.
    #[arg(value_name = "FILE|PID")]
    pub target: String,

    /// List every covered function, every atomic instruction and every entry of other tables
    ///
    /// One line each: link address, size, features and the symbol's name as the linker has it.
    #[arg(long)]
    pub list: bool,

    /// Print one JSON object a line for each module
    #[arg(long)]
    pub json: bool,

    /// Decode this section, which `!pcsections` metadata in LLVM's IR has made
    ///
    /// Nothing in a file tells what the entries of such a section hold, so it is said here: the
    /// section's name, with !C where the IR has it; `instruction` or `function`; `pc64` for
    /// -mcmodel=medium and large; and the sizes in bytes of the constants. Can be given more
    /// than once.
    #[arg(long, value_name = "NAME[!C]=ENTRY")]
    pub pc_section: Vec<PcSectionDescription>,

    /// Decode the sections that this file describes, one a line as in --pc-section
    ///
    /// Empty lines, and lines that begin with #, say nothing.
    #[arg(long, value_name = "FILE")]
    pub pc_sections: Option<PathBuf>,
}

impl InspectArgs {
    /// The sections that the options describe.
    fn descriptions(&self) -> anyhow::Result<Vec<PcSectionDescription>> {
        let mut descriptions = self.pc_section.clone();
        if let Some(file) = &self.pc_sections {
            let name = file.display();
            let text = std::fs::read_to_string(file)
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
    let mut out = io::BufWriter::new(io::stdout().lock());
    let found = inspect(args, &mut out).and_then(|found| Ok(out.flush().map(|()| found)?));
    match found {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        // `inspect --list | head` has read enough.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    (error.downcast_ref::<io::Error>()).is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes what the file or process carries, all of it with `list`; says whether there is anything.
/// Modules of a process that cannot be read are named and passed over.
///
/// # Errors
/// The file is no ELF file, or what it carries cannot be decoded; there is no such process, or it
/// may not be looked at; a section that was described is not there; `out` cannot be written to.
pub fn inspect(args: &InspectArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    let descriptions = args.descriptions()?;
    // Only digits are a process, so that every file can be named: `./4711`.
    if let Ok(pid) = args.target.parse::<i32>() {
        return inspect_process(Pid::from_raw(pid), args, &descriptions, out);
    }
    let image = Image::open_any(Path::new(&args.target))?;
    let metadata = Metadata::load(&image)?;
    let tables = Tables::load(&image, &descriptions)?;
    let module = Module::new(&args.target, &image, &metadata, &tables);
    module.write(args.list, args.json, out)?;
    (descriptions.iter()).try_for_each(|one| check_found(one, tables.has(one), &args.target))?;
    Ok(!metadata.is_empty() || !tables.is_empty())
}

/// An error for a section that was described and is not there.
fn check_found(
    description: &PcSectionDescription,
    is_found: bool,
    target: &str,
) -> anyhow::Result<()> {
    let name = &description.name;
    anyhow::ensure!(
        is_found,
        "{target}: no section is called {name}; see which there are with readelf -S"
    );
    Ok(())
}

fn inspect_process(
    pid: Pid,
    args: &InspectArgs,
    descriptions: &[PcSectionDescription],
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let (list, json) = (args.list, args.json);
    let modules = Modules::scan(pid).with_context(|| {
        format!("cannot look at process {pid}; check the id, and run as root or as its user")
    })?;
    let (mut carrying, mut all, mut has_tables) = (0, 0, false);
    let mut missing: Vec<&PcSectionDescription> = descriptions.iter().collect();
    for module in modules.all() {
        let name = module.path.to_string_lossy();
        let image = &module.image;
        let tables = Tables::load(image, descriptions);
        match (Metadata::load(image), &tables) {
            (Ok(metadata), Ok(tables)) => {
                all += 1;
                carrying += usize::from(!metadata.is_empty());
                has_tables |= !tables.is_empty();
                missing.retain(|description| !tables.has(description));
                Module::new(&name, image, &metadata, tables).write(list, json, out)?;
            }
            (Err(error), _) => write_error(&name, &error, json, out)?,
            (_, Err(error)) => write_error(&name, error, json, out)?,
        }
    }
    for unreadable in modules.unreadable() {
        write_error(
            &unreadable.mapping.name.to_string_lossy(),
            &*unreadable.reason,
            json,
            out,
        )?;
    }
    if !json {
        writeln!(out, "{carrying} of {all} modules carry metadata")?;
        if carrying == 0 {
            writeln!(out, "no race can be found in this process: {BUILD_HINT}")?;
        }
    }
    (missing.iter()).try_for_each(|one| check_found(one, false, &format!("process {pid}")))?;
    Ok(carrying > 0 || has_tables)
}

fn write_error(
    name: &str,
    error: &dyn std::error::Error,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if json {
        let line = json!({"type": "module", "file": name, "error": error.to_string()});
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "{name}: {error}")?;
    }
    Ok(())
}

/// One module and what was found in it.
struct Module<'data> {
    name: &'data str,
    image: &'data Image,
    metadata: &'data Metadata,
    tables: &'data Tables,
    analyzed: usize,
    analyzed_bytes: u64,
    code_bytes: u64,
}

impl<'data> Module<'data> {
    fn new(
        name: &'data str,
        image: &'data Image,
        metadata: &'data Metadata,
        tables: &'data Tables,
    ) -> Self {
        let analyzed = || metadata.functions().filter(Function::is_analyzed);
        let ranges = image.text_ranges();
        Self {
            name,
            image,
            metadata,
            tables,
            analyzed: analyzed().count(),
            analyzed_bytes: analyzed().map(|function| function.size()).sum(),
            code_bytes: ranges
                .iter()
                .map(|range| range.end.0.saturating_sub(range.start.0))
                .sum(),
        }
    }

    fn metadata_bytes(&self) -> u64 {
        self.metadata
            .sections()
            .iter()
            .map(|section| section.bytes)
            .sum()
    }

    fn write(&self, list: bool, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        let source = list.then(|| Source::new(self.name, self.image));
        if json {
            self.write_json(source.as_ref(), out)?;
        } else {
            self.write_text(out)?;
            self.tables.write_summary(out)?;
            if let Some(source) = &source {
                self.list_text(source, out)?;
            }
        }
        if let Some(source) = &source
            && !self.tables.is_empty()
        {
            self.tables.write_list(source, json, out)?;
        }
        Ok(())
    }

    fn write_text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let name = self.name;
        if self.metadata.is_empty() {
            if self.image.has_section_headers() {
                writeln!(out, "{name}: no metadata; {BUILD_HINT}")?;
            } else {
                writeln!(
                    out,
                    "{name}: its section headers are stripped, so metadata cannot be found; strip \
                     it with `strip --strip-all`, which keeps them"
                )?;
            }
            return Ok(());
        }
        let covered = self.metadata.function_count();
        let atomics = self.metadata.atomic_count();
        let (analyzed, bytes) = (self.analyzed, self.metadata_bytes());
        let file_bytes = self.image.data().len() as u64;
        writeln!(out, "{name}:")?;
        for section in by_name(self.metadata.sections()) {
            writeln!(out, "  {}", describe(&section))?;
        }
        writeln!(
            out,
            "  functions  {covered} covered, {analyzed} analyzed for atomics"
        )?;
        writeln!(out, "  atomics    {atomics} instructions")?;
        let share = percent(bytes, file_bytes);
        writeln!(
            out,
            "  size       {bytes} bytes, {share:.2} % of the file's {file_bytes}"
        )?;
        let share = percent(self.analyzed_bytes, self.code_bytes);
        writeln!(
            out,
            "  analyzed   {share:.1} % of {} bytes of code",
            self.code_bytes
        )?;
        if analyzed == 0 && covered > 0 {
            writeln!(out, "  nothing was analyzed for atomics; {BUILD_HINT}")?;
        }
        Ok(())
    }

    fn list_text(&self, source: &Source<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
        for function in self.metadata.functions() {
            write!(
                out,
                "  function {:#012x} {:6} v{} {:10} {}",
                function.start,
                function.size(),
                function.version,
                function.features.to_string(),
                source.symbol(function.start).unwrap_or_default(),
            )?;
            match self.metadata.stack_args_size(function.start) {
                Some(size) if size > 0 => {
                    writeln!(out, ", {size} bytes of arguments on the stack")?
                }
                _ => writeln!(out)?,
            }
        }
        for pc in self.metadata.atomics() {
            let symbol = source.symbol(pc).unwrap_or_default();
            writeln!(out, "  atomic   {pc:#012x} {symbol}")?;
        }
        Ok(())
    }

    /// The addresses that the sections of an object file are given.
    fn layout(&self) -> serde_json::Value {
        let sections = self.image.sections().filter(|section| section.is_allocated);
        let sections = sections.map(|section| {
            json!({
                "index": section.index,
                "name": section.name,
                "address": section.address.0,
                "size": section.size,
            })
        });
        sections.collect()
    }

    /// Writes the module's line; with all that is in it, where a source is given.
    fn write_json(&self, source: Option<&Source<'_>>, out: &mut dyn Write) -> anyhow::Result<()> {
        let bytes = self.metadata_bytes();
        let sections = self.metadata.sections().iter().map(|section| {
            json!({
                "name": section.name,
                "kind": match section.kind {
                    SectionKind::Covered => "covered",
                    SectionKind::Atomics => "atomics",
                },
                "formats": section.formats.iter().map(|format| json!({
                    "version": format.version,
                    "pointer_sized": format.pointer_sized,
                })).collect::<Vec<_>>(),
                "bytes": section.bytes,
                "entries": section.entries,
                "discarded": section.discarded,
            })
        });
        let mut line = json!({
            "type": "module",
            "file": self.name,
            "build_id": self.image.build_id().map(|id| {
                id.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
            }),
            "section_headers": self.image.has_section_headers(),
            "object": self.image.is_object(),
            "sections": sections.collect::<Vec<_>>(),
            "functions_covered": self.metadata.function_count(),
            "functions_analyzed": self.analyzed,
            "atomics": self.metadata.atomic_count(),
            "metadata_bytes": bytes,
            "metadata_percent": percent(bytes, self.image.data().len() as u64),
            "code_bytes": self.code_bytes,
            "analyzed_bytes": self.analyzed_bytes,
            "analyzed_percent": percent(self.analyzed_bytes, self.code_bytes),
            "tables": self.tables.summary(),
        });
        if self.image.is_object() {
            line["layout"] = self.layout();
        }
        let Some(source) = source else {
            return Ok(write_line(&line, out)?);
        };
        let functions = self.metadata.functions().map(|function| FunctionLine {
            address: function.start.0,
            size: function.size(),
            version: function.version,
            features: function.features.to_string(),
            stack_args_size: self.metadata.stack_args_size(function.start),
            analyzed: function.is_analyzed(),
            symbol: source.symbol(function.start),
        });
        let atomics = self.metadata.atomics().map(|pc| AtomicLine {
            address: pc.0,
            symbol: source.symbol(pc),
        });
        let line = ListedModule {
            module: line,
            function_list: Listed::new(functions),
            atomic_list: Listed::new(atomics),
        };
        Ok(write_line(&line, out)?)
    }
}

/// A module's line with all that is in the module.
#[derive(Serialize)]
#[serde(bound = "Listed<F>: Serialize, Listed<A>: Serialize")]
struct ListedModule<F, A> {
    #[serde(flatten)]
    module: serde_json::Value,
    function_list: Listed<F>,
    atomic_list: Listed<A>,
}

#[derive(Serialize)]
struct FunctionLine<'data> {
    address: u64,
    size: u64,
    version: u8,
    features: String,
    stack_args_size: Option<u32>,
    analyzed: bool,
    symbol: Option<Symbol<'data>>,
}

#[derive(Serialize)]
struct AtomicLine<'data> {
    address: u64,
    symbol: Option<Symbol<'data>>,
}

/// Sections of one name as one: an object file may have one for each function.
fn by_name(sections: &[SectionSummary]) -> Vec<SectionSummary> {
    let mut merged: Vec<SectionSummary> = Vec::new();
    for section in sections {
        match merged.iter_mut().find(|same| same.name == section.name) {
            Some(same) => {
                same.bytes += section.bytes;
                same.entries += section.entries;
                same.discarded += section.discarded;
                for format in &section.formats {
                    if !same.formats.contains(format) {
                        same.formats.push(*format);
                    }
                }
            }
            None => merged.push(section.clone()),
        }
    }
    merged
}

/// A section's name and content in a line.
fn describe(section: &SectionSummary) -> String {
    let formats: Vec<String> = match section.kind {
        SectionKind::Covered => section.formats.iter().map(Format::to_string).collect(),
        // A list of addresses is the same in all versions.
        SectionKind::Atomics => (section.formats.iter())
            .filter(|format| format.pointer_sized)
            .map(|_| "64-bit offsets".to_owned())
            .collect(),
    };
    let mut line = format!("{:19} {} entries", section.name, section.entries);
    if section.discarded > 0 {
        line += &format!(" ({} of discarded code)", section.discarded);
    }
    if !formats.is_empty() {
        line += &format!(", {}", formats.join(" and "));
    }
    line
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 * 100.0 / whole as f64
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const SOURCE: &str = "#include <unistd.h>
        _Atomic int flag; int plain;
        __attribute__((noinline)) void publish(void) { plain = 1; flag = 2; }
        int main(void) { publish(); write(1, \"x\", 1); char c; read(0, &c, 1); return 0; }";

    fn build(flags: &[&str]) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("input.c");
        let output = dir.path().join("output");
        std::fs::write(&input, SOURCE).unwrap();
        let mut command = Command::new("clang-22");
        let status = command
            .args(flags)
            .arg(&input)
            .arg("-o")
            .arg(&output)
            .status();
        assert!(
            status
                .expect("clang-22 is needed: cargo xtask setup")
                .success()
        );
        let path = output.to_str().unwrap().to_owned();
        (dir, path)
    }

    fn args(target: &str, list: bool, json: bool) -> InspectArgs {
        InspectArgs {
            target: target.to_owned(),
            list,
            json,
            pc_section: Vec::new(),
            pc_sections: None,
        }
    }

    fn text(target: &str, list: bool) -> (bool, String) {
        let mut out = Vec::new();
        let found = inspect(&args(target, list, false), &mut out).unwrap();
        (found, String::from_utf8(out).unwrap())
    }

    fn lines(target: &str, list: bool) -> Vec<serde_json::Value> {
        let mut out = Vec::new();
        inspect(&args(target, list, true), &mut out).unwrap();
        let lines = String::from_utf8(out).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_file_is_summed_up_and_listed() {
        let (_dir, path) = build(&["-O1", "-fexperimental-sanitize-metadata=atomics"]);
        let (found, summary) = text(&path, false);
        assert!(found);
        for part in [
            "sanmd_covered2      2 entries, version 2",
            "2 covered, 2 analyzed",
            "atomics    1 instructions",
        ] {
            assert!(summary.contains(part), "{part}: {summary}");
        }
        let (_, listed) = text(&path, true);
        assert!(listed.starts_with(&summary));
        assert!(
            listed.contains(" publish\n") && listed.contains(" publish+0x"),
            "{listed}"
        );

        let [line] = &lines(&path, true)[..] else {
            panic!()
        };
        assert_eq!(line["functions_analyzed"], 2);
        assert_eq!(line["sections"][0]["formats"][0]["version"], 2);
        assert_eq!(line["function_list"].as_array().unwrap().len(), 2);
        assert_eq!(line["atomic_list"].as_array().unwrap().len(), 1);
        let share = line["analyzed_percent"].as_f64().unwrap();
        assert!(share > 1.0 && share < 99.0, "{share}");
        let size = std::fs::metadata(&path).unwrap().len() as f64;
        let bytes = line["metadata_bytes"].as_f64().unwrap();
        let share = line["metadata_percent"].as_f64().unwrap();
        assert!((share - bytes * 100.0 / size).abs() < 1e-9, "{share}");
    }

    #[test]
    fn sections_of_one_name_are_one_line() {
        let flags = ["-O1", "-c", "-ffunction-sections"];
        let (_dir, path) =
            build(&[&flags[..], &["-fexperimental-sanitize-metadata=atomics"]].concat());
        let (_, summary) = text(&path, false);
        assert_eq!(summary.matches("sanmd_covered2").count(), 1, "{summary}");
        assert!(
            summary.contains("sanmd_covered2      2 entries, version 2"),
            "{summary}"
        );
    }

    #[test]
    fn a_file_without_metadata_tells_how_to_build_it() {
        let (_dir, path) = build(&["-O1"]);
        let (found, message) = text(&path, true);
        assert!(!found);
        assert!(
            message.contains("no metadata; build it with clang -fexperimental"),
            "{message}"
        );
        assert_eq!(lines(&path, false)[0]["functions_covered"], 0);
        let (_dir, path) = build(&["-O1", "-fexperimental-sanitize-metadata=covered"]);
        let (_, message) = text(&path, false);
        assert!(
            message.contains("nothing was analyzed for atomics; build it"),
            "{message}"
        );
    }

    #[test]
    fn a_file_without_section_headers_is_told_from_one_without_metadata() {
        let (_dir, path) = build(&["-O1", "-fexperimental-sanitize-metadata=atomics"]);
        let status = Command::new("llvm-strip-22")
            .args(["--strip-sections", &path])
            .status();
        assert!(status.unwrap().success());
        let (found, message) = text(&path, false);
        assert!(!found);
        assert!(
            message.contains("section headers are stripped"),
            "{message}"
        );
    }

    #[test]
    fn errors_name_the_file_and_the_process() {
        let error = |target: &str| {
            format!(
                "{:#}",
                inspect(&args(target, false, false), &mut Vec::new()).unwrap_err()
            )
        };
        assert!(error("/etc/passwd").starts_with("/etc/passwd: not an ELF file"));
        assert!(error("/nonexistent").contains("/nonexistent"));
        assert!(error("2147483646").contains("cannot look at process 2147483646"));
    }

    #[test]
    fn every_module_of_a_process_is_shown() {
        let (_dir, path) = build(&["-O1", "-fexperimental-sanitize-metadata=atomics"]);
        let mut child = Command::new(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It has written its letter, so its libraries are loaded.
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let pid = child.id().to_string();
        let (found, shown) = text(&pid, false);
        let modules = lines(&pid, false);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(found);
        assert!(shown.contains(&format!("{path}:\n")), "{shown}");
        assert!(shown.contains("libc.so.6: no metadata"), "{shown}");
        assert!(shown.contains("1 of "), "{shown}");
        let program = modules
            .iter()
            .find(|module| module["file"] == path.as_str())
            .unwrap();
        assert_eq!(program["functions_analyzed"], 2);
    }

    /// Check that sections are decoded as the options and a file of descriptions say, and that one
    /// which is not there is an error.
    #[test]
    fn described_sections_are_decoded() {
        let (dir, path) = build(&["-O1", "-fexperimental-sanitize-metadata=atomics"]);
        let list = dir.path().join("sections");
        std::fs::write(
            &list,
            "# those of the detector\n\n  sanmd_atomics2=instruction\n",
        )
        .unwrap();
        let mut asked = args(&path, true, true);
        asked.pc_section = vec!["sanmd_covered2!C=function,4".parse().unwrap()];
        asked.pc_sections = Some(list.clone());
        let mut out = Vec::new();
        assert!(inspect(&asked, &mut out).unwrap());
        let lines: Vec<serde_json::Value> = (String::from_utf8(out).unwrap().lines())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let [module, entries @ ..] = &lines[..] else {
            panic!()
        };
        assert_eq!(module["tables"]["pc_sections"][0]["entries"], 2);
        assert_eq!(module["tables"]["pc_sections"][1]["entries"], 1);
        // The same as what the detector makes of these sections.
        for (entry, function) in entries
            .iter()
            .zip(module["function_list"].as_array().unwrap())
        {
            for field in ["address", "size", "symbol"] {
                assert_eq!(entry[field], function[field]);
            }
            assert_eq!(entry["constants"], serde_json::json!([1]));
        }
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[2]["address"], module["atomic_list"][0]["address"]);

        asked.pc_section = vec!["missing=instruction".parse().unwrap()];
        let error = inspect(&asked, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("no section is called missing"), "{error}");
        std::fs::write(&list, "sanmd_atomics2=instruction\nsanmd_covered2=\n").unwrap();
        let error = format!("{:#}", inspect(&asked, &mut Vec::new()).unwrap_err());
        assert!(
            error.contains("sections:2: ") && error.contains("neither"),
            "{error}"
        );
    }
}
