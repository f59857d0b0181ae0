//! Tests of the store on real files, and on a real server.

/// Has tests that are about no engine run with PostgreSQL as well.
macro_rules! also_with_postgres {
    ($($test:ident),+ $(,)?) => {
        mod with_postgres {
            $(
                #[test]
                fn $test() {
                    crate::store::tests::with_postgres(super::$test);
                }
            )+
        }
    };
}

mod additions;
mod alias;
mod condense;
mod crossing;
mod days;
mod known;
mod learned;
mod look;
mod many;
mod page;
mod postgres;
mod receive;
mod renew;
mod robust;
mod roll_up;
mod server;
mod triage;

also_with_postgres!(
    what_is_put_in_comes_back,
    names_are_abbreviated,
    old_races_are_forgotten,
);

use std::{cell::Cell, fs, path::PathBuf, sync::mpsc, thread::scope, time::Duration};

use futures_executor::block_on;
use sqlx::{ConnectOptions as _, Connection as _, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

use super::*;
use crate::report::{Baseline, Race, identity, sample};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

thread_local! {
    static IS_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Has a test that is about no engine run with PostgreSQL.
fn with_postgres(test: fn()) {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            IS_WANTED.set(false);
        }
    }
    let _back = Back;
    IS_WANTED.set(true);
    test();
}

/// A database of its own for a test that is to run with PostgreSQL.
fn wanted_database() -> Option<Address> {
    IS_WANTED
        .get()
        .then(|| server::Server::shared().database().parse().unwrap())
}

/// A folder, and the name of a store in it; or that of one of PostgreSQL, where the test is to run with it.
fn scratch() -> (TempDir, Address) {
    let folder = tempfile::tempdir().unwrap();
    if let Some(address) = wanted_database() {
        return (folder, address);
    }
    let path = folder.path().join("races.db");
    let address = format!("sqlite:{}", path.display()).parse().unwrap();
    (folder, address)
}

fn store() -> (TempDir, Store) {
    let (folder, address) = scratch();
    let store = Store::open(&address, Access::Create).unwrap();
    (folder, store)
}

/// A race of this variable, caught in this build on a day after 2026-01-01.
fn race(variable: &str, build: &str, day: i64) -> Race {
    let mut race = sample::race();
    race.location.name = Some(variable.to_owned());
    race.build_id = Some(build.to_owned());
    race.time = rfc3339(start() + day * DAY);
    race.identity = identity(&race);
    race
}

fn start() -> i64 {
    millis_of("2026-01-01T00:00:00Z").unwrap()
}

fn caught(races: &[&Race]) -> Batch {
    let caught = races.iter().map(|&race| Caught {
        race: race.clone(),
        place: Whereabouts::on("web1"),
        times: 1,
        last: None,
    });
    Batch {
        caught: caught.collect(),
        ..Batch::default()
    }
}

/// An hour of a day after 2026-01-01.
fn at(day: i64, hour: i64) -> i64 {
    start() + day * DAY + hour * HOUR
}

/// The race was caught once more at each of these times.
fn again(race: &Race, times: &[i64]) -> Batch {
    let counted = times.iter().map(|last| Counted {
        race: race.identity.race.clone(),
        build: "aa11".to_owned(),
        exe: "/bin/app".to_owned(),
        place: Whereabouts::on("web1"),
        times: 1,
        last: *last,
    });
    Batch {
        counted: counted.collect(),
        ..Batch::default()
    }
}

/// Does something while somebody reads all sightings for long, of which there are so many.
fn beside_a_reader(address: &Address, sightings: i64, work: impl FnOnce()) {
    let mut reader = Store::open(address, Access::Existing).unwrap();
    scope(|scope| {
        let (hold, held) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        scope.spawn(move || {
            let look = async |connection: &mut Connection| {
                let mut all = connection.begin().await?;
                let sql = "SELECT count(*) FROM sighting";
                let rows: i64 = sqlx::query_scalar(sql).fetch_one(&mut *all).await?;
                hold.send(rows).unwrap();
                let _ = released.recv();
                all.rollback().await
            };
            reader.with(look).unwrap();
        });
        assert_eq!(held.recv().unwrap(), sightings);
        work();
        drop(release);
    });
}

fn saying(name: &str, state: Verdict, expires: Option<i64>) -> Saying {
    Saying {
        name: name.to_owned(),
        state,
        reason: "why".to_owned(),
        owner: Some("me".to_owned()),
        expires,
        who: "root".to_owned(),
    }
}

