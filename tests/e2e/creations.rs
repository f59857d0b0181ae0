//! Who has created the threads of a race.

use std::process::{Command, Stdio};
use std::time::Duration;

use gwp_race_tests::children::Guarded;
use gwp_race_tests::report::{Creation, Race};
use gwp_race_tests::{Configuration, Program, Until, Watch, compile};

/// Catching a race takes luck.
const TRIES: u32 = 5;

/// The first race of a program, built like this.
fn race(program: &'static str, configuration: Configuration) -> Race {
    let built = compile::program(&Program::new(program), configuration).unwrap();
    for attempt in 1..=TRIES {
        let outcome = Watch::aggressive()
            .run(&built, &["20"], Until::Race)
            .unwrap();
        println!("try {attempt}: {:?}", outcome.report.summary);
        if let Some(race) = outcome.report.races.into_iter().next() {
            return race;
        }
    }
    panic!("no race in {TRIES} tries");
}

fn creators(race: &Race) -> [&Creation; 2] {
    (race.accesses.each_ref()).map(|access| access.created_by.as_ref().expect("it was seen"))
}

/// Check that both threads are told to have been created by the thread and in the function that did so, through the library of C++, with its line.
#[test]
fn a_thread_creates_others() {
    let race = race("races/pool_of_workers.cpp", Configuration::USUAL);
    let [first, second] = creators(&race);
    assert_eq!(first, second);
    assert_eq!(first.thread_name, "starter");
    let tids = race.accesses.each_ref().map(|access| access.tid);
    assert!(
        first.tid != race.pid && !tids.contains(&first.tid),
        "{race:?}"
    );
    let function = first.function.as_deref().unwrap_or_default();
    assert!(function.starts_with("start_workers("), "{race:?}");
    let file = first.file.as_deref().unwrap_or_default();
    assert!(file.ends_with("pool_of_workers.cpp"), "{race:?}");
    assert_eq!(first.line, Some(11), "{race:?}");
}

/// Check the same of Rust's library; and of musl, through whose functions no unwind table leads, that the thread is told and no function that it may not have been.
#[test]
fn the_first_thread_creates_others() {
    let [shared, linked] = Configuration::with_musl();
    for (program, configuration, function) in [
        ("races/static_mut.rs", Configuration::USUAL, Some("main")),
        ("races/recursive_lock.c", shared, None),
        ("races/recursive_lock.c", linked, None),
    ] {
        let race = race(program, configuration);
        for creator in creators(&race) {
            assert_eq!(creator.tid, race.pid, "{race:?}");
            let told = creator.function.as_deref();
            let is_it = |name: &str| name.contains(function.unwrap_or("run_bodies"));
            assert!(told.is_none_or(is_it), "{race:?}");
            assert!(function.is_none() || told.is_some(), "{race:?}");
        }
    }
}

/// Check that nothing is told of threads that were there before.
#[test]
fn nobody_has_seen_the_creation() {
    let program = Program::new("races/pool_of_workers.cpp");
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    for attempt in 1..=TRIES {
        let mut command = Command::new(&built);
        command.arg("10").stdout(Stdio::null());
        let target = Guarded::new(command.spawn().unwrap());
        // Until its workers are there.
        std::thread::sleep(Duration::from_millis(500));
        let outcome = Watch::aggressive()
            .attach(target.pid(), Until::Race)
            .unwrap();
        println!("try {attempt}: {:?}", outcome.report.summary);
        if let Some(race) = outcome.report.races.first() {
            for access in &race.accesses {
                assert_eq!(access.created_by, None, "{race:?}");
            }
            return;
        }
    }
    panic!("no race in {TRIES} tries");
}
