//! The command line, as `docs/user-guide.md` describes it.

use std::{ffi::OsString, ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::form::Format;
use crate::hunt::bounds::{self, SAMPLE_PERIOD, STALL, STOP_DEADLINE};
use crate::report::MappedPrefix;

/// Catches data races of programs in production in the act, and explains them.
///
/// gwp-race stops a thread just before a memory access for a fraction of a millisecond and
/// watches, with a hardware watchpoint, whether another thread touches the same bytes
/// meanwhile. Metadata that the compiler leaves in the binary tells atomic accesses from plain
/// ones. Between samples the program runs at full speed.
#[derive(Debug, Parser)]
#[command(name = "gwp-race", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:
  clang -O2 -g -fexperimental-sanitize-metadata=atomics -mllvm -enable-tail-merge=0 \
      -mllvm -x86-promote-anyext-load=0 server.c -o server
  gwp-race run -- ./server --port 8080
  gwp-race attach --duration 60s $(pidof server)
  gwp-race doctor ./server";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a program and watch it; its exit code is passed on.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Watch a running process; it is left running.
    #[command(after_help = ATTACH_EXAMPLES)]
    Attach(AttachArgs),
    /// Show what metadata a binary or a process carries.
    Inspect(super::inspect::InspectArgs),
    /// Tell what this machine allows, what is missing, and the command that mends it.
    Doctor(super::doctor::DoctorArgs),
    /// Write reports in another form.
    Export(super::export::ExportArgs),
    /// Show what a decision log holds, or replay it.
    Decisions(super::decisions::DecisionsArgs),
    /// Print what makes a shell complete the words of gwp-race's command lines.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// The process that holds a target (started by gwp-race itself).
    #[command(name = "__tracer", hide = true)]
    Tracer,
    /// The process that reads debug information (started by gwp-race itself).
    #[command(name = "__reader", hide = true)]
    Reader,
    /// The process that asks file systems which processes serve (started by gwp-race itself).
    #[command(name = "__copier", hide = true)]
    Copier,
    /// The process that becomes the target (started by gwp-race itself).
    #[command(name = "__launch", hide = true)]
    Launch(LaunchArgs),
}

const RUN_EXAMPLES: &str = "Examples:
  gwp-race run -- ./server --port 8080
  gwp-race run --max-overhead 5% --stats -- ./server
  gwp-race run --format json -o races.json --duration 10m -- ./server
  gwp-race run --error-exitcode 66 -- ./test-suite        # for CI

Exit code: that of the program; 128+N when signal N killed it; N of --error-exitcode when a race
was found, 66 when --halt-on-race ended the program without it; 67 and 68 when too little was
watched by --require-metadata and --min-stalls, and the program itself succeeded; 125 when gwp-race itself failed,
126 or 127 when the program could not be started; 2 for wrong options.";

const COMPLETIONS_EXAMPLES: &str = "Examples:
  gwp-race completions bash > /etc/bash_completion.d/gwp-race
  gwp-race completions zsh > \"${fpath[1]}/_gwp-race\"";

const ATTACH_EXAMPLES: &str = "Examples:
  gwp-race attach 4711
  gwp-race attach --duration 60s --stats $(pidof server)

