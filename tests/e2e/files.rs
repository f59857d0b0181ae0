//! Files of programs that are not what files should be.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Program, Report, Watch,
    children::{Guarded, named, status_field},
    compile,
    served::Served,
};
use nix::sys::signal::{Signal, kill};

/// How long gwp-race may take to reach the file.
const REACHING: Duration = Duration::from_secs(60);
/// How long it may take to end.
const ENDING: Duration = Duration::from_secs(30);

/// Check that gwp-race ends when it is told to, and lets the program go, although a file system that was trusted does not answer for the program's
/// file: the thread that waits cannot be killed, but holds neither breakpoints nor the socket.
#[test]
fn a_file_system_that_falls_silent() {
    let racy = Program::new("races/many_threads.c");
    let racy = compile::program(&racy, Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let contents = std::fs::read(racy).unwrap();
    let served = match Served::mount(scratch.path(), contents.clone()) {
        Ok(served) => served,
        Err(error) => return println!("FUSE cannot be mounted here: {error}"),
    };
    let path = scratch.path().join("program");
    let mut command = Command::new(&path);
    command.args(["120", "2"]).stdout(Stdio::null());
    let program = Guarded::new(command.spawn().unwrap());
    // From now on it is in memory, so that the program itself needs no answers.
    assert!(std::fs::read(&path).unwrap() == contents);
    served.fall_silent();

    let output = tempfile::tempdir().unwrap();
    let mut command = Watch::usual().attach_command(program.pid(), &output.path().join("report"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut gwp_race = Guarded::new(command.spawn().unwrap());
    // Unmounted before that is ended, which could not be if it waits for an answer.
    let served = served;
    let start = Instant::now();
    let thread = loop {
        assert!(start.elapsed() < REACHING, "nobody has asked for the file");
        assert!(gwp_race.ended().unwrap().is_none());
        if let Some(thread) = served.waiting().first() {
            break PathBuf::from(format!("/proc/{thread}"));
        }
        sleep(Duration::from_millis(20));
    };
    let name = std::fs::read_to_string(thread.join("comm")).unwrap();
    assert_eq!(name.trim(), "gwp-race-loader");
    let held = descriptors(&thread);
    println!("{name}: {held:?}");
    let holds = |what: &str| held.iter().any(|held| held.starts_with(what));
    assert!(
        !holds("anon_inode:[perf_event]") && !holds("socket:"),
        "{held:?}"
    );
    // Not that it could hold them only later.
    let tracer = named(gwp_race.pid(), "gwp-race-tracer").expect("a tracer");
    let of_tracer = descriptors(&PathBuf::from(format!("/proc/{tracer}")));
    assert!(
        of_tracer.iter().any(|held| held.starts_with("socket:")),
        "{of_tracer:?}"
    );
    let start = Instant::now();
    kill(gwp_race.pid(), Signal::SIGTERM).unwrap();
    gwp_race.wait(ENDING).unwrap();
    println!("ended after {:?}", start.elapsed());
    let start = Instant::now();
    while status_field(program.pid(), "TracerPid").as_deref() != Some("0") {
        assert!(start.elapsed() < ENDING, "the program is still traced");
        sleep(Duration::from_millis(20));
    }
    println!("its thread waits still: {}", thread.exists());
}

/// Check that the thread which holds threads asks a file system for nothing that a process serves, and has no map of such a file, whose pages could be dropped: a race is
/// caught, and told with the tables of the file, although that thread would wait for ever.
#[test]
fn who_holds_threads_waits_for_no_file_system() {
    let racy = Program::new("races/code_tables.c").flags(&["-fbasic-block-address-map"]);
    let racy = compile::program(&racy, Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let served = match Served::mount(scratch.path(), std::fs::read(racy).unwrap()) {
        Ok(served) => served,
        Err(error) => return println!("FUSE cannot be mounted here: {error}"),
    };
    served.ignore("gwp-race-tracer");
    let path = scratch.path().join("program");
    let output = tempfile::tempdir().unwrap();
    let report = output.path().join("report");
    let mut command = Watch::aggressive().run_command(&path, &["300"], &report);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut gwp_race = Guarded::new(command.spawn().unwrap());
    let start = Instant::now();
    let mut looks = 0;
    let race = loop {
        assert!(start.elapsed() < REACHING, "no race was caught");
        assert!(gwp_race.ended().unwrap().is_none());
        if let Some(tracer) = named(gwp_race.pid(), "gwp-race-tracer") {
            let maps = std::fs::read_to_string(format!("/proc/{tracer}/maps")).unwrap_or_default();
            assert!(!maps.contains(path.to_str().unwrap()), "{maps}");
            looks += usize::from(!maps.is_empty());
        }
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        if let Some(race) = Report::read(&text).unwrap().races.into_iter().next() {
            break race;
        }
        sleep(Duration::from_millis(20));
    };
    assert!(looks > 0 && served.waiting().is_empty());
    for access in &race.accesses {
        assert!(access.block.is_some(), "{race:?}");
    }
    kill(gwp_race.pid(), Signal::SIGTERM).unwrap();
    gwp_race.wait(ENDING).unwrap();
}

/// What a thread has open.
fn descriptors(thread: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(thread.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links
        .map(|link| link.to_string_lossy().into_owned())
        .collect()
}