/// Check that races come back as they were put in, counted by where they were caught; that a record counts once, and that only so many are kept.
#[test]
fn what_is_put_in_comes_back() {
    let (_folder, mut store) = store();
    let first = race("hits", "aa11", 0);
    assert_eq!(store.write(&caught(&[&first])).unwrap(), 1);
    assert_eq!(store.write(&caught(&[&first])).unwrap(), 0);
    let known = Race {
        known: true,
        ..first.clone()
    };
    assert_eq!(store.write(&caught(&[&known])).unwrap(), 0);
    let mut often = caught(&[&race("often", "aa11", 0)]);
    (often.caught[0].times, often.caught[0].last) = (3, Some(start() + 50 * DAY));
    store.write(&often).unwrap();
    let races = store.races(start()).unwrap();
    let of = |race: &StoredRace| (race.times, race.first_seen, race.last_seen);
    assert_eq!(of(&races[0]), (3, start(), start() + 50 * DAY));
    store
        .forget(&[races[0].id.clone()], start() + 60 * DAY)
        .unwrap();
    let other = race("total", "aa11", 1);
    store.write(&caught(&[&other])).unwrap();
    for number in 0..30 {
        store
            .write(&caught(&[&race("hits", "bb22", 2 + number)]))
            .unwrap();
    }
    store
        .write(&Batch {
            counted: vec![Counted {
                race: first.identity.race.clone(),
                build: "aa11".to_owned(),
                exe: "/bin/app".to_owned(),
                place: Whereabouts {
                    host: "web1".to_owned(),
                    cgroup: "/app.slice".to_owned(),
                    container: "c0".to_owned(),
                },
                times: 5,
                last: start() + 40 * DAY,
            }],
            ..Batch::default()
        })
        .unwrap();
    let races = store.races(start()).unwrap();
    let [hits, total] = &races[..] else {
        panic!("{races:?}");
    };
    assert_eq!(hits.id, first.identity.race);
    assert_eq!((hits.times, hits.state), (36, State::New));
    assert_eq!(hits.first_seen, start());
    assert_eq!(hits.last_seen, start() + 40 * DAY);
    let seen: Vec<_> = hits
        .seen
        .iter()
        .map(|seen| (&*seen.build.id, &*seen.place.container, seen.times))
        .collect();
    assert_eq!(hits.seen[1].place.cgroup, "/app.slice");
    assert_eq!(seen, [("aa11", "", 1), ("aa11", "c0", 5), ("bb22", "", 30)]);
    assert_eq!(total.variable, "total");
    assert_eq!(store.evidence(&hits.id, Some("aa11")).unwrap(), [first]);
    assert_eq!(store.evidence(&hits.id, None).unwrap().len(), 21);
}

