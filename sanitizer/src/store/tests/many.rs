//! Several who use a store at once.

use std::{sync::mpsc, thread::scope};

use super::{error::Kind, *};

also_with_postgres!(
    made_by_two_at_once,
    written_by_many_at_once,
    locked_stores_are_waited_for,
);

/// Check that two who make the same store at once both succeed.
#[test]
fn made_by_two_at_once() {
    let (_folder, address) = scratch();
    scope(|scope| {
        for number in 0..4 {
            let address = &address;
            scope.spawn(move || {
                let mut store = Store::open(address, Access::Create).unwrap();
                store
                    .write(&caught(&[&race("hits", "aa11", number)]))
                    .unwrap();
            });
        }
    });
    let mut store = Store::open(&address, Access::Existing).unwrap();
    assert_eq!(store.races(0).unwrap()[0].times, 4);
}

/// Check that all that many write at once of the same races is there, each record once, whatever order each of them has.
#[test]
fn written_by_many_at_once() {
    const WRITERS: i64 = 4;
    const ROUNDS: i64 = 5;
    let (_folder, address) = scratch();
    drop(Store::open(&address, Access::Create).unwrap());
    scope(|scope| {
        for writer in 0..WRITERS {
            let address = &address;
            scope.spawn(move || {
                let mut store = Store::open(address, Access::Existing).unwrap();
                // Whose turn it is takes as long as it takes.
                store.set_patience(Duration::from_secs(60));
                for round in 0..ROUNDS {
                    let own = race("hits", "aa11", writer + WRITERS * round);
                    let common = race("total", "bb22", round);
                    let mut both = [&own, &common];
                    if writer % 2 == 0 {
                        both.reverse();
                    }
                    store.write(&caught(&both)).unwrap();
                    let saying = saying(&own.identity.race, Verdict::Benign, None);
                    store.triage(&saying, start()).unwrap();
                }
            });
        }
    });
    let mut store = Store::open(&address, Access::Existing).unwrap();
    let races = store.races(start()).unwrap();
    let times = |variable: &str| {
        let race = races.iter().find(|race| race.variable == variable);
        race.unwrap().times
    };
    assert_eq!(times("hits"), WRITERS * ROUNDS);
    assert_eq!(times("total"), ROUNDS);
    let said = store.said(&[&race("hits", "aa11", 0).identity.race]);
    let numbers: Vec<i64> = said.unwrap().iter().map(|said| said.number).collect();
    assert_eq!(numbers, (1..=WRITERS * ROUNDS).collect::<Vec<_>>());
}

/// Check that a store which somebody else has locked is told as such, takes what comes after that, and can be read meanwhile.
#[test]
fn locked_stores_are_waited_for() {
    let (_folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    store.write(&caught(&[&race("hits", "aa11", 0)])).unwrap();
    store.set_patience(Duration::from_millis(20));
    let mut other = Store::open(&address, Access::Existing).unwrap();
    let batch = caught(&[&race("total", "aa11", 1)]);
    scope(|scope| {
        let (hold, held) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        scope.spawn(move || {
            let holding = async |connection: &mut Connection| {
                let all = connect::begin(connection, &SCHEMA).await?;
                hold.send(()).unwrap();
                let _ = released.recv();
                all.rollback().await
            };
            other.with(holding).unwrap();
        });
        held.recv().unwrap();
        for _ in 0..2 {
            let error = store.write(&batch).unwrap_err();
            let is_locked = matches!(
                error,
                StoreError::Database {
                    kind: Kind::Locked,
                    ..
                }
            );
            assert!(is_locked, "{error}");
            assert_eq!(store.races(0).unwrap().len(), 1);
        }
        drop(release);
    });
    assert_eq!(store.write(&batch).unwrap(), 1);
    assert_eq!(store.races(0).unwrap().len(), 2);
}
