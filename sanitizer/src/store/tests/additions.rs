//! Stores of a newer version that has only added something, and of one that has changed more.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{renew::execute, *};

also_with_postgres!(
    additions_are_gone_on_with,
    additions_of_too_new_a_kind_are_refused,
    what_is_not_said_to_only_add_is_refused,
);

const KNOWN: i64 = SCHEMA.migrations.len() as i64;

const NEXT: (i64, &str, &str) = (
    KNOWN + 1,
    "next",
    "ALTER TABLE race ADD COLUMN next BIGINT NOT NULL DEFAULT 7; ALTER TABLE sighting ADD COLUMN next BIGINT NOT NULL DEFAULT 7; CREATE TABLE next (id TEXT NOT NULL PRIMARY KEY); CREATE INDEX next_race ON race (next);",
);

const fn next(additions: &'static [(i64, i64)]) -> Schema {
    const MIGRATIONS: [(i64, &str, &str); KNOWN as usize + 1] = {
        let mut all = [NEXT; KNOWN as usize + 1];
        let mut at = 0;
        while at < SCHEMA.migrations.len() {
            all[at] = SCHEMA.migrations[at];
            at += 1;
        }
        all
    };
    Schema {
        migrations: &MIGRATIONS,
        additions,
        ..SCHEMA
    }
}

/// That of the next version, which only adds.
const ADDS: Schema = next(&[(KNOWN + 1, KNOWN)]);
/// The same, which wants more of those before it than this one does.
const WANTS_MORE: Schema = next(&[(KNOWN + 1, KNOWN + 1)]);
/// One that does not say what it does.
const CHANGES: Schema = next(&[]);

fn stamp(sequence: u64) -> Stamp<'static> {
    Stamp {
        sender: "0123456789abcdef0123456789abcdef",
        sequence,
        lost: Lost::default(),
    }
}

/// Check that a gwp-race of this version goes on with a store to which a newer one adds something while messages come, be it open or opened later: all is counted once, read, said and forgotten, and what was added has its
/// usual value.
#[test]
fn additions_are_gone_on_with() {
    let (_folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let hits = race("hits", "aa11", 0);
    store.write(&caught(&[&hits])).unwrap();
    let is_changed = AtomicBool::new(false);
    let received = scope(|scope| {
        let (is_changed, hits) = (&is_changed, &hits);
        let store = &mut store;
        let receiving = scope.spawn(move || {
            let mut after = 0;
            let mut sequence = 0;
            while after < 20 {
                after += u64::from(is_changed.load(Relaxed));
                sequence += 1;
                let batch = again(hits, &[at(0, 1)]);
                let received = store.receive(&stamp(sequence), &batch, at(0, 2));
                assert!(matches!(received, Ok(Received::New { .. })), "{received:?}");
                let again = store.receive(&stamp(sequence), &batch, at(0, 2));
                assert_eq!(again.unwrap(), Received::Before);
            }
            sequence
        });
        drop(Database::open(&address, Access::Existing, &ADDS).unwrap());
        is_changed.store(true, Relaxed);
        receiving.join().unwrap()
    });
    drop(store);
    let mut store = Store::open(&address, Access::Existing).unwrap();
    let other = race("total", "aa11", 1);
    store.write(&caught(&[&other])).unwrap();
    let races = store.races(at(1, 1)).unwrap();
    let times: i64 = races.iter().map(|race| race.times).sum();
    assert_eq!(times.unsigned_abs(), 2 + received);
    let minute = Duration::from_secs(60);
    let looked = store.look(minute, |store| store.details(&hits.identity.race, None, 0));
    assert_eq!(
        looked.unwrap().unwrap().row.times.unsigned_abs(),
        1 + received
    );
    let word = saying(&hits.identity.race, Verdict::Benign, None);
    store.triage(&word, at(1, 1)).unwrap();
    store.roll_up(at(90, 0)).unwrap();
    let name = other.identity.race.clone();
    assert_eq!(store.forget(&[name], at(9, 0)).unwrap().races, 1);
    drop(store);
    // The newer one finds what the older one has written.
    let mut newer = Database::open(&address, Access::Existing, &ADDS).unwrap();
    let next = newer.with(async |connection| {
        sqlx::query_scalar::<_, i64>("SELECT CAST(sum(next) AS BIGINT) FROM race")
            .fetch_one(connection)
            .await
    });
    assert_eq!(next.unwrap(), 7);
}

#[track_caller]
fn assert_refused(newer: &'static Schema) {
    let (_folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    store.write(&caught(&[&race("hits", "aa11", 0)])).unwrap();
    let mut changed = Database::open(&address, Access::Existing, newer).unwrap();
    let other = caught(&[&race("total", "aa11", 0)]);
    let opened = Store::open(&address, Access::Existing).err();
    for error in [store.write(&other).err(), opened] {
        let error = error.unwrap().to_string();
        let said = format!(
            "is of version {}, and this gwp-race knows up to {KNOWN}",
            KNOWN + 1
        );
        assert!(
            error.contains(&said) && error.contains("use the gwp-race"),
            "{error}"
        );
    }
    // What somebody adds to it who knows neither is not gone on with, either.
    execute(
        &mut changed,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (999, 'x', TRUE, '', 0)",
    );
    let error = Database::open(&address, Access::Existing, &ADDS).err();
    assert!(error.unwrap().to_string().contains("is of version 999"));
}

/// Check that what an addition can only be used with from a newer version on is refused.
#[test]
fn additions_of_too_new_a_kind_are_refused() {
    assert_refused(&WANTS_MORE);
}

/// Check that a store of a newer version that does not say that it only adds is refused, be it open or opened later, with what to do.
#[test]
fn what_is_not_said_to_only_add_is_refused() {
    assert_refused(&CHANGES);
}
