//! `gwp-race decisions`: what is in a decision log, and whether the planner would decide the same again.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use super::stdout::written;
use crate::hunt::plan::log::{Figures, ReplayError, file::Reader, replay, text::Words};
use crate::kernel::named;
use crate::kernel::rights::as_caller;

/// Show what a decision log holds
///
/// `run` and `attach` write one with --decision-log: all that the planner has heard, what it was asked, and what it has answered. Each of it is
/// shown on a line: the time since the first one in seconds, the process, and what it was. Actions have numbers (#1), which what comes of them begins with.
///
/// With --replay a planner that knows nothing yet hears the same, and its answers are compared.
///
/// The exit code is 0 if all could be read and the answers are the same, and 1 if not.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race run --decision-log server.log -- ./server
  gwp-race decisions server.log | less
  gwp-race decisions --replay server.log")]
pub struct DecisionsArgs {
    /// Compare the answers instead of showing the log
    ///
    /// They are compared with those of a planner that hears the same.
    #[arg(long)]
    pub replay: bool,

    /// The decision log
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Carries out the command on standard output.
///
/// # Errors
/// The file cannot be read, or is no decision log.
pub fn run(args: &DecisionsArgs) -> anyhow::Result<ExitCode> {
    let name = args.file.display();
    let file = as_caller(|| named::open_file(&args.file))?
        .with_context(|| format!("cannot open {name}; check the path"))?;
    let log = Reader::new(BufReader::new(file)).with_context(|| format!("cannot read {name}"))?;
    written(|out| {
        if args.replay {
            tell_replay(&args.file, log, out)
        } else {
            show(&args.file, log, out).map(|()| true)
        }
    })
}

fn show(path: &Path, mut log: Reader<BufReader<File>>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut words = Words::default();
    for record in &mut log {
        match record {
            Ok((process, record)) => writeln!(out, "{}", words.line(process, &record))?,
            Err(error) => {
                // What stands before it is of use all the same.
                out.flush()?;
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        }
    }
    if log.is_cut() {
        writeln!(out, "{CUT}")?;
    }
    Ok(())
}

/// What is said of a log that ends within a frame.
const CUT: &str = "the file ends within a record: who wrote it was killed, or had no room";

/// Compares the answers; whether they are the same.
fn tell_replay(
    path: &Path,
    mut log: Reader<BufReader<File>>,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    match replay(&mut log) {
        Ok(figures) => {
            writeln!(out, "the same {}", told(&figures))?;
            if log.is_cut() {
                writeln!(out, "{CUT}")?;
            }
            Ok(true)
        }
        Err(ReplayError::Difference(difference)) => {
            writeln!(out, "other decisions, from {difference}")?;
            if difference.of_other_priors {
                writeln!(out, "{OTHER_PRIORS}")?;
            }
            Ok(false)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// What is said of a log of other numbers.
const OTHER_PRIORS: &str =
    "the priors are not those with which it was written, which may be why; see docs/planner.md";

fn told(figures: &Figures) -> String {
    let Figures {
        hunts,
        of_other_priors,
        without_end,
        lost,
        events,
        decisions,
        stops,
    } = figures;
    let mut text =
        format!("{decisions} decisions; hunts: {hunts}, events: {events}, stops: {stops}");
    for (count, what) in [
        (of_other_priors, "with other priors"),
        (without_end, "without an end"),
        (lost, "with a rest that could not be told"),
    ] {
        if *count > 0 {
            text.push_str(&format!(", {what}: {count}"));
        }
    }
    text
}
