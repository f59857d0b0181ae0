//! The command line: arguments in, exit code out.

mod allowance;
pub mod args;
mod asked;
pub mod attach;
mod completions;
mod covered;
mod debug_files;
pub mod decisions;
mod descendants;
pub mod doctor;
mod drawing;
mod duration;
mod enough;
pub mod export;
pub mod fleet;
pub mod form;
mod heard;
mod host;
pub mod inspect;
mod keeper;
pub mod link;
mod list_form;
mod listener;
pub mod man;
mod messages;
mod not_executable;
mod not_watched;
mod panics;
mod passed_on;
mod pauses;
mod percent;
mod programs;
pub mod races;
pub mod reporter;
mod rights;
pub mod run;
mod served_files;
pub mod session;
mod size;
mod spares;
mod starts;
mod status;
mod stdout;
pub mod suppress;
mod time_limit;
mod totals;
mod wanted;
mod watched;

use std::{error::Error, io, os::fd::AsFd as _, process::ExitCode};

use anyhow::Context as _;
use args::{Cli, Command};
use messages::log_to_stderr;
use tracing::debug;

use crate::kernel::{
    barred::deadly_calls,
    limits,
    open_files::{self, FileLimits},
    process::{keep_private, outlive_signals},
    requests::{Witness, leave_to_parent},
    rights::settle,
};

/// Runs a command.
///
/// # Errors
/// Fails with what the user is to be told.
pub fn main(cli: &Cli) -> anyhow::Result<ExitCode> {
    panics::tell_as(process_of(&cli.command));
    settle()?;
    outlive_signals();
    match &cli.command {
        Command::Run(args) => {
            keep_private();
            log_to_stderr(args.watch.quiet, args.watch.verbose);
            check_filter()?;
            let files = enough_files()?;
            let witness = Witness::start();
            let witness = witness.inspect_err(|error| debug!("no witness of signals: {error}"));
            runtime()?.block_on(run::run(args, files, witness.ok()))
        }
        Command::Attach(args) => {
            keep_private();
            log_to_stderr(args.watch.quiet, args.watch.verbose);
            check_filter()?;
            enough_files()?;
            runtime()?.block_on(attach::run(args))
        }
        Command::Inspect(args) => inspect::run(args),
        Command::Doctor(args) => {
            check_filter()?;
            doctor::run(args)
        }
        Command::Export(args) => export::run(args),
        Command::Suppress(args) => suppress::run(args),
        Command::Races(args) => races::run(args),
        Command::Fleet(args) => {
            if let Some(verbose) = args.verbosity() {
                keep_private();
                log_to_stderr(false, verbose);
            }
            if args.is_daemon() {
                check_filter()?;
                enough_files()?;
            }
            runtime()?.block_on(fleet::run(args))
        }
        Command::Decisions(args) => decisions::run(args),
        Command::Man(args) => man::run(args),
        Command::Completions { shell } => completions::run(*shell),
        Command::Tracer => {
            leave_to_parent();
            let socket = io::stdin().as_fd().try_clone_to_owned()?;
            Ok(ExitCode::from(crate::hunt::tracer::run(socket)))
        }
        Command::Reader { large } => {
            leave_to_parent();
            let socket = io::stdin().as_fd().try_clone_to_owned()?;
            Ok(ExitCode::from(crate::reader::serve(
                socket,
                crate::kernel::sandbox::Room::of(*large),
            )))
        }
        Command::Copier => {
            leave_to_parent();
            let socket = io::stdin().as_fd().try_clone_to_owned()?;
            Ok(ExitCode::from(crate::reader::copier::serve(
                socket,
                crate::reader::Program::default(),
            )))
        }
        Command::Launch(args) => run::launch(args),
    }
}

/// What the process is called that carries out a command.
const fn process_of(command: &Command) -> &'static str {
    match command {
        Command::Tracer => "a tracer, or its watchdog,",
        Command::Reader { .. } => "a process that reads files of programs",
        Command::Copier => "the process that asks file systems",
        Command::Launch(_) => "the process that becomes the program",
        _ => "gwp-race",
    }
}

/// Tells the user of a failure; the code to exit with.
#[must_use]
pub fn fail(error: &anyhow::Error, cli: &Cli) -> ExitCode {
    let mut text = told(error);
    let mut causes = error.chain().filter_map(<dyn Error>::downcast_ref);
    if let Some(limits) = causes.find_map(|error: &io::Error| limits::met(error.raw_os_error()?))
        && !text.contains(&limits)
    {
        text = format!("{text}; {limits}");
    }
    messages::tell_error(&text);
    match cli.command {
        Command::Run(_) => ExitCode::from(run::FAILED),
        _ => ExitCode::FAILURE,
    }
}

/// An error with its causes, each told once: our own errors name their cause themselves.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            let separator = if text.is_empty() { "" } else { ": " };
            text.push_str(separator);
            text.push_str(&cause);
        }
    }
    text
}

/// A filter of system calls that would end this process without a word.
fn check_filter() -> anyhow::Result<()> {
    let deadly = deadly_calls();
    anyhow::ensure!(
        deadly.is_empty(),
        "a filter of system calls (seccomp) ends whoever calls {}; in a unit of systemd that has SystemCallFilter=, add the line \
         SystemCallFilter=@debug bpf seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self",
        deadly.join(", ")
    );
    Ok(())
}

/// Raises the limit of open files for this process and its tracers, if they are to have enough; what it was
/// before, for the program.
fn enough_files() -> anyhow::Result<FileLimits> {
    let before = open_files::raise_files().context("getrlimit(RLIMIT_NOFILE) fails")?;
    open_files::need_files(open_files::FILES_OF_DAEMON)?;
    Ok(before)
}

/// One thread: tracers are told of their parent's death by the thread that started them.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
