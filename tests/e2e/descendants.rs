//! Programs that are started by others: whoever starts them, however deep and fast, their races are caught, or it is told
//! which of them was not watched.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Metadata, Program, Until, Watch,
    children::{Guarded, descendants, executes, status_field},
    compile, executable,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// How often a program is run until its race is caught.
const TRIES: u32 = 4;
/// What is said of each process below the first one that is watched, with `-vv`.
const TAKEN_IN: &str = " after it was told of, ";
/// How often something is looked at that is waited for.
const POLL: Duration = Duration::from_millis(5);

fn racing() -> PathBuf {
    compile::program(&Program::new("races/read_write.c"), Configuration::USUAL).unwrap()
}

/// A program without metadata.
fn launcher() -> PathBuf {
    let program = Program {
        metadata: Metadata::None,
        ..Program::new("conduct/launcher.c")
    };
    compile::program(&program, Configuration::USUAL).unwrap()
}

/// Checks that the race of the program is caught that this starts somehow.
fn catches(what: &str, program: &Path, arguments: &[&str]) {
    let caught = (1..=TRIES).any(|attempt| {
        let watch = Watch::aggressive().run(program, arguments, Until::Race);
        let outcome = watch.unwrap();
        let caught = outcome
            .report
            .races
            .iter()
            .any(|race| race.has_function("store"));
        println!("{what}: try {attempt}: {caught}");
        caught
    });
    assert!(caught, "{what}: not in {TRIES} tries");
}

/// Check that programs are watched that shells start, however many there are between, and at what speed.
#[test]
fn below_shells() {
    let program = racing();
    let program = program.display();
    for script in [
        format!("sh -c \"sh -c '{program} 5'\""),
        format!("sh -c \"sh -c '{program} 5; :'; :\"; :"),
        format!("for i in 1 2 3; do ({program} 5; :) & done; wait"),
        format!("true | sh -c '{program} 5; true' | cat; true"),
    ] {
        catches(&script, Path::new("/bin/sh"), &["-c", &script]);
    }
    let scratch = tempfile::tempdir().unwrap();
    let script = scratch.path().join("script");
    executable::script(&script, &format!("#!/bin/sh\nexec {program} 5\n"));
    let command = format!("{} ; true", script.display());
    catches("a script", Path::new("/bin/sh"), &["-c", &command]);
}

/// Check that programs are watched however they are started.
#[test]
fn however_they_are_started() {
    let (program, launcher) = (racing(), launcher());
    let program = program.to_str().unwrap();
    for how in ["system", "vfork", "spawn", "exec", "daemon"] {
        catches(how, &launcher, &[how, program, "5"]);
    }
}

/// Check that nothing is watched below the program where that is not wanted.
#[test]
fn only_where_wanted() {
    let program = racing();
    let script = format!("{} 1; :", program.display());
    let watch = Watch::aggressive().option(&["--follow-forks", "no"]);
    let outcome = watch.run(Path::new("/bin/sh"), &["-c", &script], Until::End);
    assert_eq!(outcome.unwrap().report.number("stalls"), 0.0);
}

/// A program that ends at once.
fn short() -> PathBuf {
    let program = Program::new("conduct/ends_at_once.c");
    compile::program(&program, Configuration::USUAL).unwrap()
}

/// Check that programs are counted and told by name that end before anybody could watch them, and no others.
#[test]
fn who_ends_at_once_is_told() {
    let program = short();
    let name = program.file_name().unwrap().display();
    let folder = program.parent().unwrap().display();
    let script = format!(
        "cd {folder}; i=0; while [ $i -lt 100 ]; do ./{name}; /bin/true; i=$((i+1)); done; \
         (./{name}; (./{name}; :); :); ./{name} | ./{name}; exec env -i ./{name}"
    );
    let watch = Watch::aggressive().option(&["-vv"]);
    let outcome = watch.run(Path::new("/bin/sh"), &["-c", &script], Until::End);
    let outcome = outcome.unwrap();
    let report = outcome.report;
    let summary = report.summary.as_ref().unwrap();
    let names = summary["not_watched"].as_object().unwrap();
    println!("{names:?}");
    assert_eq!(names.len(), 1, "{names:?}");
    let times = &names[&format!("./{name}")]["ended-early"];
    let in_time = outcome.stderr.matches(TAKEN_IN).count() as u64;
    println!("{in_time} were watched");
    // The last one is executed by the first process, which is watched.
    assert_eq!(times.as_u64(), Some(104 - in_time), "{names:?}");
}

