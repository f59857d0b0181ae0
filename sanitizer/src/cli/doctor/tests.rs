//! The doctor's judgement of real programs and processes.

use std::sync::Arc;

use super::*;
use crate::tracee::testing::{Child, compile};

const PAUSE: &str = "#include <stdio.h>\n#include <unistd.h>\n\
    int main() { puts(\"ready\"); fflush(stdout); pause(); }";
const METADATA: &str = "-fexperimental-sanitize-metadata=atomics";

fn find<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    checks
        .iter()
        .find(|check| check.name == name)
        .unwrap_or_else(|| panic!("{name}: {checks:?}"))
}

fn fails(checks: &[Check]) -> Vec<&str> {
    checks
        .iter()
        .filter(|check| check.status == Status::Fail)
        .map(|check| check.name)
        .collect()
}

/// Check programs with and without metadata and debug information.
#[test]
fn files() {
    let dir = tempfile::tempdir().unwrap();
    let good = file::checks(
        &compile(dir.path(), "good", PAUSE, &[METADATA, "-g"]),
        &Arc::default(),
    );
    assert!(
        good.iter().all(|check| check.status == Status::Ok),
        "{good:?}"
    );
    assert!(
        find(&good, "metadata")
            .found
            .starts_with("1 function analyzed"),
        "{good:?}"
    );

    let bare = file::checks(
        &compile(dir.path(), "bare", PAUSE, &["-Wl,--build-id=none"]),
        &Arc::default(),
    );
    assert_eq!(fails(&bare), ["metadata"]);
    assert_eq!(find(&bare, "debug information").status, Status::Warn);
    let mend = find(&bare, "metadata").mend.as_deref().unwrap();
    assert!(mend.contains(METADATA), "{mend}");

    let stripped = file::checks(
        &compile(dir.path(), "stripped", PAUSE, &[METADATA, "-s"]),
        &Arc::default(),
    );
    assert_eq!(find(&stripped, "metadata").status, Status::Ok);
    assert_eq!(find(&stripped, "debug information").status, Status::Warn);
}

/// Check that debug information in a file of its own counts only while that file is there.
#[test]
fn separate_debug_information() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "program", PAUSE, &[METADATA, "-g"]);
    let debug = dir.path().join("program.debug");
    let objcopy = |args: &[&std::ffi::OsStr]| {
        let status = std::process::Command::new("llvm-objcopy-22")
            .args(args)
            .status()
            .unwrap();
        assert!(status.success());
    };
    objcopy(&[
        "--only-keep-debug".as_ref(),
        program.as_ref(),
        debug.as_ref(),
    ]);
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    objcopy(&["--strip-debug".as_ref(), &link, program.as_ref()]);
    let lines = || {
        find(
            &file::checks(&program, &Arc::default()),
            "debug information",
        )
        .status
    };
    assert_eq!(lines(), Status::Ok);
    std::fs::remove_file(&debug).unwrap();
    assert_eq!(lines(), Status::Warn);
}

/// Check that what is no program at all is said to be so.
#[test]
fn no_programs() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(
        &script,
        "#!/bin/sh\necho hello, world, this is a script of some length\n",
    )
    .unwrap();
    let checks = file::checks(&script, &Arc::default());
    assert_eq!(fails(&checks), ["program"]);
    assert!(
        checks[0].mend.as_deref().unwrap().contains("interpreter"),
        "{checks:?}"
    );
    assert_eq!(
        fails(&file::checks(&dir.path().join("missing"), &Arc::default())),
        ["program"]
    );
    assert_eq!(
        fails(&file::checks(dir.path(), &Arc::default())),
        ["program"]
    );
}

