//! The locks that reports say that each side holds.

use std::collections::BTreeMap;

use gwp_race_tests::report::{Access, Lock, Race};
use gwp_race_tests::{Configuration, Program, Until, Watch, compile};

/// Catching a race takes luck, and so does that it is the thread with the lock which is stopped, or is stopped as well before it has released that: one try of
/// three at the least on a slow machine, of which each race has one.
const TRIES: u32 = 20;

/// The side that is in a function.
fn side<'a>(race: &'a Race, function: &str) -> Option<&'a Access> {
    let mut sides = race.accesses.iter();
    sides.find(|side| side.stack.first().is_some_and(|frame| frame.is(function)))
}

/// Its kind, for what it is held, and its name.
fn lock(access: &Access) -> Option<(&str, &str, Option<&str>)> {
    let [
        Lock {
            kind, mode, name, ..
        },
    ] = &access.holds[..]
    else {
        assert!(access.holds.is_empty(), "{access:?}");
        return None;
    };
    Some((kind, mode, name.as_deref()))
}

/// Check that each side is told to hold the lock under which it makes its access, of each kind that tells its owner, and read-write locks that it releases next, by its name where it has one;
/// and that neither a lock that was released, nor one that is taken afterwards, nor one of the other thread's is told.
#[test]
fn locks_of_each_kind_are_told() {
    let mutex = |name| Some(("mutex", "write", Some(name)));
    let reading = |name| Some(("rwlock", "read", Some(name)));
    let expected = BTreeMap::from([
        ("under_mutex", mutex("cache.lock")),
        ("under_guard", mutex("guarded")),
        ("under_recursive", mutex("recursive")),
        ("under_inheriting", mutex("inheriting")),
        ("under_robust", mutex("robust")),
        ("under_writer", Some(("rwlock", "write", Some("table")))),
        ("under_member", Some(("mutex", "write", None))),
        ("after_release", None),
        ("under_reader", reading("table")),
        ("among_many", reading("many")),
        ("under_first", mutex("cache.lock")),
    ]);
    let program = Program::new("races/held_locks.cpp");
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    let mut missing: Vec<&str> = expected.keys().copied().collect();
    for attempt in 1..=TRIES {
        let watch = Watch::aggressive();
        let outcome = watch.run(&built, &["6"], Until::End).unwrap();
        println!("try {attempt}: {:?}", outcome.report.summary);
        for race in &outcome.report.races {
            let of = expected
                .iter()
                .find_map(|(name, lock)| Some((*name, *lock, side(race, name)?)));
            let (name, expected, access) = of.unwrap_or_else(|| panic!("{race:?}"));
            let told = lock(access);
            // Nothing is known of a racing thread that was not stopped as well, where the other one was stopped in between by more than it takes to release a lock, nor where a busy machine
            // left too little of the time in which locks are sought.
            if told.is_none() && expected.is_some() {
                println!("try {attempt}: of {name} ({}) no lock is told", access.role);
                continue;
            }
            assert_eq!(told, expected, "{race:?}");
            let other = race.accesses.iter().find(|other| other.role != access.role);
            let other = other.and_then(lock);
            match name {
                "under_first" => assert!([None, mutex("other")].contains(&other), "{race:?}"),
                "among_many" => assert!([None, reading("many")].contains(&other), "{race:?}"),
                _ => assert_eq!(other, None, "{race:?}"),
            }
            missing.retain(|missing| *missing != name);
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("of {missing:?} nothing was told");
}

/// Check that a recursive mutex of musl is told, by the member that it is.
#[test]
fn a_lock_of_musl_is_told() {
    let program = Program::new("races/recursive_lock.c");
    let [shared, _] = Configuration::with_musl();
    let built = compile::program(&program, shared).unwrap();
    for attempt in 1..=TRIES {
        let outcome = Watch::aggressive()
            .run(&built, &["20"], Until::Race)
            .unwrap();
        println!("try {attempt}: {:?}", outcome.report.summary);
        let sides = outcome.report.races.first().map(|race| {
            let [holder, other] = ["take", "give_back"].map(|name| side(race, name).unwrap());
            assert_eq!(lock(other), None, "{race:?}");
            lock(holder).map(|(kind, _, name)| (kind.to_owned(), name.map(str::to_owned)))
        });
        if let Some(Some(told)) = sides {
            assert_eq!(told, ("mutex".to_owned(), Some("pool.lock".to_owned())));
            return;
        }
    }
    panic!("nothing was told");
}
