//! The `gwp-race` command; everything is in the library.

use std::process::ExitCode;

use gwp_race::cli::{self, args};

fn main() -> ExitCode {
    let command = args::parse();
    match cli::main(&command) {
        Ok(code) => code,
        Err(error) => cli::fail(&error, &command),
    }
}
