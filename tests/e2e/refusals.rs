//! What gwp-race cannot watch it refuses with a reason, and leaves alone.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use gwp_race_tests::{Configuration, Program, binary, children::Guarded, compile};
use nix::{
    sys::{
        ptrace,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

fn attach(pid: Pid) -> Output {
    let mut command = Command::new(binary::gwp_race());
    command.args(["attach", "--duration", "1s", &pid.to_string()]);
    command.output().unwrap()
}

fn assert_refused(output: &Output, reason: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(reason), "{said}");
}

/// Check that a process that is traced already is not taken from its tracer, nor disturbed.
#[test]
fn a_traced_process_is_refused() {
    let program = Program::new("races/read_write.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let mut command = Command::new(program);
    command.arg("3").stdout(Stdio::null());
    let mut target = Guarded::new(command.spawn().unwrap());
    ptrace::seize(target.pid(), ptrace::Options::PTRACE_O_TRACEEXIT).unwrap();
    assert_refused(&attach(target.pid()), "it may be traced by a debugger");
    // Its tracer is still told of its end.
    let exit = waitpid(target.pid(), Some(WaitPidFlag::__WALL)).unwrap();
    assert!(matches!(exit, WaitStatus::PtraceEvent(..)), "{exit:?}");
    ptrace::cont(target.pid(), None).unwrap();
    assert!(target.child().wait().unwrap().success());
}

/// Where the kernel executes 32-bit programs, builds one.
fn foreign_program(directory: &Path) -> Option<PathBuf> {
    let program = directory.join("foreign");
    let mut command = Command::new("clang-22");
    command.args(["-m32", "-nostdlib", "-static", "-w", "-o"]);
    command.arg(&program);
    command.arg(binary::fixtures().join("conformance/foreign.c"));
    assert!(command.status().unwrap().success());
    let alone = Command::new(&program).stdin(Stdio::null()).status();
    match alone {
        Ok(status) => assert_eq!(status.code(), Some(9)),
        Err(error) => {
            println!("skipped: this kernel executes no 32-bit programs: {error}");
            return None;
        }
    }
    Some(program)
}

/// Check that a 32-bit program is refused by `attach`, and runs unwatched under `run`.
#[test]
fn a_32_bit_program_is_refused() {
    const REASON: &str = "is not a 64-bit x86 program";
    let scratch = tempfile::tempdir().unwrap();
    let Some(program) = foreign_program(scratch.path()) else {
        return;
    };
    let mut command = Command::new(binary::gwp_race());
    command.args(["run", "--"]).arg(&program);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(9), "{said}");
    assert!(said.contains(REASON), "{said}");

    let mut command = Command::new(&program);
    let mut target = Guarded::new(command.stdin(Stdio::piped()).spawn().unwrap());
    assert_refused(&attach(target.pid()), REASON);
    let mut stdin = target.child().stdin.take().unwrap();
    stdin.write_all(b"\n").unwrap();
    assert_eq!(target.child().wait().unwrap().code(), Some(9));
}

/// Check that what has no program is told apart from what does not exist.
#[test]
fn who_executes_nothing_is_refused() {
    let mut ended = Guarded::new(Command::new("true").spawn().unwrap());
    let state = || gwp_race_tests::children::status_field(ended.pid(), "State");
    while !state().is_some_and(|state| state.starts_with('Z')) {
        std::thread::yield_now();
    }
    assert_refused(&attach(ended.pid()), "is a zombie");
    assert!(ended.child().wait().unwrap().success());
    assert_refused(&attach(ended.pid()), "does not exist");
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        assert_refused(&attach(Pid::from_raw(2)), "is a thread of the kernel");
    } else {
        println!("this pid namespace shows no thread of the kernel");
    }
}
