//! What gwp-race can do with few rights, and what it says when it has too few.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use gwp_race_tests::{
    Configuration, Program, Report, Until, Watch, binary,
    chaos::{self, target::Target},
    children::{Guarded, Mark, status_field},
    compile, executable,
    luck::Luck,
    who::{self, NOBODY},
};
use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;

use crate::{
    catalogue,
    silence::{Quiet, must_be_caught, stay_silent},
};

/// How often a race may be missed.
const TRIES: u32 = 5;
/// How often each program's race is caught where its silence is compared with that.
const CATCHES_WITHOUT: u32 = 4;
/// What is said where there are no eBPF gates.
const WITHOUT_GATES: &str = "eBPF is not permitted here";

/// A directory in which an ordinary user can run gwp-race and a racy program.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        open(directory.path(), 0o777);
        let program = Program::new("races/many_threads.c");
        let program = compile::program(&program, Configuration::USUAL).unwrap();
        for (from, name) in [(binary::gwp_race(), "gwp-race"), (program, "racy")] {
            let to = directory.path().join(name);
            executable::copy(from, &to);
            open(&to, 0o755);
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// gwp-race as an ordinary user who has these capabilities.
    fn gwp_race(&self, capabilities: &[&str], arguments: &[&str]) -> Output {
        let mut command = ordinary_user(&self.path("gwp-race"), capabilities);
        command.args(arguments).output().unwrap()
    }

    /// Runs the racy program below gwp-race, and returns the output and the report.
    fn run(&self, capabilities: &[&str]) -> (Output, String) {
        let report = self.path("report");
        let _ = fs::remove_file(&report);
        let (report, racy) = (report.to_str().unwrap(), self.path("racy"));
        let aggressive = ["--max-overhead", "100%", "--sample-period", "1ms"];
        let mut arguments = vec!["run", "--format", "json", "--output", report];
        arguments.extend(aggressive);
        arguments.extend(["--", racy.to_str().unwrap(), "3", "2"]);
        let output = self.gwp_race(capabilities, &arguments);
        (output, fs::read_to_string(report).unwrap_or_default())
    }
}

