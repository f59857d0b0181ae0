//! Races with what the C library returns in memory of its own.

use gwp_race_tests::{Configuration, Program, Until, Watch, compile};

/// How long the program of one try runs, and how many there may be.
const SECONDS: &str = "10";
const TRIES: u32 = 5;

/// Catches the race of a reader with the call of a function that overwrites the result.
fn catch(arguments: &[&str], function: &str, reader: &str) {
    let program = Program::new("silent/results.c").dynamic().broken();
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    for attempt in 1..=TRIES {
        let outcome = Watch::aggressive()
            .run(&program, arguments, Until::Race)
            .unwrap();
        let Some(race) = outcome.report.races.first() else {
            println!("{function}: try {attempt}: {:?}", outcome.report.summary);
            continue;
        };
        println!("{function}: caught on try {attempt}: {}", race.places());
        let [stalled, racing] = &race.accesses;
        assert_eq!(
            (stalled.kind.as_str(), racing.kind.as_str()),
            ("read", "write")
        );
        assert!(stalled.has_function(reader), "{race:?}");
        // It is the caller's access.
        assert!(racing.has_function(reader), "{race:?}");
        assert!(racing.has_function(function), "{race:?}");
        return;
    }
    panic!("{function} was not caught in {TRIES} tries")
}

/// Check that a structure is caught that localtime() overwrites, as an access of who has called it.
#[test]
fn a_structure() {
    catch(&[SECONDS, "2"], "localtime", "stamp");
}

/// Check that a text is caught that ctime() overwrites, several calls deep in the library.
#[test]
fn a_text() {
    catch(&[SECONDS, "2", "text"], "ctime", "text");
}
