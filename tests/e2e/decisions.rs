//! What the planner decides can be written down, and decided again.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    Configuration, Program, Until, Watch,
    binary::gwp_race,
    chaos::target::waited,
    children::{Guarded, named},
    compile,
    watch::AGGRESSIVE,
};
use nix::sys::signal::{Signal, kill};

/// How long the end may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Catching a race takes luck: so many tries it may take.
const TRIES: u32 = 5;

fn many_races() -> PathBuf {
    compile::program(&Program::new("conduct/many_races.c"), Configuration::USUAL).unwrap()
}

fn watch(log: &Path) -> Watch {
    let log = [
        "--strategy",
        "planner",
        "--decision-log",
        log.to_str().unwrap(),
    ];
    Watch::aggressive().option(&log)
}

fn decisions(arguments: &[&str], log: &Path) -> (Output, String) {
    let mut command = Command::new(gwp_race());
    let output = command
        .arg("decisions")
        .args(arguments)
        .arg(log)
        .output()
        .unwrap();
    let text = [&output.stdout[..], &output.stderr].concat();
    (output, String::from_utf8(text).unwrap())
}

/// Replays a log, which must be the same again; what is said of it.
fn replayed(log: &Path) -> String {
    let (output, text) = decisions(&["--replay"], log);
    assert!(
        output.status.success() && text.starts_with("the same "),
        "{text}"
    );
    text
}

/// Check that what the planner decides while it hunts in a real program is decided again when it hears the same, and can be read; and that a file which was cut can be, too.
#[test]
fn real_hunts_are_replayed() {
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("log");
    let program = many_races();
    let watch = watch(&log).option(&["-v", "--seed", "5"]);
    let is_whole = (1..=TRIES).any(|attempt| {
        let outcome = watch.run(&program, &["3", "2"], Until::End).unwrap();
        let said = replayed(&log);
        println!("attempt {attempt}: {said}");
        // On a busy machine the watchdog may have ended the tracer.
        let is_whole = !said.contains("without an end");
        assert!(
            is_whole || outcome.stderr.contains("watchdog has released"),
            "{}",
            outcome.stderr
        );
        is_whole && said.contains("; hunts: 1, ") && !outcome.report.races.is_empty()
    });
    assert!(is_whole, "not in {TRIES} tries");
    let (output, text) = decisions(&[], &log);
    assert!(output.status.success());
    assert!(
        text.lines()
            .last()
            .is_some_and(|line| line.ends_with("  ends")),
        "{text}"
    );
    for expected in [
        "  begins: seed ",
        " sites\n",
        "#1 decided: ",
        ": over, for ",
        "a thread stands at 0x",
        ": caught 0x",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }

    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..bytes.len() - 3]).unwrap();
    let text = replayed(&log);
    assert!(
        text.contains("without an end: 1") && text.contains("within a record"),
        "{text}"
    );
    fs::write(&log, &bytes[3..]).unwrap();
    let (output, text) = decisions(&[], &log);
    assert!(
        !output.status.success() && text.contains("no decision log"),
        "{text}"
    );
}

/// Check that what the processes of a program decide is in one file, and told apart.
#[test]
fn processes_are_told_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("log");
    let program = many_races();
    let both = format!("{0} 3 2 & {0} 3 2; wait", program.display());
    watch(&log)
        .run(Path::new("/bin/sh"), &["-c", &both], Until::End)
        .unwrap();
    let said = replayed(&log);
    let (_, text) = decisions(&[], &log);
    let decides = text.lines().filter(|line| line.contains(" decided: "));
    let processes = decides.map(|line| line.split_whitespace().nth(1).unwrap());
    let processes: BTreeSet<&str> = processes.collect();
    assert!(processes.len() >= 2, "{processes:?}, {said}");
}

/// Check that a log is whole up to some second before its tracer was killed, and goes on with what the next one decides.
#[test]
fn logs_outlive_the_tracer() {
    let scratch = tempfile::tempdir().unwrap();
    let [log, report] = ["log", "report"].map(|name| scratch.path().join(name));
    let mut command = Command::new(gwp_race());
    command
        .arg("run")
        .args(AGGRESSIVE)
        .args(["--strategy", "planner"]);
    command
        .arg("--decision-log")
        .arg(&log)
        .arg("-o")
        .arg(&report);
    command.arg("--").arg(many_races()).args(["300", "2"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(scratch.path().join("stderr")).unwrap());
    let mut watching = Guarded::new(command.spawn().unwrap());
    let size = || fs::metadata(&log).map_or(0, |log| log.len());
    assert!(waited(|| Ok(size() > 20_000)).unwrap());
    let tracer = || named(watching.pid(), "gwp-race-tracer");
    assert!(
        waited(|| Ok(tracer().is_some_and(|tracer| kill(tracer, Signal::SIGKILL).is_ok())))
            .unwrap()
    );
    let before = size();
    assert!(waited(|| Ok(size() > before + 20_000)).unwrap());
    kill(watching.pid(), Signal::SIGTERM).unwrap();
    watching.wait(LIMIT).unwrap();
    let text = replayed(&log);
    assert!(
        text.contains("without an end") && !text.contains("; hunts: 1, "),
        "{text}"
    );
}

/// Check that a full disk is told and takes nothing but the log, and that a log is refused where the planner does not decide.
#[test]
fn full_disks_take_no_reports() {
    let program = many_races();
    let watch = watch(Path::new("/dev/full"));
    let full = (1..=TRIES).any(|_| {
        let outcome = watch.run(&program, &["3", "2"], Until::End).unwrap();
        assert_eq!(outcome.status.into_raw() >> 8, 125, "{outcome:?}");
        let told = &outcome.stderr;
        assert!(
            told.contains("decision log in /dev/full") && told.contains("No space left"),
            "{told}"
        );
        assert!(outcome.report.summary.is_some());
        !outcome.report.races.is_empty()
    });
    assert!(full, "not in {TRIES} tries");
    let mut command = Command::new(gwp_race());
    let refused = command
        .args([
            "run",
            "--strategy",
            "clock",
            "--decision-log",
            "/dev/null",
            "--",
            "/bin/true",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(125) && text.contains("--strategy planner"),
        "{text}"
    );
}
