//! Containers: gwp-race inside a pid namespace, and programs in namespaces of their own.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Program, Report, Until, Watch, binary,
    children::{Guarded, named, status_field},
    compile,
    report::Race,
};
use nix::unistd::Pid;

/// How often a race may be missed.
const TRIES: u32 = 5;
/// How long a program in a new namespace may take to start.
const STARTING: Duration = Duration::from_secs(60);

fn racy_program() -> std::path::PathBuf {
    compile::program(&Program::new("races/many_threads.c"), Configuration::USUAL).unwrap()
}

/// Runs gwp-race in namespaces that unshare(1) makes by these options, until it has caught the race, which it returns.
fn caught_inside(options: &[&str]) -> Race {
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report");
    for attempt in 1..=TRIES {
        let mut command = Command::new("unshare");
        command
            .args(options)
            .args(["--fork", "--kill-child"])
            .arg(binary::gwp_race())
            .args(["run", "--max-overhead", "100%", "--sample-period", "1ms"])
            .args(["--format", "json", "--output"])
            .arg(&report)
            .arg("--")
            .arg(racy_program())
            .args(["5", "2"])
            .stdout(Stdio::null());
        let mut inside = Guarded::new(command.spawn().unwrap());
        let status = inside.wait(Duration::from_secs(60)).unwrap();
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        assert!(status.success(), "{status}: {text}");
        let report = Report::read(&text).unwrap();
        if let Some(race) = report.races.into_iter().next() {
            println!("caught on try {attempt}: {}", race.places());
            assert!(race.has_function("increment"), "{race:?}");
            return race;
        }
    }
    panic!("not caught in {TRIES} tries");
}

/// Check that gwp-race works inside a pid namespace, where processes have other ids than those that
/// the kernel knows them by outside.
#[test]
fn inside_a_pid_namespace() {
    let race = caught_inside(&["--pid", "--mount-proc"]);
    // Only a few processes have ever existed there.
    assert!(race.pid < 100, "{race:?}");
}

/// Check that gwp-race works inside a time namespace, where clocks show another time than those that the kernel stamps hits by: one that
/// is ahead, and one that is behind.
#[test]
fn inside_a_time_namespace() {
    for offset in [100_000, -60] {
        let offsets = ["monotonic", "boottime"].map(|clock| format!("--{clock}={offset}"));
        caught_inside(&["--time", &offsets[0], &offsets[1]]);
    }
}

/// Check that a program is watched whose file, processes, network and users are those of
/// namespaces of its own.
#[test]
fn a_program_in_namespaces_of_its_own() {
    let (_outside, pid) = hidden(&racy_program(), "2");
    for attempt in 1..=TRIES {
        let outcome = Watch::aggressive()
            .option(&["--duration", "8s"])
            .attach(pid, Until::Race)
            .unwrap();
        if let Some(race) = outcome.report.races.first() {
            println!("caught on try {attempt}: {}", race.places());
            assert_eq!(race.pid, pid.as_raw());
            assert!(race.has_function("increment"), "{race:?}");
            assert_eq!(status_field(pid, "TracerPid").as_deref(), Some("0"));
            return;
        }
        println!("try {attempt}: {:?}", outcome.report.summary);
    }
    panic!("not caught in {TRIES} tries");
}

/// Check that threads which hold a lock are known by the ids that they have in their own namespace, which are those that
/// the lock tells.
#[test]
fn holders_of_locks_in_a_namespace() {
    let locked = compile::program(&Program::new("silent/mutex.c"), Configuration::USUAL).unwrap();
    let (_outside, pid) = hidden(&locked, "");
    let inside = status_field(pid, "NSpid").unwrap_or_default();
    assert!(inside.split_whitespace().count() > 1, "{inside}");
    let spared = (1..=TRIES).any(|attempt| {
        let outcome = Watch::usual()
            .option(&["--max-overhead", "5%", "--duration", "6s"])
            .attach(pid, Until::End)
            .unwrap();
        assert!(outcome.report.races.is_empty(), "{outcome:?}");
        let [locked, held] = [": locked", ": held"].map(|what| outcome.report.came_to(what));
        println!("try {attempt}: {locked} locked, {held} spared");
        locked > 0.0 && held > 0.0
    });
    assert!(spared, "not in {TRIES} tries");
}

/// Starts a program, for a minute, in namespaces of its own in which its file is, too; its process ends with the first of the two.
fn hidden(program: &Path, argument: &str) -> (Guarded, Pid) {
    const NAME: &str = "hidden";
    let script = format!(
        "mount -t tmpfs tmpfs /mnt && cp {} /mnt/{NAME} && exec /mnt/{NAME} 60 {argument}",
        program.display()
    );
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "--pid", "--fork"])
        .args(["--time", "--monotonic=100000", "--boottime=100000"])
        .args(["--net", "--uts", "--ipc", "--kill-child", "sh", "-c"])
        .arg(&script)
        .stdout(Stdio::null());
    let outside = Guarded::new(command.spawn().unwrap());
    let start = Instant::now();
    loop {
        if let Some(pid) = named(outside.pid(), NAME) {
            return (outside, pid);
        }
        assert!(start.elapsed() < STARTING, "it has not started");
        sleep(Duration::from_millis(10));
    }
}
