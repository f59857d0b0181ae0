//! What `cargo xtask kernels` runs: in a virtual machine the first process, which makes it fit for gwp-race, and the trials
//! in it; before that, on the host, what builds the programs and tells which files they need.

use std::process::ExitCode;

use anyhow::{Result, bail};

mod breakpoints;
mod catching;
mod ends;
mod event;
mod init;
mod kernel;
mod rights;
mod survival;
mod trial;
mod yama;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = if std::process::id() == 1 {
        init::run(&words)
    } else {
        command(&words)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command(words: &[String]) -> Result<()> {
    match words {
        [word] if word == "files" => {
            for file in catching::files()? {
                println!("{}", file.display());
            }
            Ok(())
        }
        [word, filters @ ..] if word == init::TRIALS => {
            trial::run_all(filters);
            Ok(())
        }
        _ => bail!("this is for virtual machines: start it by `cargo xtask kernels`"),
    }
}
