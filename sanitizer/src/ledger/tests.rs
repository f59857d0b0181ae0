//! Tests of ledgers on real files.

use std::{fs, path::PathBuf};

use tempfile::TempDir;

use super::*;
use crate::hunt::memory::{KnownFunction, Of};

const DAY: i64 = 86_400_000;
const WEEK: i64 = 7 * DAY;
const NOW: i64 = 2000 * WEEK;

fn scratch() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    (folder, path)
}

fn module(build: &str) -> Module {
    Module {
        name: "app".to_owned(),
        build: build.to_owned(),
    }
}

/// A function in which `came` threads came to one site; to none for 0.
fn function(at: u64, fingerprint: u64, came: f32) -> KnownFunction {
    let sites = (came > 0.0).then(|| (4, vec![(0, came)]));
    KnownFunction {
        at,
        fingerprint,
        sites: sites.into_iter().collect(),
        raced: Vec::new(),
    }
}

fn add(ledger: &mut Ledger, build: &str, functions: Vec<KnownFunction>, is_whole: bool, now: i64) {
    let mut gains = Gains::default();
    assert!(gains.is_empty());
    gains.add(&module(build), functions, is_whole);
    ledger.add(&gains, now).unwrap();
}

type All = (Vec<KnownFunction>, Vec<KnownFunction>, bool);

/// What is remembered of the same build, and of others, and whether all functions of one of those are known.
fn remembered(ledger: &mut Ledger, build: &str, now: i64) -> All {
    let (all, wrong) = ledger.remembered(&module(build), now).unwrap();
    assert_eq!(wrong, 0);
    let [(Of::Same, same), (Of::Others { is_whole }, others)] = &all[..] else {
        panic!("{all:?}");
    };
    let mut same = same.clone();
    same.sort_unstable_by_key(|function| function.at);
    (same, others.clone(), *is_whole)
}

/// Check that sums are kept of each function, that half of them is left after a week, also where a clock was put back, and that what others wrote counts as well.
#[test]
fn sums_are_kept() {
    let (_folder, path) = scratch();
    let mut ledger = Ledger::open(&path, HALF_LIFE).unwrap();
    add(
        &mut ledger,
        "aa",
        vec![function(16, 1, 8.0), function(32, 2, 0.0)],
        false,
        NOW,
    );
    let mut other = Ledger::open(&path, HALF_LIFE).unwrap();
    add(
        &mut other,
        "aa",
        vec![function(16, 1, 2.0), function(32, 2, 0.0)],
        true,
        NOW + WEEK,
    );
    drop(other);
    let (same, others, _) = remembered(&mut ledger, "aa", NOW + WEEK);
    assert_eq!(same, [function(16, 1, 6.0)]);
    assert!(others.is_empty());
    let (same, ..) = remembered(&mut ledger, "aa", NOW + 2 * WEEK);
    assert_eq!(same[0], function(16, 1, 3.0));
    let (same, ..) = remembered(&mut ledger, "aa", NOW - WEEK);
    assert_eq!(same[0], function(16, 1, 6.0));
    let (same, ..) = remembered(&mut ledger, "aa", i64::MAX);
    assert!(same.is_empty());
    // Other code at the same place.
    add(
        &mut ledger,
        "aa",
        vec![function(16, 3, 0.0)],
        false,
        NOW + WEEK,
    );
    let (same, ..) = remembered(&mut ledger, "aa", NOW + WEEK);
    assert!(same.is_empty());
    // What comes in pieces is added up before it is written.
    let mut gains = Gains::default();
    for fingerprint in [3, 3, 4] {
        gains.add(&module("aa"), vec![function(16, fingerprint, 1.0)], false);
    }
    ledger.add(&gains, NOW + WEEK).unwrap();
    let (same, ..) = remembered(&mut ledger, "aa", NOW + WEEK);
    assert_eq!(same[0], function(16, 4, 1.0));
}

/// Check that what is forgotten, and when, is as whoever opens it says.
#[test]
fn half_lives() {
    let (_folder, path) = scratch();
    let mut ledger = Ledger::open(&path, Duration::from_hours(24)).unwrap();
    add(&mut ledger, "aa", vec![function(16, 1, 8.0)], false, NOW);
    let (same, ..) = remembered(&mut ledger, "aa", NOW + DAY);
    assert_eq!(same, [function(16, 1, 4.0)]);
    add(
        &mut ledger,
        "aa",
        vec![function(16, 1, 1.0)],
        false,
        NOW + 2 * DAY,
    );
    let (same, ..) = remembered(&mut ledger, "aa", NOW + 2 * DAY);
    assert_eq!(same, [function(16, 1, 3.0)]);
    let mut other = Ledger::open(&path, HALF_LIFE).unwrap();
    let (same, ..) = remembered(&mut other, "aa", NOW + 2 * DAY + WEEK);
    assert_eq!(same, [function(16, 1, 1.5)]);
}