/// A program of an ordinary user who has these capabilities.
fn ordinary_user(program: &Path, capabilities: &[&str]) -> Command {
    let mut command = who::ordinary_user(program, capabilities);
    command.stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Check that CAP_BPF and CAP_PERFMON are all that is needed for programs of one's own.
#[test]
fn two_capabilities_suffice() {
    let place = Place::new();
    for attempt in 1..=TRIES {
        let (output, report) = place.run(&["bpf", "perfmon"]);
        assert!(output.status.success(), "{}", said(&output));
        if let Some(race) = Report::read(&report).unwrap().races.first() {
            println!("caught on try {attempt}: {}", race.places());
            return;
        }
    }
    panic!("not caught in {TRIES} tries");
}

/// Check that with either of them missing, or both, programs of one's own are watched without eBPF,
/// that this is said once, with the command that gives the rights, and that `doctor` says so too.
#[test]
fn an_ordinary_user_needs_no_ebpf() {
    let place = Place::new();
    for capabilities in [&["bpf"][..], &["perfmon"], &[]] {
        let doctor = place.gwp_race(capabilities, &["doctor"]);
        let advice = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(doctor.status.success(), "{advice}");
        assert!(advice.contains("in user space"), "{advice}");
        assert!(advice.contains("setcap"), "{advice}");
        let caught = (1..=TRIES).any(|attempt| {
            let (output, report) = place.run(capabilities);
            let said = said(&output);
            assert!(output.status.success(), "{said}");
            assert_eq!(output.stdout, b"done\n");
            assert_eq!(said.matches(WITHOUT_GATES).count(), 1, "{said}");
            assert_eq!(said.matches("looked for in /proc").count(), 1, "{said}");
            assert!(said.contains("setcap"), "{said}");
            let report = Report::read(&report).unwrap();
            let race = report.races.first();
            println!(
                "{capabilities:?}, try {attempt}: {:?}",
                race.map(|race| race.places())
            );
            race.is_some()
        });
        assert!(caught, "{capabilities:?}: not caught in {TRIES} tries");
    }
}

/// Check that such a user can watch a running process of his own, and that it is then let alone.
#[test]
fn an_ordinary_user_attaches_without_ebpf() {
    let place = Place::new();
    let mut target = ordinary_user(&place.path("racy"), &[]);
    let mut target = Guarded::new(
        target
            .args(["300", "2"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let pid = target.pid().to_string();
    let report = place.path("report");
    let caught = (1..=TRIES).any(|attempt| {
        let _ = fs::remove_file(&report);
        let mut arguments = vec!["attach", "--duration", "5s", "--format", "json"];
        arguments.extend([
            "--max-overhead",
            "100%",
            "--sample-period",
            "1ms",
            "--output",
        ]);
        arguments.extend([report.to_str().unwrap(), &pid]);
        let output = place.gwp_race(&[], &arguments);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains(WITHOUT_GATES), "{}", said(&output));
        let races = Report::read(&fs::read_to_string(&report).unwrap())
            .unwrap()
            .races;
        println!("try {attempt}: {} races", races.len());
        !races.is_empty()
    });
    assert!(caught, "not caught in {TRIES} tries");
    assert_eq!(target.ended().unwrap(), None, "the target has ended");
    assert_eq!(
        status_field(target.pid(), "TracerPid").as_deref(),
        Some("0")
    );
}

/// Check that programs without a race stay silent although threads are stalled, and that the same ones
/// without what orders them are caught by a part of that.
#[test]
fn silence_holds_without_ebpf() {
    for source in [
        "silent/mutex.c",
        "silent/spinlock.c",
        "silent/memory_routines.c",
    ] {
        let watched = |program: &Program| {
            let watch = Watch::aggressive().without_rights();
            Quiet::new(program, Configuration::USUAL, watch)
        };
        let program = Program::new(source);
        let mut luck = Luck::new(source, catalogue::usual(&program));
        for _ in 0..CATCHES_WITHOUT {
            must_be_caught(&watched(&program.clone().broken()), &mut luck);
        }
        luck.judge().unwrap();
        for outcome in stay_silent(vec![watched(&program)], &luck) {
            assert!(outcome.stderr.contains(WITHOUT_GATES), "{outcome:?}");
            assert!(outcome.report.number("stalls") > 0.0, "{outcome:?}");
        }
    }
}

/// Check that the program's end is passed on.
#[test]
fn ends_pass_through_without_ebpf() {
    let code = |script: &str| {
        let watch = Watch::aggressive().without_rights();
        let outcome = watch.run(Path::new("/bin/sh"), &["-c", script], Until::End);
        outcome.unwrap().status.code()
    };
    assert_eq!(code("exit 7"), Some(7));
    assert_eq!(code("kill -TERM $$"), Some(128 + 15));
    assert_eq!(code("kill -SEGV $$"), Some(128 + 11));
    // The signal that stops threads, sent to a program that handles it.
    assert_eq!(code("trap 'exit 9' URG; kill -URG $$; sleep 1"), Some(9));
}

/// Check that the watchdog releases the program of a tracer that is stopped, although neither has
/// real-time priority.
#[test]
fn the_watchdog_works_without_ebpf() {
    let program = Program::new("races/many_threads.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let mark = Mark::default();
    let watch = Watch::aggressive().without_rights().marked(&mark);
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| watch.run(&program, &["12", "2"], Until::End));
        while !running.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(1500));
            if let Some(tracer) = mark.process("gwp-race-tracer") {
                let _ = kill(tracer, Signal::SIGSTOP);
            }
        }
        running.join().unwrap().unwrap()
    });
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout, "done\n");
    let releases = outcome.report.number("watchdog_releases");
    println!("{releases} releases");
    assert!(releases >= 2.0, "{outcome:?}");
}

