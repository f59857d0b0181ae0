//! `gwp-race inspect`: the metadata that a file, or each module of a process, carries.

mod block_map;
#[cfg(test)]
mod oracle;
mod stack_map;
mod tables;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use nix::unistd::Pid;
use serde_json::json;

use crate::addr::LinkAddr;
use crate::image::{FunctionSymbol, Image};
use crate::pcmeta::{Format, Function, Metadata, SectionKind, SectionSummary};
use crate::target::Modules;

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
/// are decoded as well: basic-block address maps and stack maps.
///
/// The exit code is 0 if any of this was found, 1 if nothing.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race inspect ./server              a program or a shared library
  gwp-race inspect 4711                  every module of the process 4711
  gwp-race inspect --list ./server       every function and every atomic instruction
  gwp-race inspect --json $(pidof server) | jq .analyzed_percent
  gwp-race inspect ./4711                a file whose name is a number")]
pub struct InspectArgs {
    /// An ELF file, or the id of a process
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
}

/// Carries out the command on standard output.
///
/// # Errors
/// As [`inspect`].
pub fn run(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let found = inspect(&args.target, args.list, args.json, &mut out)
        .and_then(|found| Ok(out.flush().map(|()| found)?));
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

/// Writes what metadata the file or process `target` carries, all of it with `list`; says
/// whether there is any. Modules of a process that cannot be read are named and passed over.
///
/// # Errors
/// The file is no ELF file, or its metadata cannot be decoded; there is no such process, or it
/// may not be looked at; `out` cannot be written to.
pub fn inspect(target: &str, list: bool, json: bool, out: &mut dyn Write) -> anyhow::Result<bool> {
    // Only digits are a process, so that every file can be named: `./4711`.
    if let Ok(pid) = target.parse::<i32>() {
        return inspect_process(Pid::from_raw(pid), list, json, out);
    }
    let image = Image::open(Path::new(target))?;
    let metadata = Metadata::load(&image)?;
    let tables = Tables::load(&image)?;
    let module = Module::new(target, &image, &metadata, &tables);
    module.write(list, json, out)?;
    Ok(!metadata.is_empty() || !tables.is_empty())
}

fn inspect_process(pid: Pid, list: bool, json: bool, out: &mut dyn Write) -> anyhow::Result<bool> {
    let modules = Modules::scan(pid).with_context(|| {
        format!("cannot look at process {pid}; check the id, and run as root or as its user")
    })?;
    let (mut carrying, mut all) = (0, 0);
    for module in modules.all() {
        let name = module.path.to_string_lossy();
        let image = &module.image;
        let tables = Tables::load(image);
        match (Metadata::load(image), &tables) {
            (Ok(metadata), Ok(tables)) => {
                all += 1;
                carrying += usize::from(!metadata.is_empty());
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
    Ok(carrying > 0)
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
        if json {
            self.write_json(list, out)?;
        } else {
            self.write_text(out)?;
            self.tables.write_summary(out)?;
            if list {
                self.list_text(out)?;
            }
        }
        if list && !self.tables.is_empty() {
            let source = Source::new(self.name, self.image);
            self.tables.write_list(&source, json, out)?;
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
        for section in self.metadata.sections() {
            writeln!(out, "  {}", describe(section))?;
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

    fn list_text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let symbols = self.image.functions();
        for function in self.metadata.functions() {
            writeln!(
                out,
                "  function {:#012x} {:6} v{} {:10} {}",
                function.start,
                function.size(),
                function.version,
                function.features.to_string(),
                symbolize(&symbols, function.start).unwrap_or_default(),
            )?;
        }
        for pc in self.metadata.atomics() {
            let symbol = symbolize(&symbols, pc).unwrap_or_default();
            writeln!(out, "  atomic   {pc:#012x} {symbol}")?;
        }
        Ok(())
    }

    fn write_json(&self, list: bool, out: &mut dyn Write) -> anyhow::Result<()> {
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
        if list && let Some(object) = line.as_object_mut() {
            let symbols = self.image.functions();
            let functions = self.metadata.functions().map(|function| {
                json!({
                    "address": function.start.0,
                    "size": function.size(),
                    "version": function.version,
                    "features": function.features.to_string(),
                    "analyzed": function.is_analyzed(),
                    "symbol": symbolize(&symbols, function.start),
                })
            });
            let atomics = self
                .metadata
                .atomics()
                .map(|pc| json!({"address": pc.0, "symbol": symbolize(&symbols, pc)}));
            object.insert("function_list".into(), functions.collect());
            object.insert("atomic_list".into(), atomics.collect());
        }
        writeln!(out, "{line}")?;
        Ok(())
    }
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

/// The function that an address is in and the distance from its start.
fn symbolize(symbols: &[FunctionSymbol<'_>], address: LinkAddr) -> Option<String> {
    let after = symbols.partition_point(|symbol| symbol.address <= address);
    let before = symbols.get(..after)?;
    let nearest = before.last()?.address;
    // The most public name of several comes first.
    let first = before.partition_point(|symbol| symbol.address < nearest);
    let symbol = before.get(first)?;
    match address.0 - symbol.address.0 {
        0 => Some(symbol.name.to_owned()),
        distance if distance < symbol.size => Some(format!("{}+{distance:#x}", symbol.name)),
        _ => None,
    }
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

    fn text(target: &str, list: bool) -> (bool, String) {
        let mut out = Vec::new();
        let found = inspect(target, list, false, &mut out).unwrap();
        (found, String::from_utf8(out).unwrap())
    }

    fn lines(target: &str, list: bool) -> Vec<serde_json::Value> {
        let mut out = Vec::new();
        inspect(target, list, true, &mut out).unwrap();
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
                inspect(target, false, false, &mut Vec::new()).unwrap_err()
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
}