/// Check that functions of all other builds are told by their code, but nothing of several that have the same; that one of those builds is whole only where it was said so; and that where
/// there is no build id, functions are known by their code.
#[test]
fn other_builds_count() {
    let (_folder, path) = scratch();
    let mut ledger = Ledger::open(&path, HALF_LIFE).unwrap();
    add(
        &mut ledger,
        "aa",
        vec![function(16, 1, 8.0), function(32, 2, 1.0)],
        true,
        NOW,
    );
    add(
        &mut ledger,
        "bb",
        vec![
            function(64, 1, 4.0),
            function(96, 3, 1.0),
            function(128, 3, 2.0),
        ],
        false,
        NOW,
    );
    let expected = [
        function(0, 1, 12.0),
        function(0, 2, 1.0),
        function(0, 3, 0.0),
    ];
    assert_eq!(
        remembered(&mut ledger, "cc", NOW),
        (vec![], expected.into(), true)
    );
    let (same, others, is_whole) = remembered(&mut ledger, "aa", NOW);
    assert_eq!((same.len(), is_whole), (2, false));
    assert_eq!(others, [function(0, 1, 4.0)]);
    add(&mut ledger, "", vec![function(16, 7, 8.0)], false, NOW);
    let (same, others, _) = remembered(&mut ledger, "", NOW);
    assert!(same.is_empty() && others.contains(&function(0, 7, 8.0)));
    let (all, _) = ledger
        .remembered(
            &Module {
                name: "other".to_owned(),
                build: "aa".to_owned(),
            },
            NOW,
        )
        .unwrap();
    assert!(all.iter().all(|(_, functions)| functions.is_empty()));
}

/// Check that a build takes no more than a megabyte, of which what was learned last is kept, and that it is not whole then; and that builds which were not used for long are
/// forgotten.
#[test]
fn it_does_not_grow() {
    let (_folder, path) = scratch();
    let mut ledger = Ledger::open(&path, HALF_LIFE).unwrap();
    add(
        &mut ledger,
        "aa",
        vec![function(8, 8, 1.0)],
        false,
        NOW - DAY,
    );
    add(&mut ledger, "aa", vec![function(16, 1, 1.0)], true, NOW);
    // By itself, since it would be slow to add them one by one.
    let many = "INSERT INTO function
        WITH RECURSIVE many (number) AS (SELECT 2 UNION ALL SELECT number + 1 FROM many WHERE number < 40000)
        SELECT module, 16 * number, number, seen_in, seen FROM many, function WHERE at = 16";
    ledger
        .with(async |connection| sqlx::query(many).execute(connection).await)
        .unwrap();
    add(&mut ledger, "aa", vec![function(16, 1, 1.0)], true, NOW);
    let (same, ..) = remembered(&mut ledger, "aa", NOW);
    assert!((10_000..33_000).contains(&same.len()), "{}", same.len());
    assert!(same.iter().all(|function| function.at != 8));
    let (_, _, is_whole) = remembered(&mut ledger, "bb", NOW);
    assert!(!is_whole);
    for build in 0..20 {
        let name = format!("{build:02}");
        add(
            &mut ledger,
            &name,
            vec![function(16, build, 1.0)],
            true,
            NOW + build as i64,
        );
    }
    let (same, ..) = remembered(&mut ledger, "aa", NOW);
    assert!(same.is_empty());
    let (_, others, _) = remembered(&mut ledger, "bb", NOW + DAY);
    let known: Vec<_> = others.iter().map(|function| function.fingerprint).collect();
    assert_eq!(known, (12..20).collect::<Vec<_>>());
}

