//! What is recorded of real programs: the fixtures of the end-to-end tests, built with the recorder.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{reading, recorded::Recorded};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures")
}

/// Runs a command that must succeed.
fn succeed(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What a fixture did in a twentieth of a second.
fn recorded(fixture: &str, flags: &[&str]) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let mut clang = Command::new("clang-22");
    clang.args([
        "-O2",
        "-g",
        "-w",
        "-pthread",
        "-mllvm",
        "-enable-tail-merge=0",
    ]);
    clang
        .args(["-fsanitize=thread", "-fno-sanitize-link-runtime"])
        .args(flags)
        .arg("-o")
        .arg(&program);
    // The recorder itself is not to be recorded.
    let recorder = folder.path().join("recorder.o");
    succeed(
        Command::new("clang-22")
            .args(["-O2", "-w", "-c", "-o"])
            .args([&recorder, &fixtures().join("trace/recorder.c")]),
    );
    succeed(clang.arg(fixtures().join(fixture)).arg(&recorder));
    succeed(
        Command::new(&program)
            .arg("0.05")
            .env("TRACE_FOLDER", folder.path())
            .env("TRACE_MEGABYTES", "8"),
    );
    assert!(folder.path().join("complete").exists(), "{fixture}");
    reading::recorded(folder.path(), &program, 1.0)
        .unwrap_or_else(|error| panic!("{fixture}: {error:#}"))
}

/// Check that in a program without races none is found, whatever orders its threads; and that its broken twin has one.
#[test]
fn silent_programs() {
    for fixture in [
        "mutex",
        "rwlock",
        "condition",
        "semaphore",
        "barrier",
        "publication",
        "spinlock",
        "refcount",
        "double_checked",
        "allocator",
        "hand_over",
        "read_only",
        "neighbours",
        "users",
        "thread_local",
    ] {
        let source = format!("silent/{fixture}.c");
        let silent = recorded(&source, &[]);
        let lines: Vec<_> = silent
            .races
            .iter()
            .map(|race| silent.lines_of(race.sites))
            .collect();
        assert!(lines.is_empty(), "{fixture}: {lines:?}");
        assert!(!silent.events.is_empty(), "{fixture}");
    }
    for fixture in [
        "mutex",
        "rwlock",
        "condition",
        "semaphore",
        "barrier",
        "publication",
        "spinlock",
        "refcount",
    ] {
        let broken = recorded(&format!("silent/{fixture}.c"), &["-DBROKEN"]);
        assert!(!broken.races.is_empty(), "{fixture}");
    }
}

/// Check that the races of programs are found, all of them, at the lines where they are.
#[test]
fn racing_programs() {
    for (fixture, expected) in [
        ("write_write", &[[4, 5]][..]),
        ("read_write", &[[4, 5]]),
        ("heap", &[[4, 4]]),
        ("field", &[[11, 11]]),
        ("byte_in_word", &[[7, 8]]),
        ("joined", &[[4, 4]]),
        ("memset_racing", &[[5, 7]]),
        ("brief_threads", &[[7, 7]]),
        ("plain_atomic", &[[4, 5]]),
    ] {
        let racing = recorded(&format!("races/{fixture}.c"), &[]);
        let mut lines: Vec<_> = racing
            .races
            .iter()
            .map(|race| racing.lines_of(race.sites))
            .collect();
        lines.sort_unstable();
        lines.dedup();
        let expected: Vec<_> = (expected.iter())
            .map(|lines| lines.map(|line| format!("{fixture}.c:{line}")))
            .collect();
        assert_eq!(lines, expected);
    }
}
