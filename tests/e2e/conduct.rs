//! gwp-race is not in the way: exit codes, signals, input, output, waiting system calls, forks.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    Configuration, Program, Until, Watch,
    binary::gwp_race,
    children::{Guarded, status_field},
    compile,
};
use nix::sys::signal::{Signal, kill};

fn built(source: &'static str) -> PathBuf {
    compile::program(&Program::new(source), Configuration::USUAL).unwrap()
}

fn shell(script: &str) -> Option<i32> {
    let outcome = Watch::aggressive().run(Path::new("/bin/sh"), &["-c", script], Until::End);
    outcome.unwrap().status.code()
}

/// Check that the program's exit code is gwp-race's.
#[test]
fn exit_code_is_passed_on() {
    assert_eq!(shell("exit 0"), Some(0));
    assert_eq!(shell("exit 7"), Some(7));
    assert_eq!(shell("exit 255"), Some(255));
}

/// Check that a program dies of what it does right after a race, and that the race is reported all the same: the thread that was
/// caught goes on while the other one is still stalled.
#[test]
fn who_was_caught_may_crash() {
    const TRIES: u32 = 20;
    let built = built("conduct/racing_trap.c");
    let caught = (1..=TRIES).any(|attempt| {
        let watch = Watch::aggressive().option(&["--stall", "5ms", "--stop-deadline", "20ms"]);
        let outcome = watch.run(&built, &["3", "2"], Until::End).unwrap();
        assert_eq!(outcome.status.code(), Some(128 + 5), "{outcome:?}");
        let races = outcome.report.races.len();
        println!("try {attempt}: {races} races");
        races > 0
    });
    assert!(caught, "not in {TRIES} tries");
}

/// Check that a program killed by a signal gives 128 and the signal's number, as in a shell.
#[test]
fn fatal_signals_are_passed_on() {
    assert_eq!(shell("kill -TERM $$"), Some(128 + 15));
    assert_eq!(shell("kill -SEGV $$"), Some(128 + 11));
    assert_eq!(shell("kill -KILL $$"), Some(128 + 9));
}

/// Check that signals which gwp-race is sent reach the program, from its first instruction on.
#[test]
fn sent_signals_are_passed_on() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGALRM,
    ] {
        let name = signal.as_str().trim_start_matches("SIG");
        // Ends by itself: where gwp-race has died, nobody else would end it.
        let script =
            format!("trap 'exit 41' {name}; echo ready; for i in $(seq 400); do sleep 0.05; done");
        let scratch = tempfile::tempdir().unwrap();
        let report = scratch.path().join("report");
        let mut command =
            Watch::aggressive().run_command(Path::new("/bin/sh"), &["-c", &script], &report);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut started = Guarded::new(command.spawn().unwrap());
        let mut line = String::new();
        let stdout = started.child().stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kill(started.pid(), signal).unwrap();
        let status = started.wait(Duration::from_secs(20)).unwrap();
        assert_eq!(status.code(), Some(41), "{signal}: {status}");
    }
}

/// Check that stdin, stdout and stderr are the program's.
#[test]
fn input_and_output_pass_through() {
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report");
    let mut command = Command::new(gwp_race());
    command
        .args(["run", "--quiet", "--output"])
        .arg(&report)
        .args(["--", "/bin/sh", "-c", "cat; echo aside >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let text = "line\n".repeat(50_000);
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, "line\n".repeat(50_000).as_bytes());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "aside\n");
}

/// Check that a command that does not exist is an error that names it.
#[test]
fn a_missing_program_is_named() {
    let output = Command::new(gwp_race())
        .args(["run", "--", "/no/such/program"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/program"));
}

/// Check that the program goes on to its own end after the time to watch is over.
#[test]
fn the_program_outlives_the_watching() {
    let program = built("races/read_write.c");
    let outcome = Watch::aggressive()
        .option(&["--duration", "1s"])
        .run(&program, &["4"], Until::End)
        .unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout, "done\n");
    // A sample a millisecond of CPU time: two threads make 2,000 in the second that is watched,
    // and 8,000 in all.
    let samples = outcome.report.number("samples");
    assert!(
        samples < 4000.0,
        "{samples} samples: it was watched for longer than a second"
    );
}

/// Check that the traps of a program with a SIGTRAP handler of its own are its own, all of them.
#[test]
fn own_trap_handler() {
    let program = built("conduct/own_handler.c");
    let outcome = Watch::aggressive()
        .run(&program, &["6"], Until::End)
        .unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout, "done\nall arrived\n");
    assert!(outcome.report.number("samples") > 0.0, "{outcome:?}");
}

fn none_interrupted(stdout: &str) {
    let (waited, rest) = stdout.trim_start_matches("done\n").split_once(' ').unwrap();
    assert!(waited.parse::<u32>().unwrap() > 50, "{stdout}");
    assert_eq!(rest, "waited, 0 interrupted\n");
}

