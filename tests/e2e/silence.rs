//! Programs without a race stay silent under the most aggressive sampling, and their broken twins,
//! which differ in nothing else, are caught by a tenth of what that sampling does.

use std::{path::PathBuf, time::Duration};

use gwp_race_tests::{
    Configuration, Metadata, Outcome, Program, Until, Watch, binary, compile,
    luck::{Luck, Spent},
};

use crate::catalogue::{self, READS, Silent};

/// How long a twin has time to be caught in each try, in seconds.
const CATCHING: &str = "20";
/// How many tries it may take: catching is a matter of luck, silence is not.
const TRIES: u32 = 5;
const LIMIT: Duration = Duration::from_secs(90);
/// How much each program has to stay silent through: so many times as many stalls, or else chances for one, as it took to catch
/// its twin. What is reported as readily as the twin's race is then missed with a chance of 1 in 8, and with the four
/// configurations that a program has, 1 in 4,000. (A single catch may take much less than usual, by luck: hence not e^-10.)
const TIMES: f64 = 7.0;
/// At least so many.
const LEAST: Spent = Spent::new(800.0, 0.0, 200.0);
/// How often as many in the full run.
const FULL: f64 = 4.0;
/// How long a program is watched at first, and how long at most in each round that it takes until that is enough.
const FIRST: f64 = 1.0;
const MOST: f64 = 20.0;
/// Those rounds: the programs for which it was not enough by then run beside each other, since they have little to
/// do. A program is not watched longer than that, as long as it was as much as it took to catch the twin.
const ROUNDS: usize = 2;

fn configurations(number: usize) -> Vec<Configuration> {
    if binary::full() {
        Configuration::all()
    } else {
        Configuration::choice(number)
    }
}

/// A program in one configuration, and what it has stayed silent through.
pub struct Quiet {
    name: String,
    built: PathBuf,
    watch: Watch,
    spent: Spent,
}

impl Quiet {
    /// A program that is watched in such a way.
    pub fn new(program: &Program, configuration: Configuration, watch: Watch) -> Self {
        Self {
            name: format!("{} [{configuration}]", program.name()),
            built: compile::program(program, configuration).unwrap(),
            watch: watch.limit(LIMIT),
            spent: Spent::default(),
        }
    }

    /// Watches it for some seconds.
    fn stay_silent(&mut self, seconds: f64) -> Outcome {
        let seconds = format!("{seconds:.0}");
        let outcome = self.watch.run(&self.built, &[&seconds], Until::End);
        let (outcome, name) = (outcome.unwrap(), &self.name);
        assert!(
            outcome.report.races.is_empty(),
            "{name} has no race, yet: {:#?}\n{}",
            outcome.report.races,
            outcome.stderr
        );
        assert!(outcome.status.success(), "{name}: {outcome:?}");
        assert_eq!(outcome.stdout, "done\n", "{name}");
        let spent = Spent::from(&outcome.report);
        println!("{name}: silent for {seconds} s, {spent:?}");
        assert!(spent.chances() > 0.0, "{name} was not watched: {outcome:?}");
        self.spent += spent;
        outcome
    }

    /// How much of what is enough that was.
    fn part(&self, enough: Spent) -> f64 {
        let stalls = self.spent.stalls / enough.stalls;
        stalls.max(self.spent.chances() / enough.chances())
    }
}

/// Check that programs are silent for long enough, where it took so much to catch them with a race; and returns what came of
/// the first run of each.
pub fn stay_silent(mut programs: Vec<Quiet>, luck: &Luck) -> Vec<Outcome> {
    let a_catch = luck.spent() * f64::from(luck.caught().max(1)).recip();
    let full = if binary::full() { FULL } else { 1.0 };
    let enough = (a_catch * TIMES).max(LEAST) * full;
    let outcomes = programs.iter_mut().map(|quiet| quiet.stay_silent(FIRST));
    let outcomes = outcomes.collect();
    for _ in 0..ROUNDS {
        std::thread::scope(|scope| {
            for quiet in &mut programs {
                let part = quiet.part(enough);
                if part < 1.0 {
                    let missing = FIRST / part - FIRST;
                    scope.spawn(move || quiet.stay_silent(missing.clamp(FIRST, MOST).ceil()));
                }
            }
        });
    }
    for quiet in programs {
        let times = quiet.part(a_catch);
        println!("{}: {times:.1} times as much as its twin took", quiet.name);
        assert!(
            times >= 1.0,
            "{}: too little: {:?}",
            quiet.name,
            quiet.spent
        );
    }
    outcomes
}

/// Check that a program is caught.
pub fn must_be_caught(quiet: &Quiet, luck: &mut Luck) -> Outcome {
    for _ in 0..TRIES {
        let outcome = quiet.watch.run(&quiet.built, &[CATCHING], Until::Race);
        let outcome = outcome.unwrap();
        if luck.add(&outcome) {
            return outcome;
        }
    }
    panic!("{} was not caught in {TRIES} tries", quiet.name);
}

/// Check that the twin is caught, as readily as usual, and that the program is silent, in some configurations.
pub fn check(silent: &Silent, configurations: Vec<Configuration>) {
    let mut luck = Luck::new(
        format!("the broken {}", silent.twin.name()),
        catalogue::usual(&silent.twin),
    );
    let mut programs = Vec::new();
    for configuration in configurations {
        let twin = Quiet::new(&silent.twin, configuration, Watch::aggressive());
        must_be_caught(&twin, &mut luck);
        programs.push(Quiet::new(
            &silent.program,
            configuration,
            Watch::aggressive(),
        ));
    }
    luck.judge().unwrap();
    stay_silent(programs, &luck);
}

fn pair(name: &str) {
    let programs = catalogue::silent_programs();
    let number = programs
        .iter()
        .position(|silent| silent.program.name() == name)
        .unwrap();
    let silent: &Silent = &programs[number];
    let configurations = configurations(number).into_iter();
    check(silent, configurations.map(|one| silent.fit(one)).collect());
}

/// Check silence and the broken twin: musl's memory routines under a mutex.
#[test]
fn memory_routines_of_musl() {
    let programs = catalogue::silent_programs();
    let silent = programs
        .iter()
        .find(|silent| silent.program.name() == "memory_routines")
        .unwrap();
    check(silent, Configuration::with_musl().to_vec());
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
    by_reference: "variables that closures on other threads capture";
    two_mappings: "a page that is mapped twice, under a mutex";
    results: "what the C library returns in memory of its own, under a mutex";
    users: "a variable that twenty functions use under a mutex";
    glance: "a variable at which a thread glances under a mutex 25 times a second";
}

/// Check that reads which the compiler has introduced are marked as such where they are reported,
/// and that under the strict flags there is nothing to report.
fn introduced(source: &'static str) {
    let mut luck = Luck::new(source, catalogue::usual(&Program::new(source)));
    let mut programs = Vec::new();
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
            let program = Program::new(source);
            let marked = Quiet::new(&program, configuration, Watch::aggressive());
            for race in must_be_caught(&marked, &mut luck).report.races {
                assert!(
                    race.accesses.iter().any(|access| access.introduced_read),
                    "{source} has no race, and this is not marked: {race:#?}",
                );
            }
            let strict = program.metadata(Metadata::Strict);
            programs.push(Quiet::new(&strict, configuration, Watch::aggressive()));
        }
    }
    luck.judge().unwrap();
    stay_silent(programs, &luck);
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
