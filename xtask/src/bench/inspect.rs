//! `cargo xtask bench inspect`: how fast `gwp-race inspect` reads the tables of a very large program, and what memory
//! that takes, beside LLVM's own tool.

use std::{
    fs, mem,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};

use super::{machine, statistics::median, table::Table};
use crate::{
    build, paths,
    steps::{answer, cargo, step},
};

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Runs of each command; medians are shown.
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// What one run took.
struct Run {
    wall_s: f64,
    cpu_s: f64,
    peak_mib: f64,
}

/// Measures.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.runs > 0, "--runs must be at least 1");
    let gwp_race = build::run(true)?;
    let mut example = cargo();
    example.args(["build", "--release", "--package", "gwp-race"]);
    example.args(["--example", "large_tables"]);
    step("building what writes the tables", &mut example)?;
    let directory = paths::target().join("bench");
    fs::create_dir_all(&directory)?;
    let file = directory.join("large_tables");
    let mut write = Command::new(paths::target().join("release/examples/large_tables"));
    let bytes = answer(write.arg(&file)).context("the tables cannot be written")?;
    let bytes: f64 = bytes.trim().parse()?;
    let measured = measure(&gwp_race, &file, bytes, options);
    fs::remove_file(&file)?;

    let mut description = machine::description();
    description.push(format!(
        "{:.0} MB of tables: 2,000,000 covered functions, 10,000,000 basic blocks, 1,000,000 records of stack maps; \
         the file is in the page cache, what is written goes to /dev/null; medians of {} runs.",
        bytes / 1e6,
        options.runs
    ));
    measured?.publish("inspect", &description)
}

fn measure(gwp_race: &Path, file: &Path, bytes: f64, options: &Options) -> Result<Table> {
    let mut table = Table::new(&[
        "command",
        "s",
        "s of CPU time",
        "MB of tables a second of CPU time",
        "MiB of memory at most",
        "times the tables",
    ]);
    let ours = [
        &["inspect"][..],
        &["inspect", "--json"],
        &["inspect", "--list"],
        &["inspect", "--list", "--json"],
    ];
    let ours = ours.map(|arguments| ("gwp-race", gwp_race, arguments));
    // It knows no table of the detector, so it reads less.
    let readobj = Path::new("llvm-readobj-22");
    let theirs = [
        &["--bb-addr-map", "--stackmap"][..],
        &["--elf-output-style=JSON", "--bb-addr-map", "--stackmap"],
    ];
    let theirs = theirs.map(|arguments| ("llvm-readobj", readobj, arguments));
    for (name, program, arguments) in ours.into_iter().chain(theirs) {
        let once = || Run::of(Command::new(program).args(arguments).arg(file));
        let runs: Vec<Run> = (0..options.runs).map(|_| once()).collect::<Result<_>>()?;
        let middle = |of: fn(&Run) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>());
        let (cpu_s, mib) = (middle(|run| run.cpu_s), middle(|run| run.peak_mib));
        table.row(vec![
            format!("{name} {}", arguments.join(" ")),
            format!("{:.2}", middle(|run| run.wall_s)),
            format!("{cpu_s:.2}"),
            format!("{:.0}", bytes / 1e6 / cpu_s),
            format!("{mib:.0}"),
            format!("{:.1}", mib * f64::from(1 << 20) / bytes),
        ]);
    }
    Ok(table)
}

impl Run {
    /// Runs a command to its end, its output thrown away.
    fn of(command: &mut Command) -> Result<Self> {
        let start = Instant::now();
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.with_context(|| format!("cannot start {command:?}"))?;
        let pid = i32::try_from(child.id())?;
        let mut status = 0;
        // SAFETY: all zeros are a value of this structure, which has numbers only.
        let mut usage: libc::rusage = unsafe { mem::zeroed() };
        // SAFETY: both pointers are to values of these types that live until the call returns. The child was not
        // waited for, and is not waited for again.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        ensure!(
            waited == pid && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "{command:?} failed with status {status}"
        );
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Ok(Self {
            wall_s: start.elapsed().as_secs_f64(),
            cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            peak_mib: usage.ru_maxrss as f64 / 1024.0,
        })
    }
}
