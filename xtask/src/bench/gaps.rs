//! `cargo xtask bench gaps`: how long a thread stands still at most when gwp-race hangs on a machine
//! whose processors are all busy. The program measures itself; most of what it sees is waiting for
//! a processor, so a run without gwp-race is its pair.

use std::{
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    figure::figure,
    machine,
    pair::in_turns,
    statistics::{median, quantile},
    table::Table,
};
use crate::{build, children, fixture, steps::shown};

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Pairs of runs, plain and watched, for each way of hanging.
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// Seconds that each half of a pair runs.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Processes that keep the processors busy.
    #[arg(long, default_value_t = 8)]
    busy: usize,
}

/// Who is stopped by SIGSTOP, again and again.
const HANGS: [(&str, Option<&str>); 3] = [
    ("nobody", None),
    ("the daemon", Some("gwp-race")),
    ("the tracer", Some("gwp-race-tracer")),
];
/// Between two stops. The pauses after releases grow; a fresh start each run keeps them short.
const BETWEEN: Duration = Duration::from_millis(700);
/// A stopped daemon goes on after this time.
const STOPPED: Duration = Duration::from_millis(200);

/// Measures.
pub fn run(options: &Options) -> Result<()> {
    let gwp_race = build::run(true)?;
    let program = fixture::compile("bench", "gaps")?;
    let _busy = (0..options.busy)
        .map(|_| Busy::start())
        .collect::<Result<Vec<_>>>()?;
    let seconds = options.seconds.to_string();
    let mut table = Table::new(&[
        "hangs",
        "99.9th percentile ms, plain",
        "watched",
        "difference",
        "longest ms, plain",
        "watched",
        "difference, median",
        "difference, worst",
    ]);
    for (name, victim) in HANGS {
        let mut pairs = Vec::new();
        for pair in 1..=options.pairs {
            let plain = || Gaps::of(Command::new(&program).arg(&seconds), None);
            let watched = || {
                let mut command = Command::new(&gwp_race);
                command
                    .args(["run", "--max-overhead", "100%", "--sample-period", "1ms"])
                    .args(["--quiet", "--output", "/dev/null", "--"])
                    .arg(&program)
                    .arg(&seconds);
                Gaps::of(&mut command, victim)
            };
            let (plain, watched) = in_turns(pair, plain, watched)?;
            println!(
                "{name} hangs, pair {pair} of {}: {plain:?} / {watched:?}",
                options.pairs
            );
            pairs.push((plain, watched));
        }
        let all =
            |value: &dyn Fn(&(Gaps, Gaps)) -> f64| pairs.iter().map(value).collect::<Vec<_>>();
        let longer = all(&|(plain, watched)| watched.longest_ms - plain.longest_ms);
        table.row(vec![
            name.to_owned(),
            format!("{:.1}", median(&all(&|(plain, _)| plain.p999_ms))),
            format!("{:.1}", median(&all(&|(_, watched)| watched.p999_ms))),
            format!(
                "{:+.1}",
                median(&all(&|(plain, watched)| watched.p999_ms - plain.p999_ms))
            ),
            format!("{:.1}", median(&all(&|(plain, _)| plain.longest_ms))),
            format!("{:.1}", median(&all(&|(_, watched)| watched.longest_ms))),
            format!("{:+.1}", median(&longer)),
            format!("{:+.1}", quantile(&longer, 1.0)),
        ]);
    }
    let mut description = machine::description();
    description.push(format!(
        "{} busy processes; --max-overhead 100% --sample-period 1ms; the gaps that two threads see \
         between readings of the clock, of those above 0.1 ms; medians of {} pairs.",
        options.busy, options.pairs
    ));
    table.publish("gaps", &description)
}

/// What the program has seen.
#[derive(Clone, Copy, Debug)]
struct Gaps {
    p999_ms: f64,
    longest_ms: f64,
}

impl Gaps {
    /// Runs a command to its end while what bears this name below it is stopped again and again.
    fn of(command: &mut Command, victim: Option<&str>) -> Result<Self> {
        let child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", shown(command)))?;
        let top = Pid::from_raw(child.id().cast_signed());
        let waiting = thread::spawn(move || child.wait_with_output());
        while let Some(victim) = victim.filter(|_| !waiting.is_finished()) {
            thread::sleep(BETWEEN);
            for pid in children::family(top) {
                if children::name(pid).as_deref() == Some(victim) {
                    hang(pid, victim == "gwp-race");
                }
            }
        }
        let output = waiting
            .join()
            .map_err(|_| anyhow::anyhow!("waiting for {} failed", shown(command)))??;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(Self {
            p999_ms: figure(&text, "p999_us")? / 1e3,
            longest_ms: figure(&text, "longest_us")? / 1e3,
        })
    }
}

/// Stops a process; one that nobody ends for it goes on after a while.
fn hang(pid: Pid, goes_on: bool) {
    // It may have ended meanwhile.
    let _ = kill(pid, Signal::SIGSTOP);
    if goes_on {
        thread::sleep(STOPPED);
        let _ = kill(pid, Signal::SIGCONT);
    }
}

/// A process that computes until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        let child = command.spawn().context("starting a busy process")?;
        Ok(Self(child))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It does nothing but compute, and is ours.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