Ctrl-C, SIGTERM and the end of --duration release the process without stopping it.";

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub watch: WatchArgs,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Options of `attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub watch: WatchArgs,
    /// The process to watch.
    #[arg(value_name = "PID", value_parser = parse_pid)]
    pub pid: u32,
}

/// Arguments of the launcher.
#[derive(Debug, Args)]
pub struct LaunchArgs {
    /// The descriptor that says when to go.
    pub fd: i32,
    /// The standard descriptors that the program is to find closed, a bit for each.
    pub closed: u8,
    /// The program's limit of open files.
    pub files: u64,
    /// The one up to which it may raise that.
    pub most_files: u64,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// The groups of options in `--help`.
const REPORTS: &str = "Reports";
const SAMPLING: &str = "Sampling";
const ENDING: &str = "When to stop, and exit codes";
const FILES: &str = "Further files";

/// Options that `run` and `attach` share.
#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// Form of the reports.
    #[arg(help_heading = REPORTS, long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write reports to this file (-: standard output) instead of standard error.
    #[arg(help_heading = REPORTS, short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Name source files from this folder in SARIF and annotations (default: $GITHUB_WORKSPACE, else the working directory).
    #[arg(help_heading = REPORTS, long, value_name = "FOLDER")]
    pub source_root: Option<PathBuf>,
    /// Source files whose names begin with FROM are below TO on this machine: for the lines and names in reports (may be given several times).
    #[arg(help_heading = REPORTS, long, value_name = "FROM=TO")]
    pub source_map: Vec<MappedPrefix>,
    /// Stop watching after this time, from when watching begins (a number alone is seconds); the program goes on.
    #[arg(help_heading = ENDING, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// What sampling may cost, as a share of the program's CPU time.
    #[arg(help_heading = SAMPLING, long, value_name = "PERCENT", default_value = "1%", value_parser = parse_percent)]
    pub max_overhead: f64,
    /// How to choose what to stall on.
    #[arg(help_heading = SAMPLING, long, value_enum, default_value_t = StrategyName::Planner)]
    pub strategy: StrategyName,
    /// CPU time of a thread between two samples (default: 10ms, or longer where samples cost more than a
    /// tenth of --max-overhead).
    #[arg(help_heading = SAMPLING, long, value_name = "TIME", value_parser = parse_period)]
    pub sample_period: Option<Duration>,
    /// How long a thread is stalled before an access; up to ten times as long where accesses are
    /// rare or two threads were seen to use the bytes.
    #[arg(help_heading = SAMPLING, long, value_name = "TIME", default_value = "500us", value_parser = parse_stall)]
    pub stall: Duration,
    /// How long a thread may be held when gwp-race itself hangs: a watchdog then lets all go.
    #[arg(help_heading = SAMPLING, long, value_name = "TIME", default_value = "20ms", value_parser = parse_deadline)]
    pub stop_deadline: Duration,
    /// Stop watching after this many different races.
    #[arg(help_heading = ENDING, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_races: Option<u64>,
    /// Stop at the first race: `run` ends the program (SIGTERM), `attach` lets it go on.
    #[arg(help_heading = ENDING, long)]
    pub halt_on_race: bool,
    /// Exit with this code when a race was found.
    #[arg(help_heading = ENDING, long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub error_exitcode: Option<u8>,
    /// Exit with code 67 when nothing that was executed carries metadata, so that no race could be found (default: yes with
    /// --error-exitcode).
    #[arg(help_heading = ENDING, long, value_enum, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes")]
    pub require_metadata: Option<YesNo>,
    /// Exit with code 68 when fewer stalls than this were made.
    #[arg(help_heading = ENDING, long, value_name = "N")]
    pub min_stalls: Option<u64>,
    /// Write to this file, by function, which access sites were sampled, as comma-separated values.
    #[arg(help_heading = FILES, long, value_name = "FILE")]
    pub coverage: Option<PathBuf>,
    /// Write to this file what the planner hears, is asked and answers (`gwp-race decisions` reads it).
    #[arg(help_heading = FILES, long, value_name = "FILE")]
    pub decision_log: Option<PathBuf>,
    /// Do not report races that this file names, one `race:pattern` a line.
    #[arg(help_heading = REPORTS, long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// Races of this file, which an earlier run with --format json has written, are known: only others count for --error-exitcode,
    /// --halt-on-race and --max-races.
    #[arg(help_heading = REPORTS, long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// What to do with a plain access that races with an atomic one.
    #[arg(help_heading = REPORTS, long, value_enum, default_value_t = Mixed::Report)]
    pub mixed: Mixed,
    /// What to do with racing accesses of functions whose metadata says nothing about atomics. (Code without
    /// any metadata is never reported.)
    #[arg(help_heading = REPORTS, long, value_enum, default_value_t = Unanalyzed::Ignore)]
    pub unanalyzed: Unanalyzed,
    /// Watch what the program starts as well, however deep, where that carries metadata.
    #[arg(help_heading = SAMPLING, long, value_enum, default_value_t = YesNo::Yes)]
    pub follow_forks: YesNo,
    /// Seed of the random choices (default: another one each time).
    #[arg(help_heading = SAMPLING, long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print all figures at the end.
    #[arg(help_heading = REPORTS, long)]
    pub stats: bool,
    /// Say more; twice: the gates' debug messages, too.
    #[arg(help_heading = REPORTS, short, long, action = ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// Say nothing but races and errors.
    #[arg(help_heading = REPORTS, short, long)]
    pub quiet: bool,
}

/// Strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StrategyName {
    /// Whatever a model of the program says is worth most (docs/planner.md).
    Planner,
    /// Sample CPU time, stall at an access nearby: what is executed often.
    Clock,
    /// The same without learning from what was tried: what measurements compare with.
    #[value(hide = true)]
    PlainClock,
}

impl From<StrategyName> for crate::hunt::strategy::Name {
    fn from(name: StrategyName) -> Self {
        match name {
            StrategyName::Clock | StrategyName::PlainClock => Self::Clock,
            StrategyName::Planner => Self::Planner,
        }
    }
}

/// `--mixed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Mixed {
    Report,
    Ignore,
}

/// `--unanalyzed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Unanalyzed {
    Ignore,
    Report,
}

/// `yes` or `no`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum YesNo {
    Yes,
    No,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.trim().parse::<f64>() {
        Ok(percent) if bounds::is_share(percent / 100.0) => Ok(percent / 100.0),
        _ => Err("give a share above 0 and up to 100, such as 1% or 0.5%".to_owned()),
    }
}

fn parse_pid(text: &str) -> Result<u32, String> {
    const MOST: u32 = i32::MAX.cast_unsigned();
    let pid = text.parse().ok().filter(|pid| (1..=MOST).contains(pid));
    pid.ok_or_else(|| "give the id of a process, which `pgrep -a NAME` finds".to_owned())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

fn parse_within(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if !bounds.contains(&duration) {
        return Err(format!(
            "give a time from {} to {}",
            humantime::format_duration(*bounds.start()),
            humantime::format_duration(*bounds.end())
        ));
    }
    Ok(duration)
}

fn parse_period(text: &str) -> Result<Duration, String> {
    parse_within(text, &SAMPLE_PERIOD)
}

fn parse_stall(text: &str) -> Result<Duration, String> {
    parse_within(text, &STALL)
}

fn parse_deadline(text: &str) -> Result<Duration, String> {
    parse_within(text, &STOP_DEADLINE)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Check that clap finds no contradiction in the definitions.
    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Check that a duration may be given in plain seconds.
    #[test]
    fn durations() {
        assert_eq!(parse_duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        for nonsense in ["", "-1", "1 parsec", "99999999999999999999"] {
            assert!(parse_duration(nonsense).is_err(), "{nonsense}");
        }
    }

    /// Check that shares are read with and without the sign, and nonsense is refused.
    #[test]
    fn shares() {
        assert_eq!(parse_percent("1%"), Ok(0.01));
        assert_eq!(parse_percent("0.5"), Ok(0.005));
        for nonsense in ["", "%", "0", "-1", "101%", "nan", "inf", "one"] {
            assert!(parse_percent(nonsense).is_err(), "{nonsense}");
        }
    }
}
