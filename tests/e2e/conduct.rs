//! gwp-race is not in the way: exit codes, signals, input, output, waiting system calls, forks.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    Configuration, Outcome, Program, Until, Watch,
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
    // Two to four of ten are usual. Of so many tries fewer have one then in one test of 1,000 at most; with a tenth of that,
    // one test of 100 finds enough.
    const TRIES: usize = 64;
    const LEAST: usize = 5;
    let built = built("conduct/racing_trap.c");
    let caught = (1..=TRIES).filter(|attempt| {
        let watch = Watch::aggressive().option(&["--stall", "5ms", "--stop-deadline", "20ms"]);
        let outcome = watch.run(&built, &["3", "2"], Until::End).unwrap();
        assert_eq!(outcome.status.code(), Some(128 + 5), "{outcome:?}");
        let races = outcome.report.races.len();
        println!("try {attempt}: {races} races");
        races > 0
    });
    assert_eq!(caught.take(LEAST).count(), LEAST, "of {TRIES} tries");
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
        wait_until_ready(&mut started);
        kill(started.pid(), signal).unwrap();
        let status = started.wait(Duration::from_secs(60)).unwrap();
        assert_eq!(status.code(), Some(41), "{signal}: {status}");
    }
}

/// Waits until a program says that it is ready.
fn wait_until_ready(started: &mut Guarded) {
    let mut line = String::new();
    let stdout = started.child().stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

/// Check that a program finds a signal once: what is sent to gwp-race alone, and what is sent to the whole group that both are in, as by
/// a shell that ends a job, or by systemd.
#[test]
fn signals_for_all_come_once() {
    const COUNTS: &str = "n=0; trap 'n=$((n+1))' TERM; echo ready
        for i in $(seq 40); do sleep 0.05; done; exit $n";
    for to_all in [false, true] {
        let mut command = Command::new(gwp_race());
        command.args(["run", "-q", "--", "/bin/sh", "-c", COUNTS]);
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut started = Guarded::new(command.spawn().unwrap());
        wait_until_ready(&mut started);
        let pid = started.pid();
        let whom = if to_all {
            nix::unistd::Pid::from_raw(-pid.as_raw())
        } else {
            pid
        };
        kill(whom, Signal::SIGTERM).unwrap();
        let status = started.wait(Duration::from_secs(60)).unwrap();
        assert_eq!(status.code(), Some(1), "to all: {to_all}; {status}");
    }
}

/// What is told to a service's first process, whose shell then becomes the words.
const AS_SERVICE: &str =
    "LISTEN_PID=$$ LISTEN_FDS=1 WATCHDOG_PID=1 SYSTEMD_EXEC_PID=$$ exec \"$@\"";

/// Check that a program which is meant by its number in the environment finds itself meant, and that others stay meant.
#[test]
fn services_are_meant() {
    let script = "[ $LISTEN_PID = $$ ] && [ $SYSTEMD_EXEC_PID = $$ ] && [ $WATCHDOG_PID = 1 ]";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", AS_SERVICE, "sh"]).arg(gwp_race());
    let output = command
        .args(["run", "-q", "--", "/bin/sh", "-c", script])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Check that systemd finds a service ended by the signal that has ended its program.
#[test]
fn services_end_as_their_programs() {
    for (script, signal, code) in [
        ("kill -TERM $$", Some(15), None),
        ("kill -ABRT $$", Some(6), None),
        ("exit 7", None, Some(7)),
    ] {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", AS_SERVICE, "sh"]).arg(gwp_race());
        let output = command
            .args(["run", "-q", "--", "/bin/sh", "-c", script])
            .output()
            .unwrap();
        let status = output.status;
        assert_eq!((status.signal(), status.code()), (signal, code), "{script}");
        assert!(!status.core_dumped(), "{script}");
    }
}

/// Check that a filter of system calls which would end gwp-race is told of, with what to do, and no program is started.
#[test]
fn deadly_filters_are_told_of() {
    let filter = built("conduct/filter.c");
    for words in [
        &["run", "--", "/bin/echo", "started"][..],
        &["attach", "1"],
        &["doctor"],
    ] {
        let mut command = Command::new(&filter);
        let output = command.arg(gwp_race()).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code != 0));
        assert!(output.stdout.is_empty(), "{output:?}");
        assert!(
            said.contains("perf_event_open, ptrace") && said.contains("SystemCallFilter=@debug"),
            "{said}"
        );
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
        .option(&["--duration", "2s"])
        .run(&program, &["6"], Until::End)
        .unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout, "done\n");
    // A sample a millisecond of CPU time: two threads make 4,000 in the time that is watched,
    // and 12,000 in all.
    let samples = outcome.report.number("samples");
    assert!(
        samples > 0.0 && samples < 8000.0,
        "{samples} samples: it was not watched for two seconds"
    );
}

