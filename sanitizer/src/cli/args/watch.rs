//! The options that `run` and `attach` share.

use std::{os::fd::RawFd, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, FromArgMatches as _, ValueEnum};

use super::Format;
use crate::cli::debug_files::DebugFileArgs;
use crate::cli::duration::{parse_seconds, parse_within};
use crate::cli::percent::parse_percent;
use crate::hunt::bounds::{SAMPLE_PERIOD, STALL, STOP_DEADLINE};
use crate::report::MappedPrefix;
use crate::store::Address;

/// The groups of options in `--help`.
const REPORTS: &str = "Reports";
const SAMPLING: &str = "Sampling";
const ENDING: &str = "When to stop, and exit codes";
const FILES: &str = "Further files";

/// Whether sites are probed where nobody has said.
const PROBES: YesNo = YesNo::No;
/// Whether threads that wait for a processor are taken where nobody has said.
const FREE_STALLS: YesNo = YesNo::No;

/// Options that `run` and `attach` share.
#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// Form (--help lists them).
    ///
    /// The form of the reports.
    #[arg(help_heading = REPORTS, long, value_enum, value_name = "FORM", default_value_t = Format::Text)]
    pub format: Format,
    /// Write reports to this file.
    ///
    /// Reports go there instead of to standard error; `-` is standard output.
    #[arg(help_heading = REPORTS, short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write reports to this open descriptor.
    ///
    /// The shell has opened it: `--output-fd 3 3> FILE`. The program does not get it.
    #[arg(help_heading = REPORTS, long, value_name = "N", conflicts_with = "output", value_parser = clap::value_parser!(i32).range(1..))]
    pub output_fd: Option<RawFd>,
    /// Status line on a terminal (attach: yes).
    ///
    /// Show on the terminal that standard error is how watching goes (default: yes with attach, and no with run, whose program writes there as well).
    #[arg(help_heading = REPORTS, long, value_enum, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes")]
    pub status: Option<YesNo>,
    /// Name source files from this folder.
    ///
    /// In SARIF and annotations, source files are named from this folder (default: $GITHUB_WORKSPACE, else the working directory).
    #[arg(help_heading = REPORTS, long, value_name = "FOLDER")]
    pub source_root: Option<PathBuf>,
    /// Sources of FROM are below TO.
    ///
    /// Source files whose names begin with FROM are below TO on this machine: for the lines and names in reports (may be given several times).
    #[arg(help_heading = REPORTS, long, value_name = "FROM=TO")]
    pub source_map: Vec<MappedPrefix>,
    #[command(flatten, next_help_heading = REPORTS)]
    #[allow(missing_docs)]
    pub debug_files: DebugFileArgs,
    /// Stop watching after this time.
    ///
    /// The time counts from when watching begins (a number alone is seconds); the program goes on.
    #[arg(help_heading = ENDING, long, value_name = "TIME", value_parser = parse_seconds)]
    pub duration: Option<Duration>,
    /// Share of CPU time it may cost.
    ///
    /// What sampling may cost, as a share of the program's CPU time.
    #[arg(help_heading = SAMPLING, long, value_name = "PERCENT", default_value = "1%", value_parser = parse_percent)]
    pub max_overhead: f64,
    /// How sites are chosen.
    ///
    /// How to choose what to stall on.
    #[arg(help_heading = SAMPLING, long, value_enum, value_name = "planner|clock", default_value_t = StrategyName::Planner)]
    pub strategy: StrategyName,
    /// Probe access sites.
    ///
    /// Have the kernel's probes (uprobes) at access sites: at dozens at a time for 2 ms, to note who comes, so that it is known sooner which ones two threads use; and at hundreds to which hardly anybody comes,
    /// where whoever does can be stopped. Pages of the program's code get private copies, code that reads itself sees the probes, and threads that map memory wait for them
    /// (docs/safety.md). Experimental. It needs Linux 6.10 or newer and eBPF.
    #[arg(help_heading = SAMPLING, long, value_enum, value_name = "yes|no", default_value_t = PROBES)]
    pub probes: YesNo,
    /// Take preempted threads.
    ///
    /// Where more threads are busy than there are processors: also watch what a thread is about to access that waits for a processor anyway, which costs it nothing
    /// (docs/how-it-works.md). The kernel then tells gwp-race of each switch from one thread to another. It needs eBPF.
    #[arg(help_heading = SAMPLING, long, value_enum, value_name = "yes|no", default_value_t = FREE_STALLS)]
    pub free_stalls: YesNo,
    /// CPU time between samples (10ms, or longer).
    ///
    /// CPU time of a thread between two samples (default: 10ms, or longer where samples cost more than a tenth of --max-overhead).
    #[arg(help_heading = SAMPLING, long, value_name = "TIME", value_parser = parse_period)]
    pub sample_period: Option<Duration>,
    /// How long a thread is stalled.
    ///
    /// How long a thread is stalled before an access; up to ten times as long where accesses are rare or two threads were seen to use the bytes.
    #[arg(help_heading = SAMPLING, long, value_name = "TIME", default_value = "500us", value_parser = parse_stall)]
    pub stall: Duration,
    /// Longest hold when it hangs.
    ///
    /// How long a thread may be held when gwp-race itself hangs: a watchdog then lets all go.
    #[arg(help_heading = SAMPLING, long, value_name = "TIME", default_value = "20ms", value_parser = parse_deadline)]
    pub stop_deadline: Duration,
    /// Stop watching after this many races.
    ///
    /// Stop watching after this many different races.
    #[arg(help_heading = ENDING, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_races: Option<u64>,
    /// Stop at the first race.
    ///
    /// At the first race `run` ends the program (SIGTERM), and `attach` lets it go on.
    #[arg(help_heading = ENDING, long)]
    pub halt_on_race: bool,
    /// Exit with this code when a race was found.
    #[arg(help_heading = ENDING, long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub error_exitcode: Option<u8>,
    /// Exit with 67 if nothing carries metadata.
    ///
    /// Exit with code 67 when nothing that was executed carries metadata, so that no race could be found (default: yes with --error-exitcode).
    #[arg(help_heading = ENDING, long, value_enum, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes")]
    pub require_metadata: Option<YesNo>,
    /// Exit with 68 if fewer stalls were made.
    ///
    /// Exit with code 68 when fewer stalls than this were made.
    #[arg(help_heading = ENDING, long, value_name = "N")]
    pub min_stalls: Option<u64>,
    /// Write which access sites were sampled.
    ///
    /// Write to this file, by function, which access sites were sampled, as comma-separated values.
    #[arg(help_heading = FILES, long, value_name = "FILE")]
    pub coverage: Option<PathBuf>,
    /// Write what the planner decides.
    ///
    /// Write to this file what the planner hears, is asked and answers (`gwp-race decisions` reads it).
    #[arg(help_heading = FILES, long, value_name = "FILE")]
    pub decision_log: Option<PathBuf>,
    /// Remember in this file where to look first.
    ///
    /// What is learned of the program's code is kept in this file (made where it is not there), and used the next time that the program, or another build of it, is watched: races are found sooner
    /// then. What is new in a build is tried first. The file is no evidence of anything, and may be deleted.
    #[arg(help_heading = FILES, long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Do not report races that this file names.
    ///
    /// The file has one rule a line, such as `race:pattern`.
    #[arg(help_heading = REPORTS, long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// Races of this JSON file or store are known.
    ///
    /// An earlier run with --format json has written the file, or earlier runs with --store the store (sqlite:PATH, postgres://USER@HOST/DATABASE): only other races count for --error-exitcode,
    /// --halt-on-race and --max-races.
    #[arg(help_heading = REPORTS, long, value_name = "FILE", value_parser = KnownRaces::parse)]
    pub baseline: Option<KnownRaces>,
    /// Keep races in this store (sqlite:PATH).
    ///
    /// Each race is kept in a file, or in a database of a PostgreSQL server (postgres://USER@HOST/DATABASE; a password comes from ~/.pgpass or $PGPASSWORD), that further runs add to, and that `gwp-race races` lists. Races of which somebody has said there that they are acknowledged or
    /// benign are known.
    #[arg(help_heading = REPORTS, long, value_name = "STORE")]
    pub store: Option<Address>,
    /// The socket of the agent to which races are handed over: no option, but of a fleet's configuration.
    #[arg(skip)]
    pub agent: Option<PathBuf>,
    /// Races of plain and atomic.
    ///
    /// What to do with a plain access that races with an atomic one.
    #[arg(help_heading = REPORTS, long, value_enum, value_name = "report|ignore", default_value_t = Mixed::Report)]
    pub mixed: Mixed,
    /// Of unknown atomicity.
    ///
    /// What to do with racing accesses of functions whose metadata says nothing about atomics. (Code without any metadata is never reported.)
    #[arg(help_heading = REPORTS, long, value_enum, value_name = "ignore|report", default_value_t = Unanalyzed::Ignore)]
    pub unanalyzed: Unanalyzed,
    /// Watch child processes as well.
    ///
    /// Watch what the program starts as well, however deep, where that carries metadata.
    #[arg(help_heading = SAMPLING, long, value_enum, value_name = "yes|no", default_value_t = YesNo::Yes)]
    pub follow_forks: YesNo,
    /// Seed of the random choices.
    ///
    /// Seed of the random choices (default: another one each time).
    #[arg(help_heading = SAMPLING, long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print all figures at the end.
    #[arg(help_heading = REPORTS, long)]
    pub stats: bool,
    /// Say more; twice: debug messages, too.
    ///
    /// Say more; twice: the gates' debug messages, too.
    #[arg(help_heading = REPORTS, short, long, action = ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// Say nothing but races and errors.
    #[arg(help_heading = REPORTS, short, long)]
    pub quiet: bool,
    /// Reports have the bytes that were watched, and live values: no option of the command line.
    #[arg(skip = true)]
    pub values: bool,
}

impl WatchArgs {
    /// What a command line without options comes to, for a command that has others.
    ///
    /// # Errors
    /// An option has no value of its own, which a test would show.
    pub fn usual() -> Result<Self, clap::Error> {
        let command = Self::augment_args(clap::Command::new("watch").no_binary_name(true));
        let none: [&str; 0] = [];
        Self::from_arg_matches(&command.try_get_matches_from(none)?)
    }
}

/// `--baseline`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownRaces {
    /// What a run has written as JSON.
    File(PathBuf),
    /// What runs have put into a store.
    Store(Address),
}

impl KnownRaces {
    fn parse(text: &str) -> Result<Self, String> {
        if Address::is_meant(text) {
            text.parse().map(Self::Store)
        } else {
            Ok(Self::File(PathBuf::from(text)))
        }
    }
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

fn parse_period(text: &str) -> Result<Duration, String> {
    parse_within(text, &SAMPLE_PERIOD)
}

fn parse_stall(text: &str) -> Result<Duration, String> {
    parse_within(text, &STALL)
}

fn parse_deadline(text: &str) -> Result<Duration, String> {
    parse_within(text, &STOP_DEADLINE)
}
