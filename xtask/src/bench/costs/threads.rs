//! What watching takes, by the number of threads.

use std::{
    fmt::{self, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::middle;
use crate::{
    bench::{
        figure::{figure, printed},
        started::Started,
        table::Table,
    },
    fixture, paths,
    steps::{cargo, step},
};

/// Seconds that the program runs at most; it is ended sooner.
const LONGEST_RUN: &str = "600";
/// How long it runs by itself, to see what its threads stand still without being watched.
const ALONE: Duration = Duration::from_secs(2);
/// How long it may take to create its threads.
const CREATION: Duration = Duration::from_secs(60);

/// What was measured with so many threads.
pub struct Threads {
    count: usize,
    runs: Vec<Run>,
}

struct Run {
    /// From the start of `gwp-race attach` until it watches.
    attach_ms: f64,
    /// To seize all threads and open their events.
    open_ms: f64,
    /// To arm all watchpoints, and those of all threads where they are the processors'.
    arm_ms: f64,
    arm_worst_ms: f64,
    by_thread_ms: f64,
    /// The longest time that a busy thread stood still, by itself, and while all this was done.
    alone_ms: f64,
    armed_ms: f64,
}

/// Measures.
pub fn measure(gwp_race: &Path, counts: &[usize], runs: usize) -> Result<Vec<Threads>> {
    let program = fixture::compile("bench", "gaps")?;
    let mut build = cargo();
    build.args(["build", "--release", "--package", "gwp-race"]);
    build.args(["--example", "bench_arming"]);
    step("building what arms", &mut build)?;
    let arming = paths::target().join("release/examples/bench_arming");
    let measure = |&count: &usize| {
        let once = |number| {
            let run = Run::new(gwp_race, &program, &arming, count)?;
            println!("{count} threads, run {number} of {runs}: {run}");
            Ok(run)
        };
        let runs = (1..=runs).map(once).collect::<Result<_>>()?;
        Ok(Threads { count, runs })
    };
    counts.iter().map(measure).collect()
}

impl Run {
    fn new(gwp_race: &Path, program: &Path, arming: &Path, count: usize) -> Result<Self> {
        let alone = Target::start(program, count)?;
        thread::sleep(ALONE);
        let alone_ms = alone.longest_gap_ms()?;

        let target = Target::start(program, count)?;
        let pid = target.0.id().to_string();
        let text = printed(Command::new(arming).arg(&pid))?;
        let armed_ms = target.longest_gap_ms()?;

        let target = Target::start(program, count)?;
        let mut attach = Command::new(gwp_race);
        attach.args(["attach", "--verbose", "--output", "/dev/null"]);
        let started = Started::new(attach.arg(target.0.id().to_string()))?;
        let ms = |name: &str| Ok::<_, anyhow::Error>(figure(&text, name)? / 1e3);
        Ok(Self {
            attach_ms: started.seconds * 1e3,
            open_ms: ms("open_us")?,
            arm_ms: ms("arm_us")?,
            arm_worst_ms: ms("arm_worst_us")?,
            by_thread_ms: ms("by_thread_us")?,
            alone_ms,
            armed_ms,
        })
    }
}

/// The program; it is killed when it is dropped.
struct Target(Child);

impl Target {
    /// Starts it, and waits until all its threads are there.
    fn start(program: &Path, count: usize) -> Result<Self> {
        let mut command = Command::new(program);
        command.args([LONGEST_RUN, &count.to_string()]);
        let child = command.stdout(Stdio::piped()).spawn();
        let target = Self(child.with_context(|| format!("starting {}", program.display()))?);
        let start = Instant::now();
        // The first thread does nothing but wait.
        while target.threads() <= count {
            if start.elapsed() > CREATION {
                bail!("{} does not get {count} threads", program.display());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(target)
    }

    fn threads(&self) -> usize {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id()));
        tasks.map_or(0, Iterator::count)
    }

    /// Ends it, and returns what it has seen.
    fn longest_gap_ms(mut self) -> Result<f64> {
        kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM)?;
        let mut output = self.0.stdout.take().context("its output")?;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut output, &mut text)?;
        Ok(figure(&text, "longest_us")? / 1e3)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It does nothing but compute and sleep, and is ours.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "watched after {:.0} ms (of them {:.1} ms for the threads), armed in {:.3} ms (by thread {:.1} ms), \
             longest gap {:.1} ms, {:.1} ms by itself",
            self.attach_ms,
            self.open_ms,
            self.arm_ms,
            self.by_thread_ms,
            self.armed_ms,
            self.alone_ms
        )
    }
}

/// The medians.
pub fn table(all: &[Threads]) -> Table {
    let mut table = Table::new(&[
        "threads",
        "ms from attach to watching",
        "ms to seize all and open their events",
        "ms to arm all watchpoints, median",
        "worst",
        "ms to arm those of the threads instead",
        "longest gap of a busy thread ms, alone",
        "while all is opened and armed",
    ]);
    for Threads { count, runs } in all {
        table.row(vec![
            count.to_string(),
            format!("{:.0}", middle(runs, |run| run.attach_ms)),
            format!("{:.1}", middle(runs, |run| run.open_ms)),
            format!("{:.3}", middle(runs, |run| run.arm_ms)),
            format!("{:.3}", middle(runs, |run| run.arm_worst_ms)),
            format!("{:.2}", middle(runs, |run| run.by_thread_ms)),
            format!("{:.1}", middle(runs, |run| run.alone_ms)),
            format!("{:.1}", middle(runs, |run| run.armed_ms)),
        ]);
    }
    table
}

/// The left half of the picture.
pub fn script(all: &[Threads]) -> String {
    let mut rows = String::new();
    for Threads { count, runs } in all {
        // Writing to a String cannot fail.
        let _ = writeln!(
            rows,
            "{count} {} {} {} {}",
            middle(runs, |run| run.attach_ms),
            middle(runs, |run| run.open_ms),
            middle(runs, |run| run.arm_ms),
            middle(runs, |run| run.by_thread_ms)
        );
    }
    format!(
        "$threads << END\n{rows}END
set logscale xy
set grid
set key below vertical maxrows 2
set xlabel 'threads'
set ylabel 'ms'
plot $threads using 1:2 with linespoints pt 7 title 'attach until watching', \\
  $threads using 1:3 with linespoints pt 7 title 'seize and open', \\
  $threads using 1:5 with linespoints pt 6 dt 2 title 'arm each thread', \\
  $threads using 1:4 with linespoints pt 7 title 'arm all watchpoints'
"
    )
}
