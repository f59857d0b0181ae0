//! What `cargo xtask kernels` runs: in a virtual machine the first process, which makes it fit for gwp-race, and the trials
//! in it; before that, on the host, what builds the programs, tells which files they need, and which trials will be made.

use std::process::ExitCode;

use anyhow::{Result, bail};

use kernel::Kernel;

mod breakpoints;
mod catching;
mod ends;
mod event;
mod init;
mod kernel;
mod rights;
mod survival;
mod systemd;
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
            for file in [catching::files()?, systemd::files()?].concat() {
                println!("{}", file.display());
            }
            Ok(())
        }
        [word, release, lockdown, first, filters @ ..] if word == "made" => {
            let kernel = Kernel::new(release, lockdown, first == "systemd");
            trial::tell(&kernel, filters);
            Ok(())
        }
        [word, filters @ ..] if word == init::TRIALS => {
            let _event = event::hold().inspect_err(|error| eprintln!("{error:#}"));
            trial::run_all(filters);
            Ok(())
        }
        _ => bail!("this is for virtual machines: start it by `cargo xtask kernels`"),
    }
}