/// Check that where perf events are not permitted either, the error says which call was refused and
/// where to look, and that the program was not started.
#[test]
fn too_few_rights_are_named() {
    let place = Place::new();
    let mut command = ordinary_user(&place.path("gwp-race"), &[]);
    refuse_perf_events(&mut command);
    let racy = place.path("racy");
    let run = ["run", "--", racy.to_str().unwrap(), "1", "2"];
    let output = command.args(run).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(
        said(&output).contains("perf_event_open"),
        "{}",
        said(&output)
    );
    assert!(
        said(&output).contains("gwp-race doctor"),
        "{}",
        said(&output)
    );
    assert_eq!(output.stdout, b"", "the program ran");

    let mut command = ordinary_user(&place.path("gwp-race"), &[]);
    refuse_perf_events(&mut command);
    let doctor = command.arg("doctor").output().unwrap();
    let advice = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(!doctor.status.success(), "{advice}");
    assert!(advice.contains("FAIL  clock event"), "{advice}");
    assert!(advice.contains("setcap"), "{advice}");
}

/// As a kernel with `perf_event_paranoid` at 3 or above does, which not every kernel knows.
fn refuse_perf_events(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    // seccomp_data: the number of the system call stands first. (linux/seccomp.h, linux/filter.h)
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;
    let mut filter = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, libc::SYS_perf_event_open as u32),
        step(RETURN, 0, 0, refusal),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: only system calls are made between fork and exec, on memory of the closure.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog {
                len: filter.len() as u16,
                filter: filter.as_mut_ptr(),
            };
            let result = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program);
            if result == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
}

/// Check that a program which its file gives another user is told of: it runs, without that user's
/// rights.
#[test]
fn lost_rights_are_told_of() {
    let place = Place::new();
    let id = place.path("id");
    executable::copy("/usr/bin/id", &id);
    fs::set_permissions(&id, fs::Permissions::from_mode(0o4755)).unwrap();
    let words = ["run", "--", id.to_str().unwrap(), "-u"];
    let output = place.gwp_race(&[], &words);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("is set-user-id"),
        "{}",
        said(&output)
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), NOBODY);
    // With the right to trace others, it gets them.
    let output = place.gwp_race(&["bpf", "perfmon", "sys_ptrace"], &words);
    assert!(
        !said(&output).contains("is set-user-id"),
        "{}",
        said(&output)
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0");
}

/// Check that these capabilities are no way to watch or disturb the processes of others, nor is any
/// command: nothing is seized, nothing armed, nothing stands still, and nothing is told of it.
#[test]
fn processes_of_others_are_out_of_reach() {
    let place = Place::new();
    let mut target = Target::start(&chaos::target::program().unwrap(), 2).unwrap();
    let pid = target.process.pid();
    for capabilities in [&["bpf", "perfmon"][..], &[]] {
        let id = pid.to_string();
        let report = place.path("foreign");
        let report = report.to_str().unwrap();
        let mut attach = vec!["attach", "--duration", "1s", "-o", report];
        attach.push(&id);
        let output = place.gwp_race(capabilities, &attach);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        if !capabilities.is_empty() {
            let refused = said.contains("not allowed") && said.contains("setcap");
            assert!(refused, "{said}");
        }
        assert_eq!(fs::read_to_string(report).unwrap_or_default(), "");
        let inspect = place.gwp_race(capabilities, &["inspect", &id]);
        assert_eq!(inspect.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&inspect.stdout), "");
        // Not traced, not stopped, all breakpoints free, all threads at work.
        assert_eq!(target.board.examine(pid).unwrap(), None);
    }
    target.end().unwrap();
}

/// Check that a program finds the variables that the dynamic loader drops from gwp-race's environment where that has its rights from its file.
#[test]
fn file_capabilities_drop_no_variables() {
    const KEPT: [&str; 4] = [
        "LD_LIBRARY_PATH=/nowhere",
        "TMPDIR=/tmp",
        "GLIBC_TUNABLES=glibc.malloc.check=0",
        "ORDINARY=a=b",
    ];
    let place = Place::new();
    let binary = place.path("gwp-race");
    let mut setcap = Command::new("setcap");
    setcap.arg("cap_bpf,cap_perfmon=ep").arg(&binary);
    assert!(setcap.status().unwrap().success());
    let user = |words: &[&Path]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        let variables = ["env", "-i"].into_iter().chain(KEPT);
        let output = command.args(variables).args(words).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let env = Path::new("/usr/bin/env");
    let watched = user(&[&binary, "run".as_ref(), "-q".as_ref(), "--".as_ref(), env]);
    assert_eq!(watched, user(&[env]));
    assert_eq!(watched.lines().collect::<Vec<_>>(), KEPT);
}