/// Check that races that are suppressed end nothing, and that the first one that is not ends the program:
/// of eight races, all are suppressed, or all but one.
#[test]
fn only_reported_races_halt() {
    let program = built("conduct/many_races.c");
    let scratch = tempfile::tempdir().unwrap();
    let list = scratch.path().join("suppressions");
    let run = |suppressed: &str, seconds| {
        let rules: String = suppressed
            .chars()
            .map(|name| format!("race:^increment_{name}$\n"))
            .collect();
        fs::write(&list, rules).unwrap();
        let list = list.to_str().unwrap();
        Watch::aggressive()
            .option(&["--halt-on-race", "--suppressions", list])
            .run(&program, &[seconds, "2"], Until::End)
            .unwrap()
    };
    let outcome = run("abcdefgh", "3");
    let suppressed = outcome.report.swallowed("suppressed");
    println!("{suppressed} times suppressed");
    assert!(suppressed > 0.0, "{outcome:?}");
    assert_eq!(outcome.status.code(), Some(0), "{outcome:?}");
    assert_eq!(outcome.stdout, "done\n");
    assert_eq!(outcome.report.races.len(), 0, "{outcome:?}");

    let outcome = run("bcdefgh", "40");
    assert_eq!(outcome.status.code(), Some(66), "{outcome:?}");
    let races = &outcome.report.races;
    println!("after {} s", outcome.report.number("elapsed_s"));
    assert!(!races.is_empty(), "{outcome:?}");
    assert!(races.iter().all(|race| race.has_function("increment_a")));
}

/// Runs a program, or attaches to one, until it ends well.
fn run_or_attach(program: &Path, arguments: &[&str], attach: bool) -> Outcome {
    let watch = Watch::aggressive();
    let outcome = if attach {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped());
        let mut target = Guarded::new(command.spawn().unwrap());
        let mut outcome = watch.attach(target.pid(), Until::End).unwrap();
        assert!(target.wait(Duration::from_secs(60)).unwrap().success());
        let stdout = target.child().stdout.take().unwrap();
        outcome.stdout = std::io::read_to_string(stdout).unwrap();
        outcome
    } else {
        watch.run(program, arguments, Until::End).unwrap()
    };
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout, "done\n");
    outcome
}

/// Check that a program which handles each signal that could stop its threads, as programs of Go do, gets none of them, and that it is told
/// that nothing is found.
#[test]
fn who_handles_all_signals_is_told() {
    let program = built("conduct/all_handled.c");
    for attach in [false, true] {
        let outcome = run_or_attach(&program, &["8", "2"], attach);
        assert_eq!(outcome.report.number("stalls"), 0.0);
        let said = outcome
            .stderr
            .matches("none of its threads can be stopped")
            .count();
        assert_eq!(said, 1, "{}", outcome.stderr);
    }
}

/// Check that races are caught, and no signal of ours handled, in a program that handles what one does that has a library of Go.
#[test]
fn libraries_of_go_are_no_obstacle() {
    const TRIES: usize = 5;
    let program = built("conduct/all_handled.c");
    for attach in [false, true] {
        let is_caught = (0..TRIES).any(|_| {
            let outcome = run_or_attach(&program, &["8", "2", "library"], attach);
            let races = &outcome.report.races;
            races.iter().any(|race| race.has_function("increment"))
        });
        assert!(is_caught, "attach: {attach}: not in {TRIES} tries");
    }
}

/// Check that a program which ignores the signal that is to halt it is killed.
#[test]
fn halting_ends_who_ignores_it() {
    let program = built("conduct/many_races.c");
    let script = format!("trap '' TERM; exec {} 60 2", program.display());
    let outcome = Watch::aggressive()
        .option(&["--halt-on-race"])
        .run(Path::new("/bin/sh"), &["-c", &script], Until::End)
        .unwrap();
    assert_eq!(outcome.status.code(), Some(66), "{outcome:?}");
    assert_eq!(outcome.stdout, "", "it was not halted");
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
    command.arg("24").stdout(fs::File::create(&stdout).unwrap());
    let mut target = Guarded::new(command.spawn().unwrap());
    for _ in 0..4 {
        let watch = Watch::aggressive().option(&["--duration", "3s"]);
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
    let status = target.wait(Duration::from_secs(60)).unwrap();
    assert_eq!(status.signal(), Some(11));
    assert!(attached.wait(Duration::from_secs(60)).unwrap().success());
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
        attached.wait(Duration::from_secs(60)).unwrap();
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

/// Check that a program finds all that it would find without gwp-race: signals that are ignored or blocked, the environment,
/// limits, how it is scheduled. Only SIGTRAP is ignored (docs/safety.md).
#[test]
fn programs_find_what_they_would_find() {
    // In the manner of a service manager, and of somebody who wants to know.
    const ODD: &str = "umask 027; ulimit -n 200; ulimit -c 0; ulimit -S -s 4096
        exec nice -n 3 env --ignore-signal=PIPE,HUP,TTOU,34,40,64 --block-signal=USR2,CHLD,63 \
            ODD=a=b LD_LIBRARY_PATH=/nowhere GLIBC_TUNABLES= \"$@\" 4</dev/null";
    let program = built("conduct/origin.c");
    let found = |command: &[&str]| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", ODD, "sh"]).args(command).arg(&program);
        let output = shell.args(["one", ""]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let binary = gwp_race();
    let alone = found(&[]);
    let watched = found(&[binary.to_str().unwrap(), "run", "-q", "--"]);
    assert!(alone.contains("signal 13: 0x1\n"), "{alone}");
    let alone = alone.replace("signal 5: (nil)", "signal 5: 0x1");
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&watched), lines(&alone));
}
