//! What hosts have learned, summed up.

use super::*;
use crate::{
    learned::{KnownFunction, Learned, Module, Raced, check},
    store::{Lost, Received, Stamp},
};

also_with_postgres!(
    sums_of_hosts_add_up,
    what_is_kept_is_bounded,
    old_builds_are_forgotten,
    the_first_code_stays,
);

const WEEK: i64 = 7 * DAY;
const HOSTS: [&str; 2] = [
    "0123456789abcdef0123456789abcdef",
    "fedcba9876543210fedcba9876543210",
];

fn module(build: &str) -> Module {
    Module {
        name: "app".to_owned(),
        build: build.to_owned(),
    }
}

/// A function in which `came` threads came to one site, at which a race was told.
fn function(at: u64, came: f32) -> KnownFunction {
    KnownFunction {
        at,
        fingerprint: u64::MAX,
        sites: vec![(4, vec![(0, came)])],
        raced: vec![Raced {
            at: 4,
            with: (u64::MAX, 8),
        }],
    }
}

fn learned(build: &str, at: i64, functions: Vec<KnownFunction>) -> Learned {
    Learned {
        module: module(build),
        at,
        functions,
    }
}

/// A message comes at a time; whether it is new.
fn comes(store: &mut Store, host: &str, sequence: u64, now: i64, mut learned: Learned) -> bool {
    learned.end_at(now);
    assert_eq!(check(&[learned.clone()]), Ok(()));
    let stamp = Stamp {
        sender: host,
        sequence,
        lost: Lost::default(),
    };
    let received = store.receive_all(&stamp, &Batch::default(), &[learned], now);
    received.unwrap() != Received::Before
}

/// Check that what several hosts have learned adds up, each message once; that half of it is forgotten in a week by the store's clock; that what is told late counts less, and what is told of the future not more.
#[test]
fn sums_of_hosts_add_up() {
    let (_folder, mut store) = store();
    let [one, other] = HOSTS;
    let all = |came| vec![function(16, came), function(32, 1.0)];
    assert!(comes(
        &mut store,
        one,
        1,
        start(),
        learned("aa", start(), all(8.0))
    ));
    assert!(!comes(
        &mut store,
        one,
        1,
        start(),
        learned("aa", start(), all(8.0))
    ));
    let ahead = learned("aa", start() + 9 * WEEK, all(2.0));
    assert!(comes(&mut store, other, 1, start(), ahead));
    let told = store.learned(&module("aa"), start()).unwrap();
    assert_eq!(told, [function(16, 10.0), function(32, 2.0)]);
    // What was told last is what nothing is forgotten of.
    let told = store.learned(&module("aa"), start() + WEEK).unwrap();
    assert_eq!(told[0], function(16, 10.0));
    let now = start() + WEEK;
    let late = learned("aa", start(), vec![function(16, 4.0)]);
    assert!(comes(&mut store, one, 2, now, late));
    let told = store.learned(&module("aa"), now).unwrap();
    assert_eq!(told, [function(16, 7.0), function(32, 1.0)]);
    // A collector's clock that was put back.
    let back = learned("aa", start() + WEEK, vec![function(16, 1.0)]);
    assert!(comes(&mut store, one, 3, start(), back));
    let told = store.learned(&module("aa"), start()).unwrap();
    assert_eq!(told[0], function(16, 8.0));
    assert!(store.learned(&module("bb"), start()).unwrap().is_empty());
    assert_eq!(store.learned_builds(start()).unwrap(), [module("aa")]);
    // Nobody can count more often than can be.
    assert!(comes(
        &mut store,
        one,
        4,
        now,
        learned("cc", now, vec![function(16, 9e9)])
    ));
    let told = store.learned(&module("cc"), now).unwrap();
    assert_eq!(told, [function(16, 1e5)]);
}

