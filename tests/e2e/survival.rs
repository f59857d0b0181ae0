//! The target survives the death of gwp-race at any instant: unstopped, untraced, unarmed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Program, Watch, binary,
    children::{Guarded, descendants, status_field},
    compile,
};
use nix::{
    sys::{
        prctl,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// How many times gwp-race is killed for each of the two ways of watching: 300 times in all, and
/// twice as often in the full run.
fn kills() -> u32 {
    if binary::full() { 300 } else { 150 }
}
/// Every so often it hangs a little before it dies.
const HANGS: u32 = 10;
/// Enough for sampling to be in full swing: the fixture's race is caught within milliseconds.
const STARTING: Duration = Duration::from_secs(3);

fn target_program() -> PathBuf {
    compile::program(&Program::new("races/many_threads.c"), Configuration::USUAL).unwrap()
}

/// Waits until gwp-race has reported something, which proves that it is sampling, and then some
/// more: a different span each round.
fn in_full_swing(report: &Path, round: u32) -> bool {
    let start = Instant::now();
    let mut proven = false;
    while !proven && start.elapsed() < STARTING {
        proven = fs::metadata(report).is_ok_and(|file| file.len() > 0);
        std::thread::sleep(Duration::from_millis(1));
    }
    // Steps of 0 to 30 ms in an order without pattern.
    std::thread::sleep(Duration::from_micros(u64::from(
        round.wrapping_mul(7919) % 30_000,
    )));
    proven
}

/// Kills gwp-race, and waits until its helpers are gone as well.
fn slay(gwp_race: &mut Guarded, round: u32) {
    let itself = binary::gwp_race().canonicalize().unwrap();
    let of_gwp_race =
        |pid: &Pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == itself);
    let helpers: Vec<Pid> = descendants(gwp_race.pid())
        .into_iter()
        .filter(of_gwp_race)
        .collect();
    if round.is_multiple_of(HANGS) {
        kill(gwp_race.pid(), Signal::SIGSTOP).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(gwp_race.pid(), Signal::SIGKILL).unwrap();
    gwp_race.wait(Duration::from_secs(10)).unwrap();
    let alive =
        |pid: &Pid| status_field(*pid, "State").is_some_and(|state| !state.starts_with(['Z', 'X']));
    let start = Instant::now();
    while helpers.iter().any(alive) {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "round {round}: a helper lives on"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The target is neither traced nor stopped, and computes.
fn well(target: Pid, round: u32) {
    assert_eq!(
        status_field(target, "TracerPid").as_deref(),
        Some("0"),
        "round {round}: traced"
    );
    for thread in fs::read_dir(format!("/proc/{target}/task"))
        .unwrap()
        .flatten()
    {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        assert!(
            !status.contains("State:\tt"),
            "round {round}: a thread is stopped: {status}"
        );
        assert!(
            !status.contains("State:\tT"),
            "round {round}: a thread is stopped: {status}"
        );
    }
    let before = cpu_time(target);
    let start = Instant::now();
    while cpu_time(target) == before {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "round {round}: nothing moves"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Clock ticks of user time: field 14 of proc_pid_stat(5), the 12th after the name.
fn cpu_time(pid: Pid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields
        .split(' ')
        .nth(11)
        .and_then(|ticks| ticks.parse().ok())
        .unwrap_or(0)
}

/// Check that a process survives hundreds of gwp-races that were attached to it.
#[test]
fn attached_targets_survive() {
    let program = target_program();
    let mut command = Command::new(&program);
    command.args(["100000", "3"]).stdout(Stdio::null());
    let mut target = Guarded::new(command.spawn().unwrap());
    let scratch = tempfile::tempdir().unwrap();
    let mut proven = 0;
    for round in 0..kills() {
        let report = scratch.path().join(format!("report{round}"));
        let mut attach = Watch::aggressive().attach_command(target.pid(), &report);
        let mut gwp_race = Guarded::new(attach.stderr(Stdio::null()).spawn().unwrap());
        proven += u32::from(in_full_swing(&report, round));
        slay(&mut gwp_race, round);
        assert_eq!(
            target.ended().unwrap(),
            None,
            "the target died in round {round}"
        );
        well(target.pid(), round);
    }
    prove(proven);
}

/// Check that programs survive the gwp-races that have started them, and end by themselves.
#[test]
fn started_targets_survive() {
    // The orphans' exit codes come to this process.
    prctl::set_child_subreaper(true).unwrap();
    let program = target_program();
    let scratch = tempfile::tempdir().unwrap();
    let mut proven = 0;
    for round in 0..kills() {
        let report = scratch.path().join(format!("report{round}"));
        let mut run = Watch::aggressive().run_command(&program, &["0.8", "3"], &report);
        run.stdout(Stdio::null()).stderr(Stdio::null());
        let mut gwp_race = Guarded::new(run.spawn().unwrap());
        proven += u32::from(in_full_swing(&report, round));
        let target = started(gwp_race.pid(), &program);
        slay(&mut gwp_race, round);
        if let Some(target) = target {
            let end = end_of(target);
            assert_eq!(end, WaitStatus::Exited(target, 0), "round {round}");
        }
    }
    prove(proven);
}

fn prove(proven: u32) {
    println!("{proven} of {} kills during proven sampling", kills());
    assert!(
        proven > kills() / 2,
        "only {proven} of {} kills fell into sampling",
        kills()
    );
}

fn started(gwp_race: Pid, program: &Path) -> Option<Pid> {
    let program = program.canonicalize().unwrap();
    descendants(gwp_race)
        .into_iter()
        .find(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program))
}

fn end_of(target: Pid) -> WaitStatus {
    let start = Instant::now();
    loop {
        match waitpid(target, Some(WaitPidFlag::WNOHANG)).unwrap() {
            WaitStatus::StillAlive if start.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            status => {
                let _ = kill(target, Signal::SIGKILL);
                return status;
            }
        }
    }
}
