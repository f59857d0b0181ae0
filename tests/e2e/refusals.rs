//! What gwp-race cannot watch it refuses with a reason, and leaves alone.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use gwp_race_tests::{Configuration, Program, binary, children::Guarded, compile, executable};
use nix::{
    sys::{
        ptrace,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// How long the end may take.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

fn attach(pid: Pid) -> Output {
    attach_to(&pid.to_string())
}

/// Attaches to whoever is called so.
fn attach_to(whom: &str) -> Output {
    let mut command = Command::new(binary::gwp_race());
    command.args(["attach", "--duration", "1s", whom]);
    command.output().unwrap()
}

/// A program that waits, in a file of that name.
fn waiting(directory: &Path, name: &str) -> Guarded {
    let program = directory.join(name);
    if !program.exists() {
        executable::copy("/bin/sleep", &program);
    }
    let mut command = Command::new(program);
    Guarded::new(command.arg("600").spawn().unwrap())
}

fn assert_refused(output: &Output, reason: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(reason), "{said}");
    let mut lines = said.lines();
    assert!(
        lines.any(|line| line.starts_with("gwp-race: error: ")),
        "{said}"
    );
}

/// What this process is called.
fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    name.trim_end().to_owned()
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
    assert_refused(
        &attach(target.pid()),
        &format!("is traced by {} (process {})", own_name(), Pid::this()),
    );
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

/// Check that a process is attached to by its name where that is the name of one alone, that several are listed with their ids, and that a name which nobody has is told.
#[test]
fn processes_have_names() {
    let scratch = tempfile::tempdir().unwrap();
    let name = format!("gwp-named-{}", std::process::id());
    let none = attach_to(&name);
    assert_refused(
        &none,
        &format!("no process is called {name}; give the id of one"),
    );
    let first = waiting(scratch.path(), &name);
    let output = attach_to(&name);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let expected = format!("attaching to process {} (", first.pid());
    assert!(said.contains(&expected), "{said}");
    let second = waiting(scratch.path(), &name);
    let several = attach_to(&name);
    assert_refused(&several, &format!("2 processes are called {name}; "));
    let said = String::from_utf8_lossy(&several.stderr);
    for pid in [first.pid(), second.pid()] {
        let listed = format!("\n    {pid} {}", scratch.path().join(&name).display());
        assert!(said.contains(&listed), "{said}");
    }
    assert!(!said.contains("attaching"), "{said}");
    let folder = attach_to("./server");
    assert_eq!(folder.status.code(), Some(2));
    assert_refused(&folder, "its name without folders");
}

/// Check that a thread is told as one, with the process that it is of.
#[test]
fn threads_are_no_processes() {
    let mut child = Guarded::new(
        Command::new(binary::gwp_race())
            .args(["run", "-q", "--", "sleep", "600"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap(),
    );
    // Its reports are written by a thread of its own.
    let threads = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.pid())).unwrap();
        let names = tasks.map(|task| task.unwrap().file_name().to_string_lossy().into_owned());
        let ids = names.map(|name| Pid::from_raw(name.parse().unwrap()));
        ids.filter(|&tid| tid != child.pid()).collect::<Vec<_>>()
    };
    while threads().is_empty() {
        std::thread::yield_now();
    }
    let thread = threads()[0];
    let process = child.pid();
    assert_refused(
        &attach(thread),
        &format!(
            "{thread} is a thread of process {process}; watch that: gwp-race attach {process}"
        ),
    );
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).unwrap();
    child.wait(LIMIT).unwrap();
}

/// Check that a process which is watched already is refused with the gwp-race that watches it, and that this one is not disturbed.
#[test]
fn another_gwp_race_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let target = waiting(scratch.path(), "gwp-watched");
    let messages = scratch.path().join("messages");
    let mut command = Command::new(binary::gwp_race());
    command.args(["attach", "-v", &target.pid().to_string()]);
    command.stdin(Stdio::null());
    command.stderr(std::fs::File::create(&messages).unwrap());
    let mut watching = Guarded::new(command.spawn().unwrap());
    let is_traced = || {
        let tracer = gwp_race_tests::children::status_field(target.pid(), "TracerPid");
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    };
    while !is_traced() {
        assert_eq!(watching.child().try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let refused = attach(target.pid());
    let (pid, other) = (target.pid(), watching.pid());
    assert_refused(
        &refused,
        &format!("another gwp-race (process {other}) watches process {pid}"),
    );
    assert!(is_traced());
    nix::sys::signal::kill(other, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(watching.wait(LIMIT).unwrap().success());
}

/// Check that the journal of systemd is told the levels of messages, and nobody else is.
#[test]
fn levels_for_the_journal() {
    use std::os::unix::fs::MetadataExt as _;
    let file = tempfile::NamedTempFile::new().unwrap();
    let about = file.as_file().metadata().unwrap();
    let said = |inode| {
        file.as_file().set_len(0).unwrap();
        let mut command = Command::new(binary::gwp_race());
        command.args([
            "races",
            "list",
            "--store",
            "sqlite:/no/such/folder/races.db",
        ]);
        command.env("JOURNAL_STREAM", format!("{}:{inode}", about.dev()));
        command.stderr(file.reopen().unwrap());
        assert!(!command.status().unwrap().success());
        std::fs::read_to_string(file.path()).unwrap()
    };
    let [journal, other] = [about.ino(), about.ino() + 1].map(said);
    assert!(journal.starts_with("<3>gwp-race: error: "), "{journal}");
    assert!(other.starts_with("gwp-race: error: "), "{other}");
}