/// Check that what an attached process starts is watched as well, and not where that is not wanted.
#[test]
fn below_attached_processes() {
    let (program, launcher) = (racing(), launcher());
    let start = |seconds: &str| {
        let mut command = Command::new(&launcher);
        command
            .arg("later")
            .arg(&program)
            .arg(seconds)
            .stdout(Stdio::null());
        Guarded::new(command.spawn().unwrap())
    };
    let caught = (1..=TRIES).any(|attempt| {
        let target = start("5");
        let outcome = Watch::aggressive().attach(target.pid(), Until::Race);
        let races = outcome.unwrap().report.races;
        let caught = races.iter().any(|race| race.has_function("store"));
        println!("try {attempt}: {caught}");
        caught
    });
    assert!(caught, "not in {TRIES} tries");
    let target = start("1");
    let watch = Watch::aggressive().option(&["--follow-forks", "no"]);
    let outcome = watch.attach(target.pid(), Until::End);
    assert_eq!(outcome.unwrap().report.number("stalls"), 0.0);
}

/// Check that the race of children is caught that live 60 ms each, one after the other, and that nothing is left of the tracers that were
/// kept ready for them.
#[test]
fn short_children() {
    // 60 of them have two catches on an idle machine, a third of one beside four busy loops.
    const CHILDREN: &str = "240";
    let program = Program::new("races/short_children.cpp");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let caught = (1..=TRIES).any(|attempt| {
        let watch = Watch::aggressive().option(&["-vv"]);
        let outcome = watch.run(&program, &[CHILDREN], Until::Race).unwrap();
        let taken_in = outcome.stderr.matches(TAKEN_IN).count();
        let made = outcome.stderr.matches("a tracer was made in").count();
        let races = outcome.report.races;
        let caught = races
            .iter()
            .any(|race| race.has_function("find") || race.has_function("~Table"));
        println!("try {attempt}: {caught}, {taken_in} children were watched by {made} tracers");
        caught
    });
    assert!(caught, "not in {TRIES} tries");
}

/// Check that tracers which are ready for processes that are still to come end with the daemon, however that ends.
#[test]
fn spare_tracers_end_with_the_daemon() {
    const LIMIT: Duration = Duration::from_secs(30);
    let program = Program::new("races/short_children.cpp");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let scratch = tempfile::tempdir().unwrap();
        let output = scratch.path().join("report.json");
        let mut command = Watch::aggressive().run_command(&program, &["1000"], &output);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let gwp_race = Guarded::new(command.spawn().unwrap());
        let guards = || {
            let below = descendants(gwp_race.pid()).into_iter();
            below
                .filter(|&pid| status_field(pid, "Name").as_deref() == Some("gwp-race-guard"))
                .collect::<Vec<_>>()
        };
        let start = Instant::now();
        // One for the program, one for a child, one that is ready.
        while guards().len() < 3 {
            assert!(start.elapsed() < LIMIT, "no tracer is kept ready");
            std::thread::sleep(POLL);
        }
        let own: Vec<Pid> = descendants(gwp_race.pid());
        kill(gwp_race.pid(), signal).unwrap();
        for &pid in own.iter().filter(|&&pid| executes(pid, &program)) {
            // Without a daemon nobody else would end it.
            let _ = kill(pid, Signal::SIGKILL);
        }
        let is_own = |&pid: &Pid| {
            let name = status_field(pid, "Name").unwrap_or_default();
            let state = status_field(pid, "State").unwrap_or_default();
            name.starts_with("gwp-race-") && !state.starts_with(['Z', 'X'])
        };
        let start = Instant::now();
        while own.iter().any(is_own) {
            assert!(start.elapsed() < LIMIT, "{signal}: tracers live on");
            std::thread::sleep(POLL);
        }
    }
}
