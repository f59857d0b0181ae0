//! A program under a mixed load is watched for a while: gwp-race does not grow, misses no stop, and
//! still finds things at the end. `cargo xtask soak` runs this test for longer and draws its figures.

use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Program, Report, Watch,
    children::{Guarded, descendants, executes, status_field, threads},
    compile,
};
use nix::unistd::Pid;

use crate::{
    catalogue,
    usage::{Usage, look},
};

/// How long, unless `GWP_RACE_SOAK_SECONDS` says otherwise.
const SECONDS: u64 = 60;
/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// Growth between the second and the last third that counts as none: what allocators and page
/// faults make of the same work.
const SLACK_KIB: u64 = 2048;
/// Descriptors come and go with threads; so many more than before count as none.
const SLACK_FDS: u64 = 16;
/// A daemon, its readers, and pairs of tracer and watchdog: for the program, those children of it that live at a time, each with a reader where something
/// was caught, and four to come.
const MOST_PROCESSES: usize = 26;
/// A thread that is seen in its tracer's stop this often in a row, with another look every so
/// often, was forgotten.
const STANDING_LOOKS: u32 = 5;

/// Threads of the program that stand in a stop of their tracer.
fn standing(program: Pid) -> Vec<Pid> {
    threads(program)
        .filter(|&thread| status_field(thread, "State").is_some_and(|state| state.starts_with('t')))
        .collect()
}

fn median_of(usages: &[Usage], value: impl Fn(&Usage) -> u64) -> u64 {
    let mut values: Vec<u64> = usages.iter().map(value).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// Check that memory and descriptors stay flat, that no thread is forgotten in a stop, that the
/// program notices nothing, and that its race is still caught at the end.
#[test]
fn a_mixed_load() {
    let seconds = std::env::var("GWP_RACE_SOAK_SECONDS")
        .map_or(SECONDS, |text| text.parse().expect("a number of seconds"));
    let program = Program::new("soak/mixed.c").dynamic();
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let library = catalogue::counter_library(Configuration::USUAL);
    let scratch = tempfile::tempdir().unwrap();
    let (report, stdout) = (scratch.path().join("report"), scratch.path().join("stdout"));
    let mut command = Watch::aggressive()
        .env("COUNTER_LIBRARY", &library)
        .run_command(&program, &[&seconds.to_string()], &report);
    command.stdout(fs::File::create(&stdout).unwrap());
    let start = Instant::now();
    let mut gwp_race = Guarded::new(command.spawn().unwrap());
    let mut usages = Vec::new();
    let status = loop {
        if let Some(status) = gwp_race.ended().unwrap() {
            break status;
        }
        assert!(
            start.elapsed() < Duration::from_secs(seconds + 60),
            "gwp-race has not ended"
        );
        std::thread::sleep(PERIOD);
        usages.push(look(gwp_race.pid(), start));
        let itself = descendants(gwp_race.pid())
            .into_iter()
            .find(|&pid| executes(pid, &program));
        let mut forgotten = itself.map(standing).unwrap_or_default();
        for _ in 0..STANDING_LOOKS {
            std::thread::sleep(Duration::from_millis(30));
            let still = itself.map(standing).unwrap_or_default();
            forgotten.retain(|thread| still.contains(thread));
        }
        assert!(
            forgotten.is_empty(),
            "threads {forgotten:?} were forgotten in a stop"
        );
    };
    let said = fs::read_to_string(&stdout).unwrap();
    println!("{said}");
    assert!(status.success(), "{status}: {said}");
    publish(&usages);
    let report = Report::read(&fs::read_to_string(&report).unwrap()).unwrap();
    assert!(report.number("stalls") > 0.0);
    assert!(!report.races.is_empty(), "the race was not caught");

    // The last look may have come while things were being ended.
    usages.pop();
    let third = usages.len() / 3;
    let (before, after) = (&usages[third..2 * third], &usages[2 * third..]);
    // Tracers for children come and go, so what each process has is compared.
    let each = |usages, value: fn(&Usage) -> u64| {
        median_of(usages, |usage| value(usage) / usage.processes.max(1) as u64)
    };
    let pss = |usages| each(usages, |usage| usage.pss_kib);
    let fds = |usages| each(usages, |usage| usage.fds as u64);
    let processes = usages.iter().map(|usage| usage.processes).max();
    println!(
        "second third: {} KiB and {} descriptors a process; last third: {} KiB and {}; at most {processes:?} processes",
        pss(before),
        fds(before),
        pss(after),
        fds(after)
    );
    assert!(pss(after) <= pss(before) + pss(before) / 10 + SLACK_KIB);
    assert!(fds(after) <= fds(before) + SLACK_FDS);
    assert!(processes <= Some(MOST_PROCESSES), "{processes:?}");
}

/// Writes what was seen where `cargo xtask soak` looks for it.
fn publish(usages: &[Usage]) {
    let Some(path) = std::env::var_os("GWP_RACE_SOAK_CSV").map(PathBuf::from) else {
        return;
    };
    let mut text = "seconds,processes,pss_kib,descriptors\n".to_owned();
    for usage in usages {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:.1},{},{},{}",
            usage.seconds, usage.processes, usage.pss_kib, usage.fds
        );
    }
    fs::write(path, text).unwrap();
}
