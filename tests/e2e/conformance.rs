//! Programs behave under gwp-race, started or attached to, exactly as by themselves: they print the
//! same and end the same way.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Program, Watch, binary, children::Guarded, compile, executable,
};

/// How long a program may take; the longest needs about ten seconds by itself.
const LIMIT: Duration = Duration::from_secs(120);
/// How long gwp-race may take to catch the race that each program has, by which one knows that it
/// is at work.
const STARTING: Duration = Duration::from_secs(60);

/// Everything of a program that can be seen.
#[derive(Debug, PartialEq, Eq)]
struct Behaviour {
    stdout: String,
    /// As a shell tells it, and as gwp-race passes it on: 128 and the number of a signal.
    code: i32,
}

/// Ways to be watched.
#[derive(Clone, Copy, Debug)]
enum Way {
    Alone,
    Run,
    Attach,
}

struct Case {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Case {
    fn new(source: &'static str) -> Self {
        let program = Program::new(source);
        Self {
            program: compile::program(&program, Configuration::USUAL).unwrap(),
            arguments: Vec::new(),
        }
    }

    fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Runs the program in a directory of its own, and says `go` when it is watched.
    fn behaviour(&self, way: Way) -> Behaviour {
        let scratch = tempfile::tempdir().unwrap();
        let report = scratch.path().join("report");
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut command = match way {
            Way::Run => Watch::aggressive().run_command(&self.program, &arguments, &report),
            Way::Alone | Way::Attach => {
                let mut command = Command::new(&self.program);
                command.args(&arguments).process_group(0);
                command
            }
        };
        let output = scratch.path().join("stdout");
        command
            .current_dir(scratch.path())
            .stdin(Stdio::piped())
            .stdout(File::create(&output).unwrap());
        let mut started = Guarded::new(command.spawn().unwrap());
        let mut attached = matches!(way, Way::Attach).then(|| {
            let mut command = Watch::aggressive().attach_command(started.pid(), &report);
            Guarded::new(command.stdin(Stdio::null()).spawn().unwrap())
        });
        if !matches!(way, Way::Alone) {
            await_race(&report, attached.as_mut().unwrap_or(&mut started));
        }
        let mut stdin = started.child().stdin.take().unwrap();
        stdin.write_all(b"\n").unwrap();
        let status = started.wait(LIMIT).unwrap_or_else(|error| {
            let printed = fs::read_to_string(&output).unwrap_or_default();
            panic!(
                "{} {way:?}: {error:#}; it printed:\n{printed}",
                self.program.display()
            )
        });
        if let Some(mut attached) = attached {
            let end = attached.wait(LIMIT).unwrap();
            assert!(end.success(), "gwp-race attach has ended with {end}");
        }
        Behaviour {
            stdout: fs::read_to_string(&output).unwrap(),
            code: code(status),
        }
    }

    /// Checks that the program behaves as it does alone, and returns what it does.
    fn conforms(&self) -> Behaviour {
        self.conforms_in(&[Way::Run, Way::Attach])
    }

    fn conforms_in(&self, ways: &[Way]) -> Behaviour {
        let alone = self.behaviour(Way::Alone);
        print!("{}", alone.stdout);
        for &way in ways {
            assert_eq!(
                self.behaviour(way),
                alone,
                "{} {way:?}",
                self.program.display()
            );
        }
        alone
    }
}

fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| Some(128 + status.signal()?))
        .unwrap()
}

