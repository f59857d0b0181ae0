//! `gwp-race completions`: what makes shells complete command lines.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::args::Cli;
use super::stdout::written;

/// Prints it for a shell.
///
/// # Errors
/// Fails where standard output does.
pub fn run(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    generate(shell, &mut Cli::command(), "gwp-race", &mut text);
    written(|out| {
        out.write_all(&text)?;
        Ok(true)
    })
}
