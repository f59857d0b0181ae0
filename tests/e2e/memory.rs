//! gwp-race without memory: the target comes to no harm, and gwp-race says what happened.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    Watch, binary,
    chaos::target::{Target, program, waited},
    children::{Guarded, named, status_field},
    machine::Machine,
};
use nix::unistd::Pid;

/// Address spaces that gwp-race must make do with, in MiB above the least one in which it runs at all: from too little for a second thread to enough
/// for most of the way. Where not even the file itself can be mapped, the kernel ends whoever executes it by SIGSEGV, before anything of it runs that could
/// say so.
const ABOVE_LEAST: [u64; 9] = [0, 4, 24, 36, 52, 80, 130, 230, 480];
/// Where the least one is to be found, in MiB.
const LEAST: std::ops::Range<u64> = 8..200;
/// How long a gwp-race may take to end.
const ENDING: Duration = Duration::from_secs(30);
/// How often memory ends for each of the two processes.
const ROUNDS: u32 = 4;
/// Between the instants at which it ends.
const STEP: Duration = Duration::from_millis(25);
/// The exit code of a process that abort(3) has ended, as `prlimit` passes it on: none.
const ABORTED: Option<i32> = None;

/// The least address space in which gwp-race tells its version, in MiB.
fn least() -> u64 {
    let runs = |mib: &u64| {
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={}", mib << 20));
        command.arg(binary::gwp_race()).arg("--version");
        command.output().unwrap().status.success()
    };
    LEAST.into_iter().find(runs).unwrap()
}

fn said(stderr: &PathBuf) -> String {
    fs::read_to_string(stderr).unwrap_or_default()
}

/// Limits what a process may map.
fn limit(pid: Pid, bytes: u64) {
    let mut prlimit = Command::new("prlimit");
    prlimit.arg(format!("--as={bytes}"));
    // The process may have ended this moment.
    let _ = prlimit.args(["--pid", &pid.to_string()]).status().unwrap();
}

/// Check that a gwp-race that is started with too little memory says so, at whichever step that is,
/// and that the process that it was to watch is as before.
#[test]
fn too_little_from_the_start() {
    let _machine = Machine::shared();
    let mut target = Target::start(&program().unwrap(), 4).unwrap();
    let pid = target.process.pid();
    let mut failures = 0;
    let least = least();
    for mib in ABOVE_LEAST.map(|above| least + above) {
        let stderr = target.board.beside("stderr");
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--as={}", mib << 20))
            .arg(binary::gwp_race())
            .args(["attach", "--max-overhead", "100%", "--sample-period", "1ms"])
            .args(["--duration", "2s", "-o"])
            .arg(target.board.beside("report"))
            .arg(pid.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&stderr).unwrap());
        let status = Guarded::new(command.spawn().unwrap()).wait(ENDING).unwrap();
        let said = said(&stderr);
        println!("{mib} MiB: {status}: {}", said.trim_end());
        assert!(!said.contains("panicked"), "{mib} MiB: {said}");
        if !status.success() {
            failures += 1;
            assert!(
                matches!(status.code(), ABORTED | Some(1 | 127)),
                "{mib} MiB: {status}: {said}"
            );
            assert!(!said.is_empty(), "{mib} MiB: {status}");
        }
        assert_eq!(target.process.ended().unwrap(), None, "{mib} MiB");
        assert_eq!(target.board.examine(pid).unwrap(), None, "{mib} MiB");
    }
    assert!(
        (1..ABOVE_LEAST.len()).contains(&failures),
        "{failures} failures: none of the limits is too narrow, or all are"
    );
    target.end().unwrap();
}

/// Check that when a tracer or a daemon can get no more memory while it attaches or samples, the
/// target is released, and that the daemon says what has become of the tracer.
#[test]
fn none_left_in_the_midst() {
    let _machine = Machine::shared();
    let mut felt = 0;
    for round in 0..2 * ROUNDS {
        let of_tracer = round % 2 == 0;
        let mut target = Target::start(&program().unwrap(), 4).unwrap();
        let pid = target.process.pid();
        let (report, stderr) = (target.board.beside("report"), target.board.beside("stderr"));
        let watch = Watch::aggressive().option(&["--duration", "3s"]);
        let mut command = watch.attach_command(pid, &report);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(&stderr).unwrap());
        let mut gwp_race = Guarded::new(command.spawn().unwrap());
        let is_held = || status_field(pid, "TracerPid").is_some_and(|tracer| tracer != "0");
        assert!(waited(|| Ok(is_held())).unwrap(), "{}", said(&stderr));
        let tracer = named(gwp_race.pid(), "gwp-race-tracer").unwrap();
        std::thread::sleep(STEP * round);
        limit(if of_tracer { tracer } else { gwp_race.pid() }, 1 << 20);
        let status = gwp_race.wait(ENDING).unwrap();
        let said = said(&stderr);
        println!("tracer: {of_tracer}: {status}: {}", said.trim_end());
        assert!(!said.contains("panicked"), "{said}");
        let died = said.contains("memory allocation");
        felt += u32::from(died || said.contains("Cannot allocate memory"));
        if of_tracer {
            assert!(matches!(status.code(), Some(0 | 1)), "{status}: {said}");
            assert_eq!(died, said.contains("the tracer has died"), "{said}");
        } else {
            assert!(matches!(status.code(), ABORTED | Some(0 | 1)), "{status}");
        }
        assert_eq!(target.process.ended().unwrap(), None);
        assert_eq!(target.board.examine(pid).unwrap(), None);
        target.end().unwrap();
    }
    assert!(felt > 0, "the limits were not felt");
}
