//! `cargo xtask kernels`: gwp-race on kernels that this machine does not run, with Yama and lockdown, in virtual machines.
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
mod table;

use boot::{Accelerator, Machine};
use package::{Packages, Wanted};
use results::Results;
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

/// The levels (kernel_lockdown(7)).
const LOCKDOWN: [&str; 3] = ["none", "integrity", "confidentiality"];

/// Boots each kernel in each state, and prints what gwp-race did there.
pub fn run(options: &Options) -> Result<()> {
    setup::have(&["qemu-system-x86"])?;
    let gwp_race = build::run(options.release)?;
    let directory = paths::target().join("kernels");
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let packages = Packages::read(&directory)?;
    let initramfs = root::build(&directory, &gwp_race)?;
    let machine = Machine {
        initramfs,
        accelerator: options.accelerator.chosen(),
        limit: options.limit,
        environment: vec![format!("GWP_RACE_KILLS={}", options.kills)],
        trials: options.only.clone(),
    };
    let mut table = Table::default();
    for wanted in &options.kernels {
        let kernel = packages.kernel(wanted)?;
        for lockdown in &options.lockdown {
            let log = log(&directory, &kernel.release, lockdown);
            println!(
                "==> Linux {}, lockdown={lockdown}: {}",
                kernel.release,
                log.display()
            );
            let mut results = Results::default();
            let end = machine.boot(&kernel.image, lockdown, &log, &mut |line| {
                if let Some(news) = results.hear(line) {
                    println!("    {news}");
                }
            })?;
            let said = fs::read(&log).with_context(|| format!("reading {}", log.display()))?;
            results.end(end, lockdown, &String::from_utf8_lossy(&said));
            let is_too_old = results.has_trial("old-run");
            table.add(&kernel.release, lockdown, results);
            if is_too_old {
                // It does not come to what is locked down.
                break;
            }
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

fn log(directory: &Path, release: &str, lockdown: &str) -> PathBuf {
    directory.join(format!("logs/{release}-{lockdown}.log"))
}

fn publish(directory: &Path, notes: &[String], table: &Table) -> Result<()> {
    let text = format!("{}\n\n{}", notes.join("  \n"), table.markdown());
    let path = directory.join("table.md");
    fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    println!("\n{}:\n\n{text}", path.display());
    Ok(())
}
