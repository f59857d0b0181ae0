//! `cargo xtask trace`: what real programs do with their memory is recorded, their true races are found in that, and planners hunt in it as in a
//! simulated program.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::{Result, bail};

use crate::{
    bench::real::program::Build,
    steps::{cargo, step},
};

mod program;
mod recording;

use program::Name;
use recording::Recording;

/// What to record.
#[derive(clap::Args)]
pub struct Options {
    /// The programs; all of them where none is named.
    #[arg(long, value_enum)]
    program: Vec<Name>,
    /// How long each is recorded, s.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Memory, and room in `target/trace`, that a recording may take: it ends then.
    #[arg(long, default_value_t = 2000)]
    megabytes: u64,
    /// Keep what matters of the recording in a file, which is read again with `--kept`. For one program.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Record nothing, but read what was kept.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["program", "keep"])]
    kept: Option<PathBuf>,
}

/// Records, and prints tables.
pub fn run(options: &Options) -> Result<()> {
    if let Some(kept) = &options.kept {
        return step("hunting in what was kept", reader().arg(kept));
    }
    let programs = match options.program.as_slice() {
        [] => &Name::ALL,
        named => named,
    };
    if options.keep.is_some() && programs.len() != 1 {
        bail!("say with --program which one is to be kept");
    }
    for program in programs {
        record(*program, options)?;
    }
    Ok(())
}

/// The tool that reads recordings, below cargo.
fn reader() -> Command {
    let mut command = cargo();
    command.args(["run", "--package", "gwp-race", "--example", "trace", "--"]);
    command
}

fn record(program: Name, options: &Options) -> Result<()> {
    let lasts = Duration::from_secs(options.seconds);
    let plain = program.make(Build::Watched)?;
    let recorded = program.make(Build::Recorded)?;
    println!("==> {program:?} as it is, for {} s", options.seconds);
    let usual = program.run(&plain, lasts, None)?;
    println!("==> {program:?} recorded, for {} s", options.seconds);
    let recording = Recording::new(program, options.megabytes)?;
    let slowed = program.run(&recorded, lasts, Some(&recording))?;
    recording.wait_until_written()?;
    let slower = (usual / slowed).max(1.0);
    println!("    {usual:.0} a second, {slowed:.0} recorded: {slower:.1} times slower");
    let mut reader = reader();
    reader
        .args([recording.folder(), &recorded])
        .arg(slower.to_string());
    if let Some(keep) = &options.keep {
        reader.arg(std::path::absolute(keep)?);
    }
    step("reading it, and hunting in it", &mut reader)
}