/// Check that records which can be none are left out and counted, whatever else they are, and that others can be added.
#[test]
fn nonsense_is_left_out() {
    let (_folder, path) = scratch();
    let mut ledger = Ledger::open(&path, HALF_LIFE).unwrap();
    let poison = [
        "UPDATE function SET seen_in = x'ff' WHERE at = 16",
        "UPDATE function SET seen_in = 'text' WHERE at = 16",
        "UPDATE function SET seen_in = 7 WHERE at = 16",
        "UPDATE function SET seen_in = zeroblob(60000) WHERE at = 16",
        "UPDATE function SET seen_in = x'010401000000c07f00' WHERE at = 16",
        "UPDATE function SET seen_in = x'01040100000080bf00' WHERE at = 16",
        "UPDATE function SET seen_in = x'010401c80000803f00' WHERE at = 16",
        "UPDATE function SET seen = 'never' WHERE at = 16",
        "UPDATE function SET fingerprint = 'none' WHERE at = 16",
        "UPDATE function SET at = -1 WHERE at = 16",
        "UPDATE function SET at = 'here' WHERE at = 16",
    ];
    for sql in poison {
        add(
            &mut ledger,
            "aa",
            vec![function(16, 1, 8.0), function(32, 2, 1.0)],
            true,
            NOW,
        );
        ledger
            .with(async |connection| sqlx::query(sql).execute(connection).await)
            .unwrap();
        for build in ["aa", "bb"] {
            let (all, wrong) = ledger.remembered(&module(build), NOW).unwrap();
            assert_eq!(wrong, 1, "{sql}");
            let told: usize = all.iter().map(|(_, functions)| functions.len()).sum();
            assert_eq!(told, 1, "{sql}");
        }
        add(&mut ledger, "aa", vec![function(16, 1, 8.0)], true, NOW);
        ledger
            .with(async |connection| {
                sqlx::query("DELETE FROM function")
                    .execute(connection)
                    .await
            })
            .unwrap();
    }
    // A build of which nothing can be known, and times that were never.
    for sql in [
        "UPDATE module SET is_whole = 'yes'",
        "UPDATE module SET used = 'never'",
        "UPDATE module SET used = 9223372036854775807",
    ] {
        add(&mut ledger, "aa", vec![function(16, 1, 8.0)], true, NOW);
        ledger
            .with(async |connection| sqlx::query(sql).execute(connection).await)
            .unwrap();
        assert!(ledger.remembered(&module("bb"), NOW).is_ok(), "{sql}");
    }
}

/// Check that files which are damaged or of something else are told as such or serve, and that nothing else comes of them, wherever they are damaged.
#[test]
fn damaged_files_are_no_crash() {
    let (folder, path) = scratch();
    let mut ledger = Ledger::open(&path, HALF_LIFE).unwrap();
    let many = (0..2000).map(|at| function(16 * at, at, 1.0)).collect();
    add(&mut ledger, "aa", many, true, NOW);
    drop(ledger);
    let whole = fs::read(&path).unwrap();
    let damaged = folder.path().join("damaged.db");
    let mut random = fastrand::Rng::with_seed(7);
    let (mut refused, mut served) = (0, 0);
    for round in 0..120 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(random.usize(..bytes.len())),
            1 => {
                let from = random.usize(..bytes.len());
                let to = (from + random.usize(..4096)).min(bytes.len());
                bytes[from..to].fill_with(|| random.u8(..));
            }
            _ => {
                for _ in 0..20 {
                    let at = random.usize(..bytes.len());
                    bytes[at] ^= 1 << random.u8(..8);
                }
            }
        }
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{end}", damaged.display()));
        }
        fs::write(&damaged, &bytes).unwrap();
        let mut gains = Gains::default();
        gains.add(&module("aa"), vec![function(16, 1, 1.0)], true);
        let result = Ledger::open(&damaged, HALF_LIFE).and_then(|mut ledger| {
            ledger.remembered(&module("aa"), NOW)?;
            ledger.remembered(&module("bb"), NOW)?;
            ledger.add(&gains, NOW)
        });
        match result {
            Ok(()) => served += 1,
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains(';'), "{error}");
            }
        }
    }
    println!("{refused} refused, {served} served");
    assert!(refused > 20 && served > 0);
}

/// Check that other files are refused, with what they are, and are as they were: of something else, of a store, and of a later version.
#[test]
fn other_files_are_refused() {
    let (folder, path) = scratch();
    let refused = |path: &Path| {
        let before = fs::read(path).unwrap();
        let error = Ledger::open(path, HALF_LIFE).err().unwrap().to_string();
        assert_eq!(fs::read(path).unwrap(), before);
        error
    };
    fs::write(&path, "a text that is no database at all. ".repeat(99)).unwrap();
    let error = refused(&path);
    assert!(
        error.contains("cannot use the ledger") && error.contains("none, or a damaged one"),
        "{error}"
    );
    let races = folder.path().join("races.db");
    let address = format!("sqlite:{}", races.display()).parse().unwrap();
    drop(crate::store::Store::open(&address, Access::Create).unwrap());
    assert!(refused(&races).contains("not of gwp-race"));
    let later = folder.path().join("later.db");
    let mut ledger = Ledger::open(&later, HALF_LIFE).unwrap();
    let sql = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9, 'x', TRUE, x'00', 0)";
    ledger
        .with(async |connection| sqlx::query(sql).execute(connection).await)
        .unwrap();
    drop(ledger);
    assert!(refused(&later).contains("the ledger") && refused(&later).contains("version 9"));
    assert!(Ledger::open(folder.path(), HALF_LIFE).is_err());
}

