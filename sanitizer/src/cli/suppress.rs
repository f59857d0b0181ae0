//! `gwp-race suppress`: the suppressions of races that were reported.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use super::stdout::written;
use crate::kernel::rights::as_caller;
use crate::report::{Record, is_called, read_records, rule};

/// Print suppressions of reported races
///
/// `run` and `attach` write one JSON object a line with --format json. For each race of such a file, or for the one that is named, this prints the rule that suppresses this race and no other one, below
/// a comment that tells which. Whoever appends it to the file of --suppressions hears of that race no more. The rules hold for later builds as well, as far as the code has symbols.
///
/// The exit code is 0 if there is such a race, and 1 if not.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race run --format json -o races.json -- ./test-suite
  gwp-race suppress races.json r3:43db388692c5486b58ac6a896dd0703d >> my.supp
  gwp-race run --suppressions my.supp -- ./test-suite")]
pub struct SuppressArgs {
    /// The file that --format json has written
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The race: its identity or fingerprint
    ///
    /// One of the names that reports give: the identity of the race (r3:), of the pair (p3:) or of the issue (i3:), or the fingerprint. An issue may be several races.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// Carries out the command on standard output.
///
/// # Errors
/// The file cannot be read, or has no such race.
pub fn run(args: &SuppressArgs) -> anyhow::Result<ExitCode> {
    let read = as_caller(|| read_records(&args.file))??;
    let path = args.file.display().to_string();
    print(&read.records, args.name.as_deref(), &path)
}

/// Prints the rules of races, or of those of this name; `path` is from where they come.
///
/// # Errors
/// There is no such race.
pub fn print(records: &[Record], name: Option<&str>, path: &str) -> anyhow::Result<ExitCode> {
    let mut told = BTreeSet::new();
    let mut text = String::new();
    for record in records {
        let Record::Race(race) = record else {
            continue;
        };
        if name.is_some_and(|name| !is_called(race, name)) {
            continue;
        }
        let Ok(rule) = rule(race) else {
            anyhow::bail!(
                "the race {} of {path} is named by the rules of another version of gwp-race; make the report anew",
                race.fingerprint
            );
        };
        if told.insert(race.identity.race.clone()) {
            text.push_str(&rule);
        }
    }
    if text.is_empty() {
        match name {
            Some(name) => anyhow::bail!(
                "{path} has no race with the name {name}; take one from a report: `Identity is ...` of a text, .identity.race of JSON"
            ),
            None => anyhow::bail!("{path} has no race"),
        }
    }
    written(|out| {
        out.write_all(text.as_bytes())?;
        Ok(true)
    })
}
