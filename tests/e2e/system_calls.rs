//! Races with a buffer that the kernel reads or writes in a system call.

use std::path::PathBuf;

use gwp_race_tests::{Configuration, Program, Until, Watch, compile, report::Race};

/// How long the program of one try runs, and how many there may be.
const SECONDS: &str = "10";
const TRIES: u32 = 5;

fn program() -> PathBuf {
    let program = Program::new("races/system_calls.c").dynamic();
    compile::program(&program, Configuration::USUAL).unwrap()
}

fn catch(program: &std::path::Path, call: &str) -> Race {
    for attempt in 1..=TRIES {
        let outcome = Watch::aggressive()
            .run(program, &[SECONDS, call], Until::Race)
            .unwrap();
        if let Some(race) = outcome.report.races.first() {
            let seconds = outcome.first_race_s.unwrap_or(f64::NAN);
            println!(
                "{call}: caught on try {attempt} after {seconds:.2} s: {}",
                race.places()
            );
            return race.clone();
        }
        println!("{call}: try {attempt}: {:?}", outcome.report.summary);
    }
    panic!("{call} was not caught in {TRIES} tries")
}

fn check(calls: &[(&str, &str, u32)]) {
    let program = program();
    for &(call, kind, size) in calls {
        let race = catch(&program, call);
        let [stalled, racing] = &race.accesses;
        assert_eq!(stalled.system_call, None, "{race:?}");
        assert_eq!(racing.system_call.as_deref(), Some(call), "{race:?}");
        assert_eq!(
            (racing.kind.as_str(), racing.size),
            (kind, size),
            "{race:?}"
        );
        assert!(!racing.atomic);
        let user = if kind == "read" { "store" } else { "load" };
        assert!(stalled.has_function(user), "{race:?}");
        assert!(racing.has_function(&format!("call_{call}")), "{race:?}");
        assert!(racing.has_function("caller"), "{race:?}");
    }
}

/// Check reading and writing of files and pipes.
#[test]
fn files() {
    check(&[
        ("read", "write", 64),
        ("write", "read", 64),
        ("pread64", "write", 64),
        ("pwrite64", "read", 64),
        ("readv", "write", 64),
        ("pwritev", "read", 64),
    ]);
}

/// Check what goes through sockets, and what is asked of them.
#[test]
fn sockets() {
    check(&[
        ("sendto", "read", 64),
        ("recvfrom", "write", 64),
        ("sendmsg", "read", 64),
        ("recvmsg", "write", 64),
        ("getsockopt", "write", 4),
        ("epoll_wait", "write", 48),
    ]);
}

/// Check what the kernel answers.
#[test]
fn answers() {
    check(&[
        ("newfstatat", "write", 144),
        ("statx", "write", 256),
        ("getrandom", "write", 64),
        ("uname", "write", 390),
        ("getcwd", "write", 64),
        ("pipe2", "write", 8),
    ]);
}

/// Check that calls are not interrupted when the kernel touches watched bytes in them, also where they sleep
/// afterwards: the program says so at its end. It goes on after its race was caught.
#[test]
fn calls_are_not_interrupted() {
    let program = program();
    let in_call = |race: &Race| race.accesses[1].system_call.is_some();
    for call in ["halves", "recvmsg", "epoll_wait"] {
        let caught = (1..=TRIES).any(|attempt| {
            let outcome = Watch::aggressive()
                .run(&program, &["5", call], Until::End)
                .unwrap();
            assert!(outcome.status.success(), "{outcome:?}");
            assert_eq!(outcome.stdout, "done\n");
            let races = &outcome.report.races;
            println!("{call}, try {attempt}: {} races", races.len());
            races.iter().any(in_call)
        });
        assert!(caught, "{call} was not caught in {TRIES} tries");
    }
}