/// Check that a build takes a megabyte at most, of which what was told last is kept, and that of a name only some builds are kept, those that were told of last.
#[test]
fn what_is_kept_is_bounded() {
    let (_folder, mut store) = store();
    let large = |at: u64| {
        let mut large = function(at, 1.0);
        large.sites = (0..7000).map(|site| (site, vec![(0, 1.0)])).collect();
        large
    };
    for sequence in 1..=24_u64 {
        let now = start() + sequence.cast_signed();
        let more = learned("aa", now, vec![large(sequence)]);
        assert!(comes(&mut store, HOSTS[0], sequence, now, more));
    }
    let told = store.learned(&module("aa"), start()).unwrap();
    assert!((10..=18).contains(&told.len()), "{}", told.len());
    assert_eq!(told.last().unwrap().at, 24);
    let bytes: i64 = store
        .with(async |connection| {
            sqlx::query_scalar("SELECT bytes FROM learned_build")
                .fetch_one(connection)
                .await
        })
        .unwrap();
    let sizes = told
        .iter()
        .map(|one| one.seen_in().unwrap().len() as i64 + 32);
    assert_eq!(bytes, sizes.sum::<i64>());
    for build in 0..20 {
        let now = start() + 100 + build;
        let build = format!("{build:02}");
        let more = learned(&build, now, vec![function(1, 1.0)]);
        assert!(comes(&mut store, HOSTS[0], now.cast_unsigned(), now, more));
    }
    let builds = store.learned_builds(start()).unwrap();
    let builds: Vec<&str> = builds.iter().map(|module| &*module.build).collect();
    let expected: Vec<_> = (4..20).map(|build| format!("{build:02}")).collect();
    assert_eq!(builds, expected);
}

/// Check that a build of which nothing was told for long is told to nobody, and is forgotten when another one comes, or by pruning.
#[test]
fn old_builds_are_forgotten() {
    let (_folder, mut store) = store();
    let rows = |store: &mut Store| -> i64 {
        let count = store.with(async |connection| {
            sqlx::query_scalar("SELECT count(*) FROM learned")
                .fetch_one(connection)
                .await
        });
        count.unwrap()
    };
    let old = learned("aa", start(), vec![function(16, 1.0)]);
    assert!(comes(&mut store, HOSTS[0], 1, start(), old));
    let later = start() + 36 * DAY;
    assert!(store.learned(&module("aa"), later).unwrap().is_empty());
    assert!(store.learned_builds(later).unwrap().is_empty());
    assert_eq!(rows(&mut store), 1);
    let new = learned("bb", later, vec![function(16, 1.0), function(32, 1.0)]);
    assert!(comes(&mut store, HOSTS[0], 2, later, new));
    assert_eq!(rows(&mut store), 2);
    store.forget(&[], later).unwrap();
    assert_eq!(rows(&mut store), 2);
    store.forget(&[], later + 1).unwrap();
    assert_eq!(rows(&mut store), 0);
}

/// Check that of two hosts which say that other code is in the same place of a build the first one is believed, for a day after what he has said last.
#[test]
fn the_first_code_stays() {
    let (_folder, mut store) = store();
    let mut lie = function(16, 9.0);
    lie.fingerprint = 7;
    let says = |store: &mut Store, sequence, now, function: &KnownFunction| {
        let said = learned("aa", now, vec![function.clone()]);
        assert!(comes(store, HOSTS[0], sequence, now, said));
        store.learned(&module("aa"), now).unwrap()
    };
    assert_eq!(
        says(&mut store, 1, start(), &function(16, 1.0)),
        [function(16, 1.0)]
    );
    assert_eq!(says(&mut store, 2, start(), &lie)[0].fingerprint, u64::MAX);
    let late = start() + DAY + 1;
    assert_eq!(says(&mut store, 3, late, &lie)[0], lie);
}

/// Check that a record which can be none is left out, and does not keep anything from being added.
#[test]
fn nonsense_is_left_out() {
    let (_folder, mut store) = store();
    let all = || vec![function(16, 1.0), function(32, 1.0)];
    assert!(comes(
        &mut store,
        HOSTS[0],
        1,
        start(),
        learned("aa", start(), all())
    ));
    for (sequence, poison) in (2..).zip([
        "UPDATE learned SET seen_in = x'ff' WHERE place = 16",
        "UPDATE learned SET seen_in = 'text' WHERE place = 16",
        "UPDATE learned SET seen = 'never' WHERE place = 16",
        "UPDATE learned SET seen_in = x'01040100000080bf00' WHERE place = 16",
    ]) {
        store
            .with(async |connection| sqlx::query(poison).execute(connection).await)
            .unwrap();
        assert_eq!(
            store.learned(&module("aa"), start()).unwrap().len(),
            1,
            "{poison}"
        );
        assert!(comes(
            &mut store,
            HOSTS[0],
            sequence,
            start(),
            learned("aa", start(), all())
        ));
        assert_eq!(
            store.learned(&module("aa"), start()).unwrap().len(),
            2,
            "{poison}"
        );
    }
}
