//! Programs without a race stay silent under the most aggressive sampling, and their broken twins,
//! which differ in nothing else, are caught in the same time.

use std::time::{Duration, Instant};

use gwp_race_tests::{Configuration, Metadata, Program, Until, Watch, binary, compile};

use crate::catalogue::{self, READS, Silent};

/// How long a twin has time to be caught in each try, in seconds.
const CATCHING: &str = "20";
/// How many tries it may take: catching is a matter of luck, silence is not.
const TRIES: u32 = 5;
const LIMIT: Duration = Duration::from_secs(90);
/// How long each program has to stay silent: so many times as long as it took to catch its twin, at least and at most.
const TIMES: u32 = 10;
const LEAST: Duration = Duration::from_secs(10);
const MOST: Duration = Duration::from_secs(60);
/// At least, in the full run.
const LEAST_IN_FULL: Duration = Duration::from_secs(20);

fn configurations(number: usize) -> Vec<Configuration> {
    if binary::full() {
        Configuration::all()
    } else {
        Configuration::choice(number)
    }
}

/// Check that a program is silent for long enough, where it took so long to catch it with a race.
fn stay_silent(program: &Program, configuration: Configuration, caught: Duration) {
    let built = compile::program(program, configuration).unwrap();
    let least = if binary::full() { LEAST_IN_FULL } else { LEAST };
    let seconds = (caught * TIMES).clamp(least, MOST).as_secs().to_string();
    let outcome = Watch::aggressive()
        .limit(LIMIT)
        .run(&built, &[&seconds], Until::End)
        .unwrap();
    let name = program.name();
    assert!(
        outcome.report.races.is_empty(),
        "{name} [{configuration}] has no race, yet: {:#?}\n{}",
        outcome.report.races,
        outcome.stderr
    );
    assert!(
        outcome.status.success(),
        "{name} [{configuration}]: {outcome:?}"
    );
    assert_eq!(outcome.stdout, "done\n", "{name} [{configuration}]");
    let (samples, stalls) = (
        outcome.report.number("samples"),
        outcome.report.number("stalls"),
    );
    println!(
        "{name} [{configuration}]: silent for {seconds} s, {samples} samples, {stalls} stalls"
    );
    assert!(
        samples > 0.0,
        "{name} [{configuration}] was not watched: {outcome:?}"
    );
}

/// Check that a program is caught, and returns how long that took, from the first try on.
fn must_be_caught(program: &Program, configuration: Configuration) -> Duration {
    let built = compile::program(program, configuration).unwrap();
    let start = Instant::now();
    for attempt in 1..=TRIES {
        let outcome = Watch::aggressive()
            .limit(LIMIT)
            .run(&built, &[CATCHING], Until::Race)
            .unwrap();
        if let Some(race) = outcome.report.races.first() {
            println!(
                "{} [{configuration}]: twin caught on try {attempt} after {:.2} s: {}",
                program.name(),
                outcome.first_race_s.unwrap_or(f64::NAN),
                race.places()
            );
            return start.elapsed();
        }
        println!(
            "{}: try {attempt}: {:?}",
            program.name(),
            outcome.report.summary
        );
    }
    panic!(
        "the broken {} [{configuration}] was not caught",
        program.name()
    );
}

/// Check that the twin is caught, and that the program is silent.
fn check(silent: &Silent, configuration: Configuration) {
    let caught = must_be_caught(&silent.twin, configuration);
    stay_silent(&silent.program, configuration, caught);
}

fn pair(name: &str) {
    let programs = catalogue::silent_programs();
    let number = programs
        .iter()
        .position(|silent| silent.program.name() == name)
        .unwrap();
    let silent: &Silent = &programs[number];
    for configuration in configurations(number) {
        check(silent, silent.fit(configuration));
    }
}

/// Check silence and the broken twin: musl's memory routines under a mutex.
#[test]
fn memory_routines_of_musl() {
    let programs = catalogue::silent_programs();
    let silent = programs
        .iter()
        .find(|silent| silent.program.name() == "memory_routines")
        .unwrap();
    for configuration in Configuration::with_musl() {
        check(silent, configuration);
    }
}

macro_rules! silent {
    ($($name:ident: $what:literal;)*) => {$(
        #[doc = concat!("Check silence and the broken twin: ", $what, ".")]
        #[test]
        fn $name() {
            pair(stringify!($name));
        }
    )*};
}

silent! {
    mutex: "a mutex";
    rwlock: "a read-write lock";
    spinlock: "a spinlock";
    condition: "a condition variable";
    semaphore: "semaphores";
    barrier: "a barrier";
    atomics: "std::atomic of every width in every order";
    seqlock: "a sequence lock with atomic data";
    publication: "publication as in RCU";
    double_checked: "double-checked initialisation";
    deque: "a work-stealing deque";
    refcount: "reference counting";
    thread_local: "thread-local data";
    neighbours: "neighbouring fields of one word";
    read_only: "data that are only read";
    rare: "a lock that is taken once in some milliseconds";
    no_sanitize: "a function under no_sanitize";
    unanalyzed_library: "a race in a library built by gcc";
    unanalyzed_copy: "memcpy called by a library built by gcc";
    allocator: "malloc, free and stdio";
    streams: "streams and strings of C++";
    memory_routines: "memcpy, memmove and memset under a mutex";
    strings: "strcpy, strncpy, strlen and strcmp under a mutex";
    system_calls: "buffers of system calls under a mutex";
    users: "a variable that twenty functions use under a mutex";
    glance: "a variable at which a thread glances under a mutex 25 times a second";
}

/// Check that reads which the compiler has introduced are marked as such where they are reported,
/// and that under the strict flags there is nothing to report.
fn introduced(source: &'static str) {
    for compiler in [
        gwp_race_tests::Compiler::Clang22,
        gwp_race_tests::Compiler::Clang16,
    ] {
        for opt in [2, 3] {
            let configuration = Configuration {
                compiler,
                opt,
                ..Configuration::USUAL
            };
            let marked = must_be_marked(&Program::new(source), configuration);
            let strict = Program::new(source).metadata(Metadata::Strict);
            stay_silent(&strict, configuration, marked);
        }
    }
}

/// Check that such a read is marked, and returns how long it took to see it.
fn must_be_marked(program: &Program, configuration: Configuration) -> Duration {
    let built = compile::program(program, configuration).unwrap();
    let start = Instant::now();
    for attempt in 1..=TRIES {
        let outcome = Watch::aggressive()
            .limit(LIMIT)
            .run(&built, &[CATCHING], Until::Race)
            .unwrap();
        for race in &outcome.report.races {
            println!(
                "{} [{configuration}], try {attempt}: {}",
                program.name(),
                race.places()
            );
            assert!(
                race.accesses.iter().any(|access| access.introduced_read),
                "{} has no race, and this is not marked: {race:#?}",
                program.name()
            );
        }
        if !outcome.report.races.is_empty() {
            return start.elapsed();
        }
    }
    panic!(
        "{} [{configuration}]: its introduced read was not seen",
        program.name()
    );
}

/// Check a read that is made before its condition is known.
#[test]
fn speculated_read() {
    introduced(READS[0]);
}

/// Check a read that is made once before a loop, needed or not.
#[test]
fn hoisted_read() {
    introduced(READS[1]);
}

/// Check two reads that are made together although the second is conditional.
#[test]
fn merged_reads() {
    introduced(READS[2]);
}