/// Check that what other machines have learned is remembered with what was learned here, that nothing of both counts twice, that half of it is forgotten as well, and that what is told later takes its place, all at once; and
/// that code is known by it in other builds.
#[test]
fn others_are_remembered() {
    let (_folder, path) = scratch();
    let mut ledger = Ledger::open(&path, HALF_LIFE).unwrap();
    assert_eq!(ledger.hint_tag(&module("aa")).unwrap(), None);
    add(
        &mut ledger,
        "aa",
        vec![
            function(16, 1, 8.0),
            function(32, 2, 1.0),
            function(48, 3, 1.0),
        ],
        false,
        NOW,
    );
    let told = [
        function(16, 1, 3.0),
        function(32, 2, 9.0),
        function(48, 7, 9.0),
        function(64, 4, 5.0),
    ];
    for _ in 0..2 {
        ledger.take_hints(&module("aa"), "t1", &told, NOW).unwrap();
    }
    ledger.take_hints(&module("bb"), "t2", &told, NOW).unwrap();
    assert_eq!(ledger.hint_tag(&module("aa")).unwrap().unwrap(), "t1");
    let (same, others, _) = remembered(&mut ledger, "aa", NOW);
    let expected = [
        function(16, 1, 8.0),
        function(32, 2, 9.0),
        function(48, 3, 1.0),
        function(64, 4, 5.0),
    ];
    assert_eq!(same, expected);
    assert_eq!(others.len(), 4);
    let (same, ..) = remembered(&mut ledger, "bb", NOW + WEEK);
    assert_eq!(same[1], function(32, 2, 4.5));
    // Nothing of it was learned here.
    let (_, others, is_whole) = remembered(&mut ledger, "cc", NOW);
    assert!(others.contains(&function(0, 4, 10.0)) && !is_whole);
    drop(ledger);
    let mut ledger = Ledger::open(&path, HALF_LIFE).unwrap();
    ledger
        .take_hints(&module("aa"), "t3", &told[..1], NOW)
        .unwrap();
    let (same, ..) = remembered(&mut ledger, "aa", NOW);
    assert_eq!((same.len(), &same[1]), (3, &function(32, 2, 1.0)));
}

/// Check that what others tell is bounded: functions of a build, and builds of a name.
#[test]
fn what_others_tell_is_bounded() {
    let (_folder, path) = scratch();
    let mut ledger = Ledger::open(&path, HALF_LIFE).unwrap();
    let many: Vec<_> = (0..30_000).map(|at| function(16 * at, at, 1.0)).collect();
    ledger.take_hints(&module("aa"), "t", &many, NOW).unwrap();
    let (same, ..) = remembered(&mut ledger, "aa", NOW);
    assert!((20_000..30_000).contains(&same.len()), "{}", same.len());
    for build in 0..20 {
        let name = format!("{build:02}");
        let told = [function(16, 1, 1.0)];
        ledger
            .take_hints(&module(&name), "t", &told, NOW + build)
            .unwrap();
    }
    assert!(remembered(&mut ledger, "aa", NOW).0.is_empty());
    let (_, others, _) = remembered(&mut ledger, "dd", NOW);
    assert_eq!(others, [function(0, 1, 8.0)]);
}

/// Check that what is told to others are the functions in which something was seen, of builds that can be named, in parts that are taken, and no more than may wait.
#[test]
fn what_is_shared_is_taken() {
    let mut gains = Gains::default();
    let many = (0..1000)
        .map(|at| function(at, at, (at % 2) as f32))
        .collect();
    gains.add(&module("aa"), many, true);
    gains.add(&module(""), vec![function(16, 1, 1.0)], true);
    let mut raced = function(16, 1, 1.0);
    let other = |at| crate::hunt::memory::Raced { at, with: (1, 2) };
    raced.raced = (0..100).map(other).collect();
    let wrong = function(32, 1, f32::INFINITY);
    gains.add(&module("bb"), vec![raced, wrong], false);
    let mut shared = Gains::default();
    shared.add_shared(&gains, 4096);
    shared.add_shared(&gains, 4096);
    let learned = shared.into_learned(NOW);
    for some in learned.chunks(crate::learned::MOST_LEARNED) {
        assert_eq!(crate::learned::check(some), Ok(()));
    }
    let all: Vec<_> = learned
        .iter()
        .flat_map(|learned| &learned.functions)
        .collect();
    assert_eq!(all.len(), 501);
    assert_eq!(*all[0], function(1, 1, 2.0));
    let mut shared = Gains::default();
    shared.add_shared(&gains, 100);
    let learned = shared.into_learned(NOW);
    let count: usize = learned.iter().map(|learned| learned.functions.len()).sum();
    assert_eq!(count, 100);
}
