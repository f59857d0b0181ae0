//! What it takes to watch a process of many threads: `bench_arming PID`, of a process that ignores SIGTRAP or
//! does nothing with SIGURG. Nobody is stopped.
//!
//! Prints the time to seize all threads and to open their events, and the time to arm all watchpoints once: as
//! gwp-race does it, by processor where there are many threads; and by thread, for comparison.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use gwp_race::{
    addr::RuntimeAddr,
    hunt::{
        arming::{Arming, Processors},
        delivery::choose_delivery,
        watchpoints::Watchpoints,
    },
    kernel::{
        gates::{GateLog, Gates},
        open_files::raise_files,
        perf::{EventOptions, WatchKind},
        process::{Bell, Employer, Urgency, WorkClock, hurry},
    },
    tracee::threads,
};
use nix::unistd::Pid;

/// CPU time between two samples; nobody takes them here.
const PERIOD: Duration = Duration::from_millis(10);
/// Times that all watchpoints are armed, and those of the threads where gwp-race would not use these.
const ARMINGS: usize = 200;
const ARMINGS_BY_THREAD: usize = 20;
/// How long gwp-race waits at a site, in between.
const WAITING: Duration = Duration::from_millis(20);
/// How often it is looked whether the watchpoints are prepared.
const PREPARATION: Duration = Duration::from_millis(2);
/// Marks SIGTRAPs as ours.
const COOKIE: u64 = 1;
/// Nothing is mapped there.
const NOWHERE: RuntimeAddr = RuntimeAddr(0x1000);

fn main() -> anyhow::Result<()> {
    let pid = std::env::args().nth(1).context("usage: bench_arming PID")?;
    let pid: u32 = pid.parse().context("usage: bench_arming PID")?;
    raise_files();
    // As the tracer does.
    hurry(Urgency::Urgent);
    let gates = Gates::load(GateLog::Off)?;
    let delivery = choose_delivery(pid, &gates)?.context("the program handles all signals")?;
    let threads = threads::list(Pid::from_raw(pid.cast_signed()))?;
    let tids = || threads.iter().map(|tid| tid.as_raw().cast_unsigned());

    // As gwp-race does it.
    let mut arming = Arming::new(pid, delivery, PERIOD, COOKIE, Processors::default());
    let start = Instant::now();
    // Nobody waits for it.
    let employer = Employer {
        bell: std::sync::Arc::new(Bell::new()?),
        clock: WorkClock::of_share(1),
    };
    arming.choose_events(threads.len(), &gates, &employer)?;
    for tid in tids() {
        if arming.seize(tid)? {
            arming.open(tid, &gates)?;
        }
    }
    println!("threads {}", arming.len());
    println!("open_us {}", start.elapsed().as_micros());
    print("arm", &mut armings(arming.watchpoints(), ARMINGS)?);

    // For comparison.
    let mut by_thread = Watchpoints::default();
    let options = EventOptions {
        delivery,
        inherit: true,
        cookie: COOKIE,
        record_stack: None,
        kernel: false,
    };
    for tid in tids() {
        by_thread.open(tid, options, &gates)?;
    }
    print(
        "by_thread",
        &mut armings(&mut by_thread, ARMINGS_BY_THREAD)?,
    );
    Ok(())
}

/// How long it took to arm all watchpoints, for writes and for all accesses in turns, each time after they were
/// prepared for that and a site was waited at for a while.
fn armings(watchpoints: &mut Watchpoints, count: usize) -> anyhow::Result<Vec<Duration>> {
    let kinds = [WatchKind::Writes, WatchKind::ReadsAndWrites];
    let arm = |kind| {
        while !watchpoints.prepare(kind) {
            std::thread::sleep(PREPARATION);
        }
        watchpoints.break_at(NOWHERE)?;
        std::thread::sleep(WAITING);
        let start = Instant::now();
        watchpoints.watch(NOWHERE, 8, kind)?;
        let took = start.elapsed();
        watchpoints.unwatch();
        Ok(took)
    };
    kinds.into_iter().cycle().take(count).map(arm).collect()
}

fn print(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| times.get((times.len() - 1) * share / 100);
    for (suffix, share) in [("us", 50), ("worst_us", 100)] {
        let time = at(share).copied().unwrap_or_default();
        println!("{name}_{suffix} {}", time.as_micros());
    }
}
