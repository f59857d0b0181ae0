//! What is learned of a program is used when it, or another build of it, is watched again; and ledgers that cannot be used stop nothing.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use gwp_race_tests::{binary::gwp_race, watch::AGGRESSIVE};

use crate::identity::{Build, compile};

/// Tries at most until something is seen in each run, and all functions in the first.
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
    let decisions = |options: &[&str]| {
        let mut command = Command::new(gwp_race());
        let output = command.arg("decisions").args(options).arg(&log).output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    };
    let replayed = decisions(&["--replay"]);
    assert!(replayed.starts_with("the same "), "{replayed}");
    let log = decisions(&[]);
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
    let program = compile(scratch.path(), &USUAL);
    let changed = compile(scratch.path(), &CHANGED);
    let is_used = (1..=TRIES).any(|attempt| {
        let ledger = scratch.path().join(format!("{attempt}.db"));
        let [first, second] = [(); 2].map(|()| run(&program, &ledger));
        assert_eq!((first.told, first.new), (0, 0), "{}", first.said);
        assert_eq!(second.new, 0, "{}", second.said);
        let other = run(&changed, &ledger);
        println!(
            "attempt {attempt}: {} sites, and {} of another build, which has {} new functions",
            second.told, other.told, other.new
        );
        assert!(other.new <= 1, "{}", other.said);
        // On a busy machine a run may see nothing at all, or not all functions.
        second.told > 0 && other.told > 0 && other.new == 1
    });
    assert!(is_used, "not in {TRIES} tries");
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