/// Check running processes with and without metadata, and that signals are looked at.
#[test]
fn processes() {
    let child = Child::run(PAUSE, &[METADATA, "-g"]);
    child.wait_for_line("ready");
    let checks = process::checks(child.pid(), &Arc::default());
    assert_eq!(fails(&checks), [""; 0], "{checks:?}");
    let found = &find(&checks, "metadata").found;
    assert!(found.contains("program (1 function, "), "{found}");
    assert!(
        find(&checks, "signals")
            .found
            .contains("threads stop by SIGURG"),
        "{checks:?}"
    );

    let bare = Child::run(PAUSE, &[]);
    bare.wait_for_line("ready");
    assert_eq!(
        fails(&process::checks(bare.pid(), &Arc::default())),
        ["metadata"]
    );

    let source = "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        void handler(int s) {}\n\
        int main() { signal(SIGURG, handler); sigset_t set; sigemptyset(&set);\n\
          sigaddset(&set, SIGWINCH); sigprocmask(SIG_BLOCK, &set, 0);\n\
          puts(\"ready\"); fflush(stdout); getchar(); signal(SIGWINCH, handler);\n\
          puts(\"ready\"); fflush(stdout); getchar(); signal(SIGTRAP, SIG_IGN);\n\
          puts(\"ready\"); fflush(stdout); pause(); }";
    let mut child = Child::run(source, &[METADATA]);
    child.wait_for_line("ready");
    let checks = process::checks(child.pid(), &Arc::default());
    assert!(
        find(&checks, "signals")
            .found
            .contains("threads stop by SIGWINCH"),
        "{checks:?}"
    );
    assert!(
        find(&checks, "blocked signals")
            .found
            .starts_with("all of 1 thread block"),
        "{checks:?}"
    );
    assert_eq!(fails(&checks), ["blocked signals"]);
    child.send_line("");
    child.wait_for_line("ready");
    assert_eq!(
        fails(&process::checks(child.pid(), &Arc::default())),
        ["signals"]
    );
    child.send_line("");
    child.wait_for_line("ready");
    let checks = process::checks(child.pid(), &Arc::default());
    assert_eq!(fails(&checks), [""; 0], "{checks:?}");
}

/// Check that a process which is traced already is refused, and one that is gone.
#[test]
fn traced_and_gone() {
    let mut child = Child::run(PAUSE, &[METADATA]);
    child.wait_for_line("ready");
    nix::sys::ptrace::seize(child.pid(), nix::sys::ptrace::Options::empty()).unwrap();
    let checks = process::checks(child.pid(), &Arc::default());
    assert_eq!(fails(&checks), ["traced by"]);
    nix::sys::signal::kill(child.pid(), nix::sys::signal::Signal::SIGKILL).unwrap();
    child.reap();
    assert_eq!(
        fails(&process::checks(child.pid(), &Arc::default())),
        ["process"]
    );
}

/// Check how a subject is understood.
#[test]
fn subjects() {
    assert_eq!(
        Subject::parse("17").unwrap(),
        Subject::Process(Pid::from_raw(17))
    );
    assert_eq!(
        Subject::parse("./17").unwrap(),
        Subject::File("./17".into())
    );
    assert!(matches!(Subject::parse("sh").unwrap(), Subject::File(path) if path.is_absolute()));
    let error = Subject::parse("no-such-program-anywhere")
        .unwrap_err()
        .to_string();
    assert!(error.contains("pgrep"), "{error}");
    assert!(Subject::parse("0").is_err());
}

/// Check both forms of the output.
#[test]
fn output() {
    let checks = [
        Check::ok("one", "fine"),
        Check::warn("two", "so so", "do this"),
        Check::fail("three", "bad", "do that"),
    ];
    let text = |checks: &[Check]| {
        let mut out = Vec::new();
        print(&mut out, checks).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        text(&checks),
        "ok    one: fine\nwarn  two: so so\n      -> do this\nFAIL  three: bad\n      -> do that\n\
         Races cannot be caught here: 1 problem above to mend."
    );
    assert!(text(&checks[..2]).ends_with("Races can be caught here; 1 warning above."));
    assert!(text(&checks[..1]).ends_with("Races can be caught here."));
    let json = serde_json::to_value(&checks[1]).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"name": "two", "status": "warn", "found": "so so", "mend": "do this"})
    );
}
