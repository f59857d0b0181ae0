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

/// How much of a fixture is recorded, one after the other, until it shows a race: where the machine is busy, one thread may do a good part of it
/// before another one does anything.
const MEGABYTES: [u32; 4] = [2, 8, 32, 128];

/// A fixture with the recorder.
struct Built {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Built {
    fn new(fixture: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [program, recorder] = ["program", "recorder.o"].map(|file| folder.path().join(file));
        // The recorder itself is not to be recorded.
        let mut clang = Command::new("clang-22");
        clang.args(["-O2", "-w", "-c", "-o"]);
        succeed(clang.args([&recorder, &fixtures().join("trace/recorder.c")]));
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
            .args(flags);
        succeed(
            clang
                .arg("-o")
                .args([&program, &fixtures().join(fixture), &recorder]),
        );
        Self { folder, program }
    }

    /// What it did in the beginning.
    fn recorded(&self, megabytes: u32) -> Recorded {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap();
        let mut command = Command::new(&self.program);
        command.arg("0.1").env("TRACE_FOLDER", folder.path());
        succeed(command.env("TRACE_MEGABYTES", megabytes.to_string()));
        assert!(folder.path().join("complete").exists());
        reading::recorded(folder.path(), &self.program, 1.0)
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// As much of it as shows a race, and how much that is.
    fn racing(&self) -> Option<(u32, Recorded)> {
        let recorded = MEGABYTES
            .iter()
            .map(|megabytes| (*megabytes, self.recorded(*megabytes)));
        recorded
            .into_iter()
            .find(|(_, recorded)| !recorded.races.is_empty())
    }
}

fn lines(recorded: &Recorded) -> Vec<[&str; 2]> {
    let mut lines: Vec<_> = recorded
        .races
        .iter()
        .map(|race| recorded.lines_of(race.sites))
        .collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Check that in a program without races none is found, whatever orders its threads, in as much of it as shows one where that is taken away.
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
    ] {
        let source = format!("silent/{fixture}.c");
        let broken = Built::new(&source, &["-DBROKEN"]).racing();
        let (megabytes, _) = broken.unwrap_or_else(|| panic!("{fixture} shows no race"));
        let silent = Built::new(&source, &[]).recorded(megabytes);
        assert!(silent.races.is_empty(), "{fixture}: {:?}", lines(&silent));
        assert!(!silent.events.is_empty(), "{fixture}");
    }
}

/// Check that the races of programs are found, all of them, at the lines where they are.
#[test]
fn racing_programs() {
    for (fixture, expected) in [
        ("write_write", [4, 5]),
        ("read_write", [4, 5]),
        ("heap", [4, 4]),
        ("field", [11, 11]),
        ("byte_in_word", [7, 8]),
        ("joined", [4, 4]),
        ("memset_racing", [5, 7]),
        ("brief_threads", [7, 7]),
        ("plain_atomic", [4, 5]),
    ] {
        let racing = Built::new(&format!("races/{fixture}.c"), &[]).racing();
        let (_, racing) = racing.unwrap_or_else(|| panic!("{fixture} shows no race"));
        let expected = expected.map(|line| format!("{fixture}.c:{line}"));
        assert_eq!(lines(&racing), [[&*expected[0], &*expected[1]]]);
    }
}