/// Check that names are known by their beginnings, and that those which several have, or none, are told with what to do.
#[test]
fn names_are_abbreviated() {
    let (_folder, mut store) = store();
    let race = race("hits", "aa11bb", 0);
    store.write(&caught(&[&race])).unwrap();
    let names = &race.identity;
    let pair = names.pair.as_deref().unwrap();
    let named = |store: &mut Store, text: &str| store.named(text).map_err(|e| e.to_string());
    for text in [&*names.race, &names.race[..8], &names.race[3..7]] {
        let found = named(&mut store, text);
        assert_eq!(found, Ok(Named::Race(names.race.clone())), "{text}");
    }
    assert_eq!(
        named(&mut store, &names.issue),
        Ok(Named::Issue(names.issue.clone()))
    );
    let found = named(&mut store, pair);
    assert_eq!(
        found,
        Ok(Named::Pair(pair.to_owned(), vec![names.race.clone()]))
    );
    let mut twin = race.clone();
    twin.identity.race = format!("{}{}", &names.race[..20], "0".repeat(15));
    twin.pid += 1;
    store.write(&caught(&[&twin])).unwrap();
    let error = named(&mut store, &names.race[..9]).unwrap_err();
    assert!(
        error.contains(&names.race) && error.contains(&twin.identity.race),
        "{error}"
    );
    for (text, said) in [
        ("r3:ab", "too short"),
        ("r3:ffff", "has no race"),
        ("", "too short"),
    ] {
        let error = named(&mut store, text).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    assert_eq!(store.build("aa11").unwrap().id, "aa11bb");
    let error = store.build("cc33").err().unwrap().to_string();
    assert!(error.contains("it has aa11bb"), "{error}");
}

/// Check that what is forgotten leaves nothing, and that what is kept stays whole.
#[test]
fn old_races_are_forgotten() {
    let (_folder, mut store) = store();
    let [old, new] = [race("hits", "aa11", 0), race("total", "bb22", 10)];
    store.write(&caught(&[&old, &new])).unwrap();
    for name in [&old.identity.race, &old.identity.issue] {
        store
            .triage(&saying(name, Verdict::Benign, None), start())
            .unwrap();
    }
    let before = start() + 5 * DAY;
    let pruned = store
        .forget(std::slice::from_ref(&old.identity.race), before)
        .unwrap();
    assert_eq!((pruned.races, pruned.builds), (1, 1));
    let races = store.races(start()).unwrap();
    let [left] = &races[..] else {
        panic!("{races:?}");
    };
    // What was said of the issue is about the other one, too.
    assert_eq!(
        (&*left.id, left.state),
        (&*new.identity.race, State::Benign)
    );
    assert!(store.said(&[&old.identity.race]).unwrap().is_empty());
    let pruned = store.forget(&[new.identity.race], before + 30 * DAY);
    assert_eq!(pruned.unwrap().builds, 1);
    assert!(store.said(&[&old.identity.issue]).unwrap().is_empty());
    assert!(store.builds().unwrap().is_empty());
}

/// Check that what is wrong with a file is told, with what to do, and costs nothing of what it has.
#[test]
fn files_that_are_no_stores() {
    let (folder, address) = scratch();
    let path = address.path().unwrap().to_owned();
    let refused = |address: &Address| {
        let error = Store::open(address, Access::Create).err();
        error.unwrap().to_string()
    };
    // Of another program.
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true);
    let mut other = block_on(options.connect()).unwrap();
    block_on(sqlx::query("CREATE TABLE song (name TEXT)").execute(&mut other)).unwrap();
    block_on(other.close()).unwrap();
    let before = fs::read(&path).unwrap();
    assert!(refused(&address).contains("not of gwp-race"));
    assert_eq!(fs::read(&path).unwrap(), before);

    fs::write(
        &path,
        "no database, but a text that is as long as the head of one. ".repeat(90),
    )
    .unwrap();
    let error = refused(&address);
    assert!(error.contains("it is none, or a damaged one"), "{error}");

    // Cut short.
    fs::remove_file(&path).unwrap();
    let mut store = Store::open(&address, Access::Create).unwrap();
    store.write(&caught(&[&race("hits", "aa11", 0)])).unwrap();
    drop(store);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let result = Store::open(&address, Access::Existing).and_then(|mut store| store.races(0));
    let error = result.unwrap_err().to_string();
    assert!(error.contains("a damaged one"), "{error}");

    // Written by a later version, of which nothing is known.
    fs::write(&path, &whole).unwrap();
    let mut later = block_on(options.connect()).unwrap();
    let sql = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (999, 'x', TRUE, x'00', 0)";
    block_on(sqlx::query(sql).execute(&mut later)).unwrap();
    block_on(later.close()).unwrap();
    let error = refused(&address);
    assert!(error.contains("is of version 999"), "{error}");

    let absent: Address = format!("sqlite:{}", folder.path().join("absent").display())
        .parse()
        .unwrap();
    let error = Store::open(&absent, Access::Existing).err().unwrap();
    assert!(error.to_string().contains("there is no"), "{error}");
    let name = PathBuf::from(folder.path());
    let folder: Address = format!("sqlite:{}", name.display()).parse().unwrap();
    assert!(refused(&folder).contains("name a file"));
}

/// Check that a store which has no room any more says so, keeps what it has, and takes no half of what is written.
#[test]
fn full_stores_keep_what_they_have() {
    let (_folder, mut store) = store();
    store.write(&caught(&[&race("hits", "aa11", 0)])).unwrap();
    let pages = store.with(async |connection| {
        let pages: i64 = sqlx::query_scalar("PRAGMA page_count")
            .fetch_one(&mut *connection)
            .await?;
        let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        sqlx::query(limit).execute(connection).await
    });
    pages.unwrap();
    let many: Vec<Race> = (1..20).map(|day| race("total", "bb22", day)).collect();
    let error = store.write(&caught(&many.iter().collect::<Vec<_>>()));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("make room there"), "{error}");
    // The limit was that of the connection: there is room again.
    assert_eq!(store.races(0).unwrap().len(), 1);
    assert_eq!(store.write(&caught(&[&many[0]])).unwrap(), 1);
}
