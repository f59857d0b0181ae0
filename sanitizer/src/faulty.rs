//! The `gwp-race` command for tests that have system calls fail: see `gwp_race::kernel::fault`.

use std::process::ExitCode;

use clap::Parser as _;
use gwp_race::cli::{self, args::Cli};

fn main() -> ExitCode {
    let command = Cli::parse();
    match cli::main(&command) {
        Ok(code) => code,
        Err(error) => cli::fail(&error, &command),
    }
}
