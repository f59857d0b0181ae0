//! Threads that are taken from their processors right before an access are stalled threads that cost nothing: where more threads are busy than there are
//! processors, they catch races, and what is ordered stays silent all the same.

use std::{path::Path, time::Duration};

use gwp_race_tests::{
    Configuration, Link, Outcome, Program, Until, Watch, compile, machine::Machine,
};

/// More threads than most machines of tests have processors.
const THREADS: &str = "16";
/// Catching somebody takes luck: so many tries it may take.
const TRIES: u32 = 5;
/// For how many seconds a program is watched each time.
const SECONDS: &str = "6";
/// How many more times it may be until it was tried enough.
const RUNS: u32 = 20;
/// How many stalls of such threads the programs that find many of them have to stay silent through, for each that it took to catch the race of the broken
/// twin, and at least.
const TIMES: f64 = 6.0;
const LEAST: f64 = 200.0;
/// The same of one that finds few.
const FEW: f64 = 5.0;

/// The processors' breakpoints are for one gwp-race, and its program has all of them. Where the budget has no end, threads are stopped rather than those taken
/// that are off.
fn watch() -> Watch {
    Watch::usual()
        .option(&["--max-overhead", "20%", "--free-stalls", "yes"])
        .limit(Duration::from_secs(90))
        .alone()
}

fn run(built: &Path, until: Until) -> Outcome {
    watch().run(built, &[SECONDS, THREADS], until).unwrap()
}

fn free_stalls(outcome: &Outcome) -> f64 {
    outcome.report.number("stalls_of_preempted")
}

/// How many of those stalls have caught somebody, known or not.
fn caught(outcome: &Outcome) -> f64 {
    outcome.report.came_to("preempted: hit") + outcome.report.came_to("preempted: repeat")
}

fn assert_silent(name: &str, outcome: &Outcome) {
    let races = &outcome.report.races;
    assert!(races.is_empty(), "{name}: {races:#?}\n{}", outcome.stderr);
    assert!(outcome.status.success(), "{name}: {outcome:?}");
    assert_eq!(outcome.stdout, "done\n", "{name}");
}

/// Check that the broken twin of a program is caught, by whatever stalls.
fn must_be_caught(program: &Program) {
    let twin = compile::program(&program.clone().broken(), Configuration::USUAL).unwrap();
    let is_caught = (1..=TRIES).any(|_| !run(&twin, Until::Race).report.races.is_empty());
    assert!(
        is_caught,
        "the broken {}: not in {TRIES} tries",
        program.name()
    );
}

/// Check that the broken twin is caught by stalls of threads that were off their processors, and how many of those it took for each; and that the program is
/// silent through many times as many.
fn check(source: &'static str) {
    let program = Program::new(source);
    let twin = compile::program(&program.clone().broken(), Configuration::USUAL).unwrap();
    let (mut stalls, mut catches) = (0.0, 0.0);
    for attempt in 1..=TRIES {
        let outcome = run(&twin, Until::End);
        stalls += free_stalls(&outcome);
        catches += caught(&outcome);
        println!("try {attempt}: {catches} catches in {stalls} stalls of preempted threads");
        if catches > 0.0 {
            assert!(!outcome.report.races.is_empty());
            break;
        }
    }
    assert!(catches > 0.0, "{source}: not in {stalls} stalls");
    let enough = (TIMES * stalls / catches).max(LEAST);
    let ordered = compile::program(&program, Configuration::USUAL).unwrap();
    let (mut silent, mut runs) = (0.0, 0);
    while silent < enough {
        let outcome = run(&ordered, Until::End);
        assert_silent(source, &outcome);
        silent += free_stalls(&outcome);
        println!("silent through {silent} of {enough:.0}");
        runs += 1;
        assert!(runs < RUNS, "{source}: {silent} of {enough}");
    }
}

/// Check it of threads that change figures under locks: wherever they are taken off, they are about to access some.
#[test]
fn a_crowd() {
    check("silent/crowd.c");
}

