//! `gwp-race export`: reports that were written as JSON, in another form.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::form::{Form, Format};
use crate::kernel::rights::as_caller;
use crate::report::{
    MappedPrefix, Record, ReportWriter, SourceMap, Suppressions, WriteError, read_records,
};

/// Write reports in another form
///
/// `run` and `attach` write one JSON object a line with --format json, as races are found. What they have written so far can be had in another form at any time: of
/// a server that is watched for weeks, say, of a run that was killed, or of several runs whose files were put together.
///
/// The exit code is 0 if all could be read and written, and 1 if not.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race run --format json -o races.json -- ./test-suite
  gwp-race export --format html -o races.html races.json
  gwp-race export --format sarif -o races.sarif races.json
  gwp-race export --format github races.json")]
pub struct ExportArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub export: Export,

    /// The file that --format json has written
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// How races are written, wherever they come from.
#[derive(Clone, Debug, clap::Args)]
pub struct Export {
    /// Form (--help lists them)
    ///
    /// The form of the reports.
    #[arg(long, value_enum, value_name = "FORM")]
    pub format: Format,

    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Name source files from this folder
    ///
    /// In SARIF and annotations, source files are named from this folder (default: $GITHUB_WORKSPACE, else the working directory).
    #[arg(long, value_name = "FOLDER")]
    pub source_root: Option<PathBuf>,

    /// Sources whose names begin with FROM are below TO
    ///
    /// On this machine: for their names in SARIF and annotations (may be given several times).
    #[arg(long, value_name = "FROM=TO")]
    pub source_map: Vec<MappedPrefix>,

    /// Leave out races that this file names
    ///
    /// The file has one rule a line, as that of `run --suppressions`.
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
}

/// Carries out the command.
///
/// # Errors
/// The file cannot be read, or the reports not be written.
pub fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let read = as_caller(|| read_records(&args.file))??;
    let code = export(&args.export, read.records)?;
    if read.is_cut {
        let name = args.file.display();
        anyhow::bail!("the last record of {name} is not complete, and was left out");
    }
    Ok(code)
}

/// Writes records.
///
/// # Errors
/// They cannot be written.
pub fn export(args: &Export, mut records: Vec<Record>) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.suppressions {
        let mut suppressions = as_caller(|| Suppressions::read(path))??;
        records.retain(|record| match record {
            Record::Race(race) => !suppressions.suppresses(race),
            Record::Summary(_) => true,
        });
    }
    let has_baseline = records
        .iter()
        .any(|record| matches!(record, Record::Race(race) if race.known));
    let map = SourceMap::new(&args.source_map);
    let form = Form {
        format: args.format,
        source_root: args.source_root.as_deref(),
        source_map: &map,
        stats: false,
        has_baseline,
    };
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    let (mut writer, _) = form.write_to(path, false)?;
    match write(&records, &mut *writer) {
        // Who reads has read enough.
        Err(error) if error.is_closed() && args.output.is_none() => {}
        result => result?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes all races, and what stands at the end of the last run.
fn write(records: &[Record], writer: &mut dyn ReportWriter) -> Result<(), WriteError> {
    let mut last = None;
    for record in records {
        match record {
            Record::Race(race) => writer.race(race)?,
            Record::Summary(summary) => last = Some(summary),
        }
    }
    match last {
        Some(summary) => writer.summary(summary),
        None => writer.without_summary(),
    }
}