/// Check that no waiting system call is interrupted in a program that gwp-race runs.
#[test]
fn nothing_is_interrupted_by_run() {
    let program = built("conduct/interruptions.c");
    let outcome = Watch::aggressive()
        .run(&program, &["6"], Until::End)
        .unwrap();
    assert!(outcome.report.number("stalls") > 0.0, "{outcome:?}");
    none_interrupted(&outcome.stdout);
}

/// Check that none is interrupted in a program that gwp-race attaches to and leaves, again and
/// again.
#[test]
fn nothing_is_interrupted_by_attach() {
    let scratch = tempfile::tempdir().unwrap();
    let stdout = scratch.path().join("stdout");
    let mut command = Command::new(built("conduct/interruptions.c"));
    command.arg("30").stdout(fs::File::create(&stdout).unwrap());
    let mut target = Guarded::new(command.spawn().unwrap());
    for _ in 0..4 {
        let watch = Watch::aggressive().option(&["--duration", "1s"]);
        let outcome = watch.attach(target.pid(), Until::End).unwrap();
        assert!(outcome.status.success(), "{outcome:?}");
        assert_eq!(
            status_field(target.pid(), "TracerPid").as_deref(),
            Some("0")
        );
    }
    assert!(target.wait(Duration::from_secs(60)).unwrap().success());
    none_interrupted(&fs::read_to_string(stdout).unwrap());
}

/// Check that children that are forked and execute other programs work as without gwp-race.
#[test]
fn forks_and_execs_work() {
    let program = built("conduct/fork_exec.c");
    for follow in ["yes", "no"] {
        let watch = Watch::aggressive().option(&["--follow-forks", follow]);
        let outcome = watch.run(&program, &["5", "3"], Until::End).unwrap();
        assert!(outcome.status.success(), "{outcome:?}");
        assert_eq!(outcome.stdout, "0 failures\ndone\n");
    }
}

/// Check that a program that executes itself anew from one of its threads does so each time,
/// while others are created and end.
#[test]
fn any_thread_may_exec() {
    let program = built("conduct/exec_thread.c");
    for _ in 0..3 {
        let outcome = Watch::aggressive()
            .run(&program, &["eightexec"], Until::End)
            .unwrap();
        assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
        assert_eq!(outcome.stdout, "xxxxxxxxx", "{outcome:?}");
    }
}

/// Check that gwp-race ends when the process that it is attached to crashes.
#[test]
fn a_crash_ends_the_attaching() {
    let mut command = Command::new(built("races/read_write.c"));
    command.arg("60").stdout(Stdio::null());
    let mut target = Guarded::new(command.spawn().unwrap());
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report");
    let mut attach = Watch::aggressive().attach_command(target.pid(), &report);
    let mut attached = Guarded::new(attach.stderr(Stdio::null()).spawn().unwrap());
    // It is watched once a race is reported.
    while !fs::metadata(&report).is_ok_and(|report| report.len() > 0) {
        assert_eq!(attached.ended().unwrap(), None, "it did not stay attached");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(target.pid(), Signal::SIGSEGV).unwrap();
    let status = target.wait(Duration::from_secs(20)).unwrap();
    assert_eq!(status.signal(), Some(11));
    assert!(attached.wait(Duration::from_secs(20)).unwrap().success());
}

/// Check that a process can be attached to whose first thread has ended.
#[test]
fn the_first_thread_may_have_ended() {
    let mut target = Guarded::new(
        Command::new(built("conduct/ended_leader.c"))
            .spawn()
            .unwrap(),
    );
    std::thread::sleep(Duration::from_secs(1));
    let watch = Watch::aggressive().option(&["--duration", "3s"]);
    let outcome = watch.attach(target.pid(), Until::End).unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(outcome.report.number("stalls") > 0.0, "{outcome:?}");
    assert!(target.wait(Duration::from_secs(60)).unwrap().success());
}

/// Check that gwp-race, told to end, leaves a process that it is attached to.
#[test]
fn told_to_end_it_leaves_the_target() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut command = Command::new(built("races/read_write.c"));
        command.arg("30").stdout(Stdio::null());
        let mut target = Guarded::new(command.spawn().unwrap());
        let scratch = tempfile::tempdir().unwrap();
        let report = scratch.path().join("report");
        let mut attach = Watch::aggressive().attach_command(target.pid(), &report);
        let mut attached = Guarded::new(attach.stderr(Stdio::null()).spawn().unwrap());
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(attached.ended().unwrap(), None, "it did not stay attached");
        kill(attached.pid(), signal).unwrap();
        attached.wait(Duration::from_secs(20)).unwrap();
        assert_eq!(target.ended().unwrap(), None, "the target has ended");
        assert_eq!(
            status_field(target.pid(), "TracerPid").as_deref(),
            Some("0")
        );
        assert!(
            fs::read_to_string(&report)
                .unwrap()
                .contains("\"type\":\"summary\"")
        );
    }
}