/// Check that a handler that is carried out before the access orders it: whoever writes meanwhile has waited for that.
#[test]
fn interrupted_threads() {
    let program = Program::new("silent/interrupted.c");
    must_be_caught(&program);
    let ordered = compile::program(&program, Configuration::USUAL).unwrap();
    let mut stalls = 0.0;
    for _ in 0..RUNS {
        let outcome = run(&ordered, Until::End);
        assert_silent(program.source, &outcome);
        stalls += free_stalls(&outcome);
        println!("silent through {stalls} stalls of preempted threads");
        if stalls >= FEW {
            return;
        }
    }
    panic!("only {stalls} stalls of preempted threads");
}

/// Check that a thread in a restartable sequence is not taken for one that is about to make its access: others use the counter of its processor as soon as
/// it is off. Where the kernel is not told of the sequence they race.
#[test]
fn restartable_sequences() {
    let program = Program::new("silent/per_cpu.c");
    must_be_caught(&program);
    let told = compile::program(&program, Configuration::USUAL).unwrap();
    let mut refused = 0.0;
    for _ in 0..RUNS {
        let outcome = run(&told, Until::End);
        assert_silent(program.source, &outcome);
        let summary = outcome.report.summary.as_ref().unwrap();
        let count = summary["no_stall"].get("restartable-sequence");
        refused += count.and_then(serde_json::Value::as_f64).unwrap_or(0.0);
        println!("{refused} threads were in a sequence");
        if refused >= LEAST {
            return;
        }
    }
    panic!("only {refused} threads were in a sequence");
}

/// Check that programs which are silent with any number of threads are so with many more than there are processors, while threads are taken that wait for one,
/// whatever orders them; how many stalls each was silent through is printed. (Others of the silent programs have no order but for a few.)
#[test]
fn silent_programs_in_a_crowd() {
    /// For how many seconds each is watched, and those of which nobody was taken once more: switches are looked at from the second one on, and later where the
    /// machine has much else to do.
    const ROUNDS: [&str; 2] = ["2", SECONDS];
    /// Of so many of them threads have to be taken. Where nearly all wait for one lock, hardly anybody is taken from a processor.
    const ENOUGH: usize = 5;
    let programs = [
        "silent/mutex.c",
        "silent/rwlock.c",
        "silent/spinlock.c",
        "silent/condition.c",
        "silent/semaphore.c",
        "silent/atomics.cpp",
        "silent/seqlock.c",
        "silent/crowd.c",
        "silent/cold_members.c",
        "silent/glance.c",
        "silent/memory_routines.c",
        "silent/read_only.c",
        "silent/refcount.c",
        "silent/streams.cpp",
        "silent/users.c",
        "silent/thread_local.c",
        "silent/allocator.c",
        "silent/waves.c",
        "silent/futex.c",
        "silent/guarded.rs",
    ];
    // With position-independent code and without, linked statically and not.
    let links = [Link::Pie, Link::NoPie, Link::Static];
    let programs = programs.into_iter().zip(links.into_iter().cycle());
    let mut untaken: Vec<_> = programs
        .map(|(source, link)| {
            let configuration = Configuration {
                link,
                ..Configuration::USUAL
            };
            let built = compile::program(&Program::new(source), configuration).unwrap();
            (source, built)
        })
        .collect();
    let mut taken = 0;
    let machine = Machine::alone();
    for seconds in ROUNDS {
        untaken.retain(|(source, built)| {
            if seconds == SECONDS && taken >= ENOUGH {
                return false;
            }
            let outcome = watch()
                .on(&machine)
                .run(built, &[seconds, THREADS], Until::End)
                .unwrap();
            assert_silent(source, &outcome);
            let stalls = free_stalls(&outcome);
            println!("{source}: silent through {stalls} stalls of preempted threads");
            taken += usize::from(stalls > 0.0);
            stalls == 0.0
        });
    }
    assert!(taken >= ENOUGH, "threads of {taken} programs were taken");
}

/// Check that the programs of which only this module makes use are caught where their order is left out.
#[test]
fn broken_programs_in_a_crowd() {
    for source in ["silent/waves.c", "silent/futex.c", "silent/guarded.rs"] {
        must_be_caught(&Program::new(source));
    }
}
