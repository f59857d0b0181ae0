//! The command line, as `docs/user-guide.md` describes it.

mod fleet;
mod watch;

use std::{ffi::OsString, io::Write as _, path::PathBuf};

use clap::{Arg, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::form::Format;
use super::messages::of_arguments;
use super::wanted::Wanted;

pub use fleet::{
    AgentArgs, AgentCommand, AgentPrepareArgs, AgentStatusArgs, ConfigArg, FleetArgs, FleetCommand,
    IgnoreArgs, LogForm, PauseArgs, StatusArgs,
};
pub use watch::{KnownRaces, Mixed, StrategyName, Unanalyzed, WatchArgs, YesNo};

/// Catches data races of programs in production in the act, and explains them.
///
/// gwp-race stops a thread just before a memory access for a fraction of a millisecond and
/// watches, with a hardware watchpoint, whether another thread touches the same bytes
/// meanwhile. Metadata that the compiler leaves in the binary tells atomic accesses from plain
/// ones. Between samples the program runs at full speed.
#[derive(Debug, Parser)]
#[command(name = "gwp-race", version, max_term_width = 100, after_long_help = EXAMPLES)]
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
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Watch a running process; it is left running.
    #[command(after_long_help = ATTACH_EXAMPLES)]
    Attach(AttachArgs),
    /// Show what metadata a binary or a process carries.
    Inspect(super::inspect::InspectArgs),
    /// Tell what this machine allows, and how to mend what is missing.
    Doctor(super::doctor::DoctorArgs),
    /// Write reports in another form.
    Export(super::export::ExportArgs),
    /// Print suppressions of reported races.
    Suppress(super::suppress::SuppressArgs),
    /// List, compare and triage the races of a store.
    Races(super::races::RacesArgs),
    /// Watch all of this machine's programs, a few at a time.
    Fleet(FleetArgs),
    /// Show what a decision log holds, or replay it.
    Decisions(super::decisions::DecisionsArgs),
    /// Print what makes a shell complete command lines.
    #[command(after_long_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// bash, elvish, fish, powershell or zsh.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages.
    Man(ManArgs),
    /// The process that holds a target (started by gwp-race itself).
    #[command(name = "__tracer", hide = true)]
    Tracer,
    /// The process that reads debug information, or headers of files (started by gwp-race itself).
    #[command(name = "__reader", hide = true)]
    Reader {
        /// It reads large files, for which it needs more memory than for others.
        #[arg(long)]
        large: bool,
    },
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
  gwp-race attach server
  gwp-race attach --duration 60s --stats $(pidof -s server)

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
    /// The process to watch: its id, or its name.
    ///
    /// A name must be that of one process alone: of its program's file, without folders, or what ps -e calls it.
    #[arg(value_name = "PID|NAME", value_parser = Wanted::parse)]
    pub process: Wanted,
}

/// Write the manual pages
///
/// One page for gwp-race and one for each command are written to a folder, which must exist. Without a folder, the page of gwp-race itself goes to standard output.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "Examples:
  gwp-race man | man -l -
  gwp-race man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write all pages to this folder
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
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

/// Reads this process's command line; ends the process where that is wrong, or asks for help.
#[must_use]
pub fn parse() -> Cli {
    let matches = brief(Cli::command()).try_get_matches();
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| refuse(&error))
}

/// Ends the process as clap would, but with a message that begins as all others do.
fn refuse(error: &clap::Error) -> ! {
    let Some(text) = of_arguments(error) else {
        error.exit();
    };
    // There is nobody to tell where standard error is closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
    std::process::exit(error.exit_code());
}

/// `-h` tells an option a line: the words that an option takes are explained by `--help` alone.
fn brief(command: clap::Command) -> clap::Command {
    command.mut_args(values_at_length).mut_subcommands(brief)
}

/// clap itself lists them in both.
fn values_at_length(arg: Arg) -> Arg {
    let mut values = arg.get_possible_values();
    values.retain(|value| !value.is_hide_set());
    if values.is_empty() || !arg.get_action().takes_values() {
        return arg;
    }
    let explained = values.iter().filter_map(|value| {
        let help = value.get_help()?;
        Some(format!("\n- {}: {help}", value.get_name()))
    });
    let explained: String = explained.collect();
    let text = arg.get_long_help().or(arg.get_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    let arg = arg.hide_possible_values(true);
    if explained.is_empty() {
        arg
    } else {
        arg.long_help(format!("{text}\n{explained}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that clap finds no contradiction in the definitions.
    #[test]
    fn the_command_line_is_consistent() {
        brief(Cli::command()).debug_assert();
    }

    /// Check that `-h` tells an option or a command a line, in 80 columns; and that `--help` explains each word that an option takes.
    #[test]
    fn short_help_is_short() {
        fn all(command: &clap::Command) -> Vec<&clap::Command> {
            let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
            std::iter::once(command)
                .chain(shown.flat_map(all))
                .collect()
        }
        let mut command = brief(Cli::command()).term_width(100);
        command.build();
        for one in all(&command) {
            let name = one.get_name();
            let mut one = one.clone();
            let short = one.render_help().to_string();
            for line in short.lines() {
                let indent = line.len() - line.trim_start().len();
                assert!(line.chars().count() <= 80, "{name}: {line}");
                assert!(indent <= 6, "{name}: goes on: {line}");
            }
            assert!(!short.contains("Examples:"), "{name}: {short}");
            let long = one.render_long_help().to_string();
            let args = one.get_arguments();
            for arg in args.filter(|arg| arg.get_action().takes_values()) {
                for value in arg.get_possible_values() {
                    let is_told = value.is_hide_set() || long.contains(value.get_name());
                    assert!(is_told, "{name}: {value:?}: {long}");
                }
            }
        }
    }
}
