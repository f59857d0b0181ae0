//! What is learned of a program is used when it, or another build of it, is watched again; and ledgers that cannot be used stop nothing.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use gwp_race_tests::{binary::gwp_race, watch::AGGRESSIVE};

use crate::identity::{Build, compile};

/// Runs at most until all functions of the program are known, or something is remembered.
const TRIES: usize = 5;

const USUAL: Build = Build {
    name: "usual",
    compiler: "clang-22",
    flags: &["-O2"],
    above: "",
};
/// With a function that accesses something, above all others.
const CHANGED: Build = Build {
    name: "changed",
    above: "long other[4];\n__attribute__((used, noinline)) void more(long *of) {\n    other[*of & 3] += *of;\n}\n",
    ..USUAL
};

/// What a run said, and what its planner was told of what is remembered.
struct Run {
    said: String,
    /// Sites.
    told: u64,
    /// Functions.
    new: usize,
}

fn run(program: &Path, ledger: &Path) -> Run {
    let log = ledger.with_extension("log");
    let mut command = Command::new(gwp_race());
    command.arg("run").args(AGGRESSIVE);
    command.arg("--decision-log").arg(&log);
    command.arg("--ledger").arg(ledger);
    command.arg("--").arg(program).args(["2", "2"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let log = Command::new(gwp_race())
        .arg("decisions")
        .arg(log)
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let told = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once("told of ")?;
        let (sites, _) = rest.split_once(" sites from before")?;
        sites.parse::<u64>().ok()
    });
    let new = log
        .lines()
        .filter(|line| line.ends_with(" is a new function"));
    Run {
        told: told.sum(),
        new: new.count(),
        said,
    }
}

/// Check that a program which is watched for the first time is told nothing of, that the next run of it is told what was seen, and that a run of another build is told the same of the functions
/// that it has in common with the first one, and that the one which it has not is new.
#[test]
fn what_was_learned_is_used() {
    let scratch = tempfile::tempdir().unwrap();
    let ledger = scratch.path().join("ledger.db");
    let program = compile(scratch.path(), &USUAL);
    let changed = compile(scratch.path(), &CHANGED);
    let first = run(&program, &ledger);
    assert_eq!((first.told, first.new), (0, 0), "{}", first.said);
    // On a busy machine a run may see nothing at all.
    let is_told = (1..=TRIES).any(|_| {
        let again = run(&program, &ledger);
        assert_eq!(again.new, 0, "{}", again.said);
        again.told > 0
    });
    assert!(is_told, "nothing was told in {TRIES} runs");
    let has_seen_new = (1..=TRIES).any(|attempt| {
        let other = run(&changed, &ledger);
        println!(
            "attempt {attempt}: {} sites, {} new functions",
            other.told, other.new
        );
        // None is new before all of the first build were known.
        assert!(other.new <= 1, "{}", other.said);
        let has_seen_new = other.told > 0 && other.new == 1;
        if !has_seen_new {
            run(&program, &ledger);
        }
        has_seen_new
    });
    assert!(has_seen_new, "nothing was new in {TRIES} runs");
}

/// Check that ledgers which are damaged, or of something else, are told with what to do, stop nothing, and are as they were; and that names at which there can be no file are refused before the
/// program begins.
#[test]
fn other_files_stop_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compile(scratch.path(), &USUAL);
    let ledger = scratch.path().join("ledger.db");
    let garbage = "no database, but a text that is as long as the head of one. ".repeat(90);
    fs::write(&ledger, &garbage).unwrap();
    let run = run(&program, &ledger);
    assert!(
        run.said
            .contains("nothing is remembered: cannot use the ledger")
            && run.told == 0,
        "{}",
        run.said
    );
    assert_eq!(fs::read_to_string(&ledger).unwrap(), garbage);
    for options in [
        [
            "--ledger",
            "/nonexistent/ledger.db",
            "--strategy",
            "planner",
        ],
        ["--ledger", ledger.to_str().unwrap(), "--strategy", "clock"],
    ] {
        let mut command = Command::new(gwp_race());
        command
            .arg("run")
            .args(options)
            .args(["--", "echo", "started"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(
            output.stdout.is_empty() && said.contains("ledger"),
            "{said}"
        );
    }
}
