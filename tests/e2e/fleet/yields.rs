//! Other tools that take breakpoints: one is to be had in any case, and whoever has it gets all.

use std::{
    os::fd::OwnedFd,
    thread::sleep,
    time::{Duration, Instant},
};

use gwp_race_tests::{
    breakpoint::{ALL, as_many_as, of_first_processor, of_this_thread},
    machine::Machine,
};
use serde_json::Value;

use super::{FEW, Scratch, built, busy, is_free, is_leased, until};

/// So often another tool asks until it has what it wants: in three times the second in which leases end for it.
const ASKS: usize = 30;
const BETWEEN: Duration = Duration::from_millis(100);
/// A lease may be over by itself before anybody is seen beside it, so it is tried again.
const TRIES: usize = 5;
/// Nobody is watched for a bit longer then (`RETRY`).
const RESTS: Duration = Duration::from_secs(40);
/// Threads of a program that is watched by processor, where there are few of those.
const MANY: &str = "12";
/// What a lease has that watches by processor.
const OF_LEASE: usize = 2;

/// Check that all leases end when somebody takes a breakpoint of a processor beside one that watches by thread, so that he gets all four, that this is told, and that leases begin again beside what he keeps; and the same where
/// a thread takes as many as it gets beside one that watches by processor, as a debugger does.
#[test]
fn breakpoints_are_yielded() {
    let _machine = Machine::alone();
    let scratch = Scratch::with("yield");
    // Two builds: one whose process is killed in a lease is on trial, and a coin decides whether the next one gets leases.
    let by_thread = scratch.place(&built("silent/rwlock.c"), "by_thread");
    let by_processor = scratch.place(&built("silent/mutex.c"), "by_processor");
    let few = busy(&by_thread, FEW);
    let mut daemon = scratch.daemon("log");

    let is_watched = || stalls(&scratch.status()) > 0;
    let take = || Vec::from_iter(of_first_processor());
    let (taken, begun) = take_beside(&scratch, is_watched, take);
    let has_all = asks(|| as_many_as(of_first_processor).len() == ALL - 1);
    assert!(has_all, "{}", scratch.log("log"));
    println!("yielded within {:?}", begun.elapsed());
    assert!(until(|| !is_leased(&scratch.status())));
    let log = scratch.log("log");
    assert!(
        log.contains("another tool has taken breakpoints: nobody is watched for "),
        "{log}"
    );
    let status = scratch.status();
    assert_eq!(status["held"], "breakpoints", "{status:#}");
    assert!(status["held_s"].as_f64() > Some(0.0), "{status:#}");
    assert!(log.contains(" why=breakpoints "), "{log}");
    assert!(until(|| is_free(few.pid())));
    // It goes on, though he keeps one.
    assert!(until(|| is_leased(&scratch.status())));
    let resumed = begun.elapsed();
    println!("resumed after {resumed:?}");
    assert!(resumed > RESTS, "{resumed:?}: {}", scratch.log("log"));
    assert!(until(is_watched), "{}", scratch.log("log"));
    drop(taken);

    drop(few);
    let mut many = busy(&by_processor, MANY);
    let is_by_processor = || as_many_as(of_this_thread).len() == ALL - OF_LEASE;
    let (taken, begun) = take_beside(&scratch, is_by_processor, || as_many_as(of_this_thread));
    let has_all = asks(|| as_many_as(of_this_thread).len() + taken.len() == ALL);
    assert!(has_all, "{}", scratch.log("log"));
    println!("yielded within {:?}", begun.elapsed());
    assert!(until(|| is_free(many.pid())));

    scratch.end(&mut daemon, "log");
    assert!(many.ended().unwrap().is_none());
}

/// Takes breakpoints while somebody is watched, for which all leases end; those are kept. And when they were taken.
fn take_beside(
    scratch: &Scratch,
    is_watched: impl Fn() -> bool,
    take: impl Fn() -> Vec<OwnedFd>,
) -> (Vec<OwnedFd>, Instant) {
    for number in 1..=TRIES {
        assert!(until(&is_watched), "{}", scratch.log("log"));
        let begun = Instant::now();
        let taken = take();
        if !taken.is_empty() && asks(|| scratch.status()["held"] == "breakpoints") {
            println!("{} taken in try {number}", taken.len());
            return (taken, begun);
        }
    }
    panic!("{}", scratch.log("log"));
}

fn asks(mut is_so: impl FnMut() -> bool) -> bool {
    (0..ASKS).any(|_| {
        sleep(BETWEEN);
        is_so()
    })
}

/// Stalls of the leases that go on: at its beginning, one has no breakpoints yet.
fn stalls(status: &Value) -> u64 {
    let processes = status["processes"].as_array().unwrap().iter();
    let leases = processes.filter_map(|one| one["lease"]["stalls"].as_u64());
    leases.sum()
}