fn await_race(report: &Path, gwp_race: &mut Guarded) {
    let start = Instant::now();
    while !fs::metadata(report).is_ok_and(|file| file.len() > 0) {
        assert_eq!(gwp_race.ended().unwrap(), None, "gwp-race has ended");
        assert!(start.elapsed() < STARTING, "gwp-race catches no race");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Check a program that ends with this code and, if it works, prints this.
fn conforms(case: &Case, stdout: &str, code: i32) {
    let behaviour = case.conforms();
    assert_eq!((behaviour.stdout.as_str(), behaviour.code), (stdout, code));
}

/// Check that faults reach the handlers of the program, with what they tell, on its signal stack.
#[test]
fn faults_are_handled() {
    let printed = "SIGSEGV: 40 mended, 0 left, 0 wrong\nSIGBUS: 0 mended, 40 left, 0 wrong\n\
                   SIGFPE: 0 mended, 40 left, 0 wrong\nSIGILL: 0 mended, 40 left, 0 wrong\n";
    conforms(&Case::new("conformance/faults.c"), printed, 5);
}

/// Check that all the traps that a program raises for its own handler arrive.
#[test]
fn traps_are_handled() {
    let printed = "int3 all, raise all, queue all, step all, 0 wrong\n";
    conforms(&Case::new("conformance/traps.c"), printed, 0);
}

/// Check that a breakpoint instruction kills a program that does not handle it, and that under
/// `attach` so does a SIGTRAP that somebody sends. Under `run` the latter is ignored:
/// docs/safety.md says why.
#[test]
fn traps_kill() {
    let case = |way: &str| Case::new("conformance/traps.c").argument(way);
    for instruction in ["int3", "int1"] {
        conforms(&case(instruction), "", 128 + 5);
    }
    for sent in ["raise", "kill"] {
        let case = case(sent);
        assert_eq!(case.conforms_in(&[Way::Attach]).code, 128 + 5);
        let ignored = case.behaviour(Way::Run);
        assert_eq!((ignored.stdout.as_str(), ignored.code), ("alive\n", 1));
    }
}

/// Check that fast timers expire as often as they should.
#[test]
fn timers_expire() {
    let printed = "SIGPROF plausible\nSIGALRM plausible\ntimer plausible\n";
    conforms(&Case::new("conformance/timers.c"), printed, 0);
}

/// Check that storms of queued signals arrive, in order.
#[test]
fn queued_signals_arrive() {
    let printed = "handler: 15000 arrived, 0 out of order\n\
                   sigtimedwait: 15000 arrived, 0 out of order\n\
                   signalfd: 15000 arrived, 0 out of order\n0 interrupted\n";
    conforms(&Case::new("conformance/queued.c"), printed, 0);
}

/// Check that blocking calls are interrupted by the program's own signals only.
#[test]
fn blocking_calls_are_not_interrupted() {
    let calls = [
        "epoll_wait",
        "sigtimedwait",
        "semtimedop",
        "nanosleep",
        "futex",
        "poll",
        "accept",
        "select",
        "recv",
    ];
    let mut printed: String = calls
        .iter()
        .map(|call| format!("{call}: waited, 0 interrupted, 0 failed\n"))
        .collect();
    for way in ["restarted", "not restarted"] {
        printed += &format!("{way}: 200 handled, 20 bytes, interruptions as many\n");
    }
    conforms(&Case::new("conformance/blocking.c"), &printed, 0);
}

/// Check that job control stops and continues a watched child, and tells its parent.
#[test]
fn job_control_works() {
    let printed = "0 moved while stopped, 0 stuck, exited 41\n";
    conforms(&Case::new("conformance/jobs.c"), printed, 0);
}

/// Check that a program's children are its own.
#[test]
fn children_are_waited_for() {
    let printed = "300 children, 0 failures, as many SIGCHLDs, 0 with wrong codes\n\
                   waitid 0: code 2, status 9\nignored: -1, No child processes\n";
    conforms(&Case::new("conformance/children.c"), printed, 0);
}

/// Check that threads can be created and joined fast.
#[test]
fn threads_come_and_go() {
    let seconds = if binary::full() { 20 } else { 3 };
    let case = Case::new("conformance/threads.c").argument(seconds.to_string());
    let printed = format!("{0} made, {0} ran, 0 failures\n", seconds * 1000);
    conforms(&case, &printed, 0);
}

/// Check that a program lives on after its first thread.
#[test]
fn the_first_thread_may_end() {
    conforms(
        &Case::new("conformance/leader.c"),
        "300 made, 300 handled\n",
        6,
    );
}

/// Check that any thread can execute another program.
#[test]
fn any_thread_executes() {
    let case = Case::new("conformance/exec.c").argument("eightexe");
    let printed: String = (1..=8)
        .rev()
        .map(|generation| format!("generation {generation}, 0\n"))
        .collect();
    conforms(&case, &printed, 7);
}

/// Check that a set-user-id program gets its user, since the tracer may trace that one, too.
#[test]
fn set_user_id_programs_work() {
    let case = Case::new("conformance/setuid.c");
    let scratch = tempfile::tempdir().unwrap();
    let copy = scratch.path().join("copy");
    executable::copy(&case.program, &copy);
    for (path, mode) in [(scratch.path(), 0o755), (&copy, 0o4755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let case = case.argument(copy.display().to_string());
    conforms(&case, "user 65534, effective 0\n", 4);
}

/// Check that a program can be the debugger of its child.
#[test]
fn a_program_may_trace_its_child() {
    let printed = "20 stops, exited 8\n".repeat(3);
    conforms(&Case::new("conformance/debugger.c"), &printed, 0);
}

/// Check that a crash handler finds the process untraced, and can look at all threads.
#[test]
fn crash_handlers_work() {
    let printed = "looked at 3 of 3 threads\nsignal 11 at 0x10, handler exited 0\n";
    conforms(&Case::new("conformance/crash_handler.c"), printed, 128 + 11);
}

/// Check that crashes are told to the parent as what they are, cores included.
#[test]
fn crashes_leave_cores() {
    let case = Case::new("conformance/core.c");
    // Where a core goes, and whether there is one, depends on the machine.
    assert_eq!(case.conforms().code, 0);
}

/// Check that a seccomp filter's errors, traps and kills come through.
#[test]
fn seccomp_filters_work() {
    let printed = "filter 0\n1000 denied, 50 trapped, 0 wrong\n";
    conforms(&Case::new("conformance/seccomp.c"), printed, 128 + 31);
}

/// Check that a process that may not be dumped stays so.
#[test]
fn undumpable_processes_work() {
    let printed = "dumpable 0, no new privileges 0, seccomp 0\n";
    conforms(&Case::new("conformance/undumpable.c"), printed, 0);
}

/// Check that nothing of an io_uring is lost or interrupted.
#[test]
fn io_uring_works() {
    let behaviour = Case::new("conformance/uring.c").conforms();
    let skipped = behaviour.stdout.starts_with("skipped");
    let done = "1500 came, 0 wrong, 0 interrupted, sum 1124250\n";
    assert!(skipped || behaviour.stdout == done, "{behaviour:?}");
}

/// Check that counters kept by restartable sequences are exact.
#[test]
fn restartable_sequences_work() {
    let behaviour = Case::new("conformance/rseq.c").conforms();
    let skipped = behaviour.stdout.starts_with("skipped");
    assert!(
        skipped || behaviour.stdout == "12000000 counted\n",
        "{behaviour:?}"
    );
}

/// Check that a program gets the hardware breakpoints that it asks for, and all their hits.
#[test]
fn own_breakpoints_count() {
    conforms(
        &Case::new("conformance/own_breakpoints.c"),
        "all hits\nall hits\n",
        0,
    );
}
