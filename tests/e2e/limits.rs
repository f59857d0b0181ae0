//! What gwp-race costs is bounded, whatever the program does.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Outcome, Program, Report, Until, Watch,
    children::{Guarded, threads},
    compile,
};

use crate::usage::{self, Usage};

/// What a gwp-race may use of memory, all its processes together.
const MOST_RSS_KIB: u64 = 100 << 10;
/// The server's size.
const THREADS: usize = 1000;
const MEGABYTES: &str = "300";
/// How long it may take until all its threads run, and a race was caught.
const LIMIT: Duration = Duration::from_secs(60);

/// Check that a watchpoint on an address that is accessed all the time is taken away after a bounded
/// number of hits: of a stall of 10 ms, in which some hundred accesses could trap, a few remain.
#[test]
fn busy_addresses_are_let_go() {
    /// Traps after which a stall ends, and those that come until it has ended.
    const MOST_HITS: f64 = 64.0 + 64.0;
    let program = Program::new("limits/busy_address.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let Outcome { report, .. } = Watch::aggressive()
        .option(&["--stall", "10ms", "--stop-deadline", "500ms"])
        .run(&program, &["4", "2"], Until::End)
        .unwrap();
    let stalls = report.number("stalls");
    let hits = report.number("hits");
    let cut_short = report.number("stalls_cut_short");
    println!("{stalls} stalls, {cut_short} of them cut short, {hits} hits");
    assert!(cut_short > 0.0);
    assert!(hits <= stalls * MOST_HITS);
    assert!(report.races.is_empty(), "{:?}", report.races);
}

/// Runs a large program with gwp-race in some way, until a race was caught.
fn watch_large(begin: impl FnOnce(&std::path::Path, &std::path::Path) -> Vec<Guarded>) {
    let program = Program::new("limits/large.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let output = scratch.path().join("report.json");
    let start = Instant::now();
    let processes = begin(&program, &output);
    let gwp_race = processes[0].pid();
    let mut most: Option<Usage> = None;
    let mut after_race = 0;
    // A few seconds beyond the first report: its explanation is what takes memory.
    while after_race < 20 {
        assert!(start.elapsed() < LIMIT, "no race was caught: {most:?}");
        std::thread::sleep(Duration::from_millis(100));
        let usage = usage::look(gwp_race, start);
        if most.is_none_or(|most| most.rss_kib < usage.rss_kib) {
            most = Some(usage);
        }
        let text = std::fs::read_to_string(&output).unwrap_or_default();
        let caught = Report::read(&text).is_ok_and(|report| !report.races.is_empty());
        after_race += u32::from(caught);
    }
    println!("{most:?}");
    let most = most.unwrap();
    assert!(most.processes >= 3);
    assert!(most.rss_kib <= MOST_RSS_KIB, "{most:?}");
}

/// Check that gwp-race stays small beside a program of 1,000 threads and 300 MB, under `run`.
#[test]
fn memory_is_bounded_in_run() {
    watch_large(|program, output| {
        let arguments = ["60", &THREADS.to_string(), MEGABYTES];
        let mut command = Watch::aggressive().run_command(program, &arguments, output);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        vec![Guarded::new(command.spawn().unwrap())]
    });
}

/// The same with `attach`, where each thread has events of its own.
#[test]
fn memory_is_bounded_in_attach() {
    watch_large(|program, output| {
        let server = Command::new(program)
            .args(["60", &THREADS.to_string(), MEGABYTES])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Guarded::new(server);
        let start = Instant::now();
        while threads(server.pid()).count() <= THREADS {
            assert!(start.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut command = Watch::aggressive().attach_command(server.pid(), output);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        vec![Guarded::new(command.spawn().unwrap()), server]
    });
}
