//! The command line: arguments in, exit code out.

pub mod args;
pub mod attach;
pub mod doctor;
pub mod inspect;
pub mod link;
mod passed_on;
mod pauses;
pub mod reporter;
mod rights;
pub mod run;
pub mod session;

use std::{
    io::{self, IsTerminal as _, Write as _},
    os::fd::AsFd as _,
    process::ExitCode,
};

use args::{Cli, Command, WatchArgs};
use tracing_subscriber::filter::LevelFilter;

use crate::kernel::process::outlive_signals;

/// Runs a command.
///
/// # Errors
/// Fails with what the user is to be told.
pub fn main(cli: &Cli) -> anyhow::Result<ExitCode> {
    outlive_signals();
    match &cli.command {
        Command::Run(args) => {
            log_to_stderr(&args.watch);
            runtime()?.block_on(run::run(args))
        }
        Command::Attach(args) => {
            log_to_stderr(&args.watch);
            runtime()?.block_on(attach::run(args))
        }
        Command::Inspect(args) => inspect::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Tracer => {
            let socket = io::stdin().as_fd().try_clone_to_owned()?;
            Ok(ExitCode::from(crate::hunt::tracer::run(socket)))
        }
        Command::Launch(args) => run::launch(args),
    }
}

/// Tells the user of a failure; the code to exit with.
#[must_use]
pub fn fail(error: &anyhow::Error, cli: &Cli) -> ExitCode {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Our own errors name their cause themselves.
        if !text.contains(&cause) {
            let separator = if text.is_empty() { "" } else { ": " };
            text.push_str(separator);
            text.push_str(&cause);
        }
    }
    // There is nobody to tell where standard error is closed.
    let _ = writeln!(io::stderr(), "gwp-race: {text}");
    match cli.command {
        Command::Run(_) => ExitCode::from(run::FAILED),
        _ => ExitCode::FAILURE,
    }
}

/// One thread: tracers are told of their parent's death by the thread that started them.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn log_to_stderr(args: &WatchArgs) {
    let level = match (args.quiet, args.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, _) => LevelFilter::DEBUG,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        // It would tell standard error that standard error cannot be written to, by a panic.
        .log_internal_errors(false)
        .init();
}
