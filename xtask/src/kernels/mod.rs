//! `cargo xtask kernels`: gwp-race on kernels that this machine does not run, with Yama, lockdown and systemd, in virtual machines.
//! What is tried is told by `tests/kernels`; here it gets there, and what came of it becomes a table.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::{bench::machine, build, paths, setup};

mod archive;
mod boot;
mod libraries;
mod package;
mod results;
mod root;
mod state;
mod table;

use boot::{Accelerator, Machine};
use package::{Packages, Wanted};
use results::Results;
use state::{LOCKDOWN, State};
use table::Table;

#[derive(clap::Args)]
pub struct Options {
    /// A version of Linux, as 6.1 or 6.12, or `newest`; may be given several times.
    #[arg(long = "kernel", value_name = "VERSION", default_values = ["5.10", "6.1", "6.12", "newest"])]
    kernels: Vec<Wanted>,
    /// What the kernel locks down; may be given several times.
    #[arg(long = "lockdown", value_name = "LEVEL", value_parser = LOCKDOWN, default_values = LOCKDOWN)]
    lockdown: Vec<String>,
    /// Only this trial, or those whose names begin with this and a dash; may be given several times.
    #[arg(long = "only", value_name = "NAME")]
    only: Vec<String>,
    /// How often gwp-race is killed in each of the trials of survival.
    #[arg(long, default_value_t = 15)]
    kills: usize,
    /// How long one boot may take with all its trials.
    #[arg(long, value_name = "TIME", default_value = "40m", value_parser = humantime::parse_duration)]
    limit: Duration,
    /// Who executes the machines' code: the kernel of this machine (kvm), or an emulator (tcg).
    #[arg(long, value_enum, default_value_t = Accelerator::Auto)]
    accelerator: Accelerator,
    /// Build with optimizations, as gwp-race is released.
    #[arg(long)]
    release: bool,
}

/// Boots each kernel in each state, and prints what gwp-race did there.
pub fn run(options: &Options) -> Result<()> {
    setup::have(&["qemu-system-x86"])?;
    let gwp_race = build::run(options.release)?;
    let directory = paths::target().join("kernels");
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let packages = Packages::read(&directory)?;
    let root = root::build(&directory, &gwp_race)?;
    let machine = Machine {
        initramfs: root.initramfs,
        accelerator: options.accelerator.chosen(),
        limit: options.limit,
        environment: vec![format!("GWP_RACE_KILLS={}", options.kills)],
        trials: options.only.clone(),
    };
    let mut table = Table::default();
    for wanted in &options.kernels {
        let kernel = packages.kernel(wanted)?;
        for state in State::all(&options.lockdown) {
            let planned = state.plan(&root.trials, &kernel.release, &options.only)?;
            let lacks = planned.iter().find_map(|trial| trial.lacks.as_ref());
            if planned.is_empty() {
                continue;
            }
            let log = log(&directory, &kernel.release, &state);
            println!("==> Linux {}, {state}: {}", kernel.release, log.display());
            if let Some(lacks) = lacks {
                println!("    not tried: {lacks}");
                table.add(
                    &kernel.release,
                    &state.lockdown,
                    Results::not_tried(&planned),
                );
                continue;
            }
            let mut results = Results::default();
            let end = machine.boot(&kernel.image, &state, &log, &mut |line| {
                if let Some(news) = results.hear(line) {
                    println!("    {news}");
                }
            })?;
            let said = fs::read(&log).with_context(|| format!("reading {}", log.display()))?;
            let said = String::from_utf8_lossy(&said);
            results.end(end, &state.lockdown, &planned, &said);
            table.add(&kernel.release, &state.lockdown, results);
        }
    }
    let mut notes = machine::description();
    notes.push(format!(
        "Virtual machines: qemu-system-x86_64, {}, 2 processors, 2 GiB; kernels: Debian's",
        machine.accelerator.told()
    ));
    publish(&directory, &notes, &table)?;
    match table.findings() {
        0 => Ok(()),
        count => bail!(
            "{count} of the trials did not come to what they should; the whole of what was said is in {}",
            directory.join("logs").display()
        ),
    }
}

fn log(directory: &Path, release: &str, state: &State) -> PathBuf {
    directory.join(format!("logs/{release}-{state}.log"))
}

fn publish(directory: &Path, notes: &[String], table: &Table) -> Result<()> {
    let text = format!("{}\n\n{}", notes.join("  \n"), table.markdown());
    let path = directory.join("table.md");
    fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    println!("\n{}:\n\n{text}", path.display());
    Ok(())
}
