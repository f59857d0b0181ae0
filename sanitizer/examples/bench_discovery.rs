//! What it costs to hear who executes what on a machine, and how programs end there.
//!
//! `bench_discovery cost SECONDS`: shells execute a program without metadata as fast as they can; what the programs in the kernel and the process that
//! listens have used of it is told for 1,000 such a second. The gates of a fleet's slots run at forks and executions, too, whether a slot watches anybody or not: they are there meanwhile. `bench_discovery ends SECONDS`: counts how programs end, whoever starts them.
//! Needs the rights of `gwp-race run`, and root for `kernel.bpf_stats_enabled`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::stdin,
    os::fd::AsFd as _,
    process::{Child, Command, exit},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use gwp_race::{
    cli::fleet::discovery::Discovery,
    fleet::rule::Rules,
    kernel::{
        calibrate::trap_cost_ns,
        discovery::{Discovery as Kernel, News, Status},
        gates::{GateLog, Gates},
        process::CpuClock,
        sandbox::Room,
    },
    reader::{HeaderReader, serve},
};

/// Executions a second for which the cost is told.
const RATE: f64 = 1000.0;
/// Slots of a fleet, unless its configuration says otherwise.
const SLOTS: usize = 4;
/// How often the process listens.
const TURN: Duration = Duration::from_millis(100);
/// Says that the kernel measures what eBPF programs take (`Documentation/admin-guide/sysctl/kernel.rst`).
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// A shell that executes a program again and again, until it is dropped.
struct Storm(Child);

impl Drop for Storm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    // The process that reads headers executes this file, too.
    if arguments == ["__reader"] {
        exit(serve(stdin().as_fd().try_clone_to_owned()?, Room::USUAL).into());
    }
    let [what, seconds] = &arguments[..] else {
        bail!("give cost or ends, and how many seconds");
    };
    let time = Duration::from_secs(seconds.parse().context("how many seconds?")?);
    match &**what {
        "cost" => cost(time),
        "ends" => ends(time),
        _ => bail!("give cost or ends"),
    }
}

/// What an eBPF program has taken.
#[derive(Clone, Copy, Default)]
struct Taken {
    ns: u64,
    runs: u64,
}

/// What this process's eBPF programs have taken, by their ids, as their descriptors tell (`bpf_prog_show_fdinfo` in the kernel's `kernel/bpf/syscall.c`).
fn programs() -> anyhow::Result<BTreeMap<u64, Taken>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fdinfo")? {
        // The one through which they are listed is gone.
        let Ok(text) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        let field = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        // Links have a program's id, and no figures.
        if let (Some(id), Some(ns)) = (field("prog_id:"), field("run_time_ns:")) {
            let runs = field("run_cnt:").unwrap_or(0);
            all.insert(id, Taken { ns, runs });
        }
    }
    Ok(all)
}

fn cost(time: Duration) -> anyhow::Result<()> {
    let before = fs::read_to_string(STATS)?;
    fs::write(STATS, "1").with_context(|| format!("cannot write {STATS}; run it as root"))?;
    let told = measure(time);
    fs::write(STATS, before)?;
    println!("{}", told?);
    Ok(())
}

fn measure(time: Duration) -> anyhow::Result<String> {
    let mut discovery = Discovery::new(Rules::default(), HeaderReader::default);
    if let Some(why) = discovery.refusal() {
        bail!("{why}");
    }
    let hearing: BTreeSet<u64> = programs()?.into_keys().collect();
    let gates = Gates::load_several(SLOTS, GateLog::Off)?;
    for gates in &gates {
        // As a tracer does, which has them learn in which namespace ids are said.
        trap_cost_ns(gates)?;
    }
    let storm = || {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "while :; do /bin/true; done"]);
        shell.spawn().map(Storm)
    };
    let _storms = [storm()?, storm()?];
    // It is found to be without metadata, and who is there already is looked at.
    let begun = Instant::now();
    while begun.elapsed() < 5 * TURN {
        discovery.turn(Instant::now())?;
        // Looks are answered by another thread.
        sleep(TURN / 100);
    }
    let before = programs()?;
    let clock = CpuClock::of(std::process::id());
    let cpu = |discovery: &Discovery| {
        let readers = discovery.cpu_of_readers().as_nanos() as f64;
        clock.ns() as f64 + readers
    };
    let (begun, used, executed) = (Instant::now(), cpu(&discovery), forks()?);
    while begun.elapsed() < time {
        discovery.turn(Instant::now())?;
        sleep(TURN);
    }
    let executed = (forks()? - executed) as f64;
    let after = programs()?;
    let seconds = begun.elapsed().as_secs_f64();
    let listens = (cpu(&discovery) - used) / executed;
    let kernel =
        |is_meant: &dyn Fn(&u64) -> bool| Kind::of(&before, &after, is_meant).told(executed);
    let (discovers, discovering) = kernel(&|id| hearing.contains(id));
    let (gating, of_gates) = kernel(&|id| !hearing.contains(id));
    let share = |ns: f64| ns * RATE / 1e9 * 100.0;
    Ok(format!(
        "{:.0} processes a second; for each in the kernel {discovering} of discovery and {of_gates} of {SLOTS} slots, and {listens:.0} ns in the process: \
         of 1,000 a second {:.3} %, {:.3} % and {:.3} % of a processor, {:.3} % in all",
        executed / seconds,
        share(discovers),
        share(gating),
        share(listens),
        share(discovers + gating + listens)
    ))
}

/// What some programs have taken in between.
#[derive(Default)]
struct Kind {
    taken: Taken,
    /// How many of them have run.
    programs: u32,
}

impl Kind {
    fn of(
        before: &BTreeMap<u64, Taken>,
        after: &BTreeMap<u64, Taken>,
        is_meant: &dyn Fn(&u64) -> bool,
    ) -> Self {
        let mut kind = Self::default();
        for (id, after) in after.iter().filter(|(id, _)| is_meant(id)) {
            let before = before.get(id).copied().unwrap_or_default();
            kind.taken.ns += after.ns - before.ns;
            kind.taken.runs += after.runs - before.runs;
            kind.programs += u32::from(after.runs > before.runs);
        }
        kind
    }

    /// Nanoseconds for each of so many processes, and words for that.
    fn told(&self, processes: f64) -> (f64, String) {
        let ns = self.taken.ns as f64 / processes;
        let runs = self.taken.runs as f64 / processes;
        let told = format!("{ns:.0} ns ({runs:.1} runs of {} programs)", self.programs);
        (ns, told)
    }
}

/// Processes and threads that were ever created (proc_stat(5)).
fn forks() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("processes "));
    Ok(line.context("/proc/stat tells no processes")?.parse()?)
}

fn ends(time: Duration) -> anyhow::Result<()> {
    let mut kernel = Kernel::load()?;
    let mut names = BTreeMap::new();
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        while let Some(news) = kernel.next_news() {
            match news {
                News::Executes { pid, executed } => {
                    let path = executed.map(|executed| executed.path).unwrap_or_default();
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    names.insert(pid, name.into_owned());
                }
                News::Ended { pid, status } => {
                    let name = names.remove(&pid).unwrap_or_default();
                    let count = counts.entry(name).or_default();
                    count.0 += 1;
                    count.1 += u64::from(status != Status::Exited(0));
                }
            }
        }
        sleep(TURN / 10);
    }
    for (name, (all, abnormal)) in counts {
        println!("{name} {all} {abnormal}");
    }
    Ok(())
}
