//! Threads that are about to access one known address are waited for, and that is watched by then: who comes right after such a thread is caught.

use std::time::Duration;

use gwp_race_tests::{
    Configuration, Outcome, Program, Until, Watch, compile, luck::Spent, machine::Machine,
};

/// For how many seconds the broken program is watched in each try, and the other one in each run.
const BROKEN: &str = "3";
const ORDERED: &str = "10";
/// Threads: so many are watched by processor.
const THREADS: &str = "6";
/// What came of waits for one address.
const KNOWN: &str = "known-address: ";
/// Catching somebody takes luck: so many tries it may take.
const TRIES: u32 = 15;
/// How many runs the silent program needs at most to have been tried as much as its twin.
const RUNS: u32 = 20;

/// The processors' breakpoints are for one gwp-race.
fn watch(machine: &Machine) -> Watch {
    Watch::aggressive()
        .option(&["--strategy", "planner"])
        .limit(Duration::from_secs(90))
        .on(machine)
}

/// How often one address was waited for with that outcome, or with any (an empty one).
fn known(outcome: &Outcome, came: &str) -> f64 {
    let summary = outcome.report.summary.as_ref().unwrap();
    let decisions = summary["decisions"].as_object().unwrap();
    let known = decisions.iter().filter(|(name, _)| {
        let came_to = name.strip_prefix(KNOWN);
        came_to.is_some_and(|name| came.is_empty() || name == came)
    });
    known.filter_map(|(_, count)| count.as_f64()).sum()
}

/// Check that a thread is caught that writes a word right after another one has given it the turn, and stands before it reads that word: before its stall has
/// begun, as the write is over by then, as a rule. With the read before the turn is given, the same program stays silent through as many attempts, and
/// as many waits for one address.
#[test]
fn who_comes_right_after_is_caught() {
    let program = Program::new("silent/hand_over.c");
    let broken = compile::program(&program.clone().broken(), Configuration::USUAL).unwrap();
    let ordered = compile::program(&program, Configuration::USUAL).unwrap();
    let machine = Machine::alone();
    let watch = watch(&machine);
    let (mut spent, mut waits) = (Spent::default(), 0.0);
    let caught = (1..=TRIES).any(|attempt| {
        let outcome = watch.run(&broken, &[BROKEN, THREADS], Until::End).unwrap();
        for race in &outcome.report.races {
            let mut accesses = race.accesses.iter();
            assert!(
                accesses.all(|access| access.has_function("look") || access.has_function("change")),
                "{race:?}"
            );
        }
        spent += Spent::from(&outcome.report);
        waits += known(&outcome, "");
        let (races, early) = (outcome.report.races.len(), known(&outcome, "early"));
        println!("try {attempt}: {races} races, {early} times before the stall, in {waits} waits for one address");
        races > 0 && early > 0.0
    });
    assert!(caught, "not in {TRIES} tries: {spent:?}");

    let (mut silent, mut silent_waits, mut runs) = (Spent::default(), 0.0, 0);
    while silent.attempts() < spent.attempts() || silent_waits < waits {
        let outcome = watch
            .run(&ordered, &[ORDERED, THREADS], Until::End)
            .unwrap();
        let races = &outcome.report.races;
        assert!(races.is_empty(), "{races:#?}\n{}", outcome.stderr);
        silent += Spent::from(&outcome.report);
        silent_waits += known(&outcome, "");
        println!("silent through {silent:?}, {silent_waits} of {waits} waits for one address");
        runs += 1;
        assert!(runs < RUNS, "{silent:?} of {spent:?}");
    }
}
