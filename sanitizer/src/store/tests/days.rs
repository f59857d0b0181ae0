//! Partitions of sightings by days, on a server.

use super::{server::Server, *};

/// A new store, and a race in it that was caught at the beginning of day 0.
fn with_race() -> (Address, Store, Race) {
    let address: Address = Server::shared().database().parse().unwrap();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let race = race("hits", "aa11", 0);
    receive(&mut store, 1, &caught(&[&race]), at(0, 0));
    (address, store, race)
}

fn receive(store: &mut Store, sequence: u64, batch: &Batch, now: i64) {
    let stamp = Stamp {
        sender: "0123456789abcdef0123456789abcdef",
        sequence,
        lost: Lost::default(),
    };
    let received = store.receive(&stamp, batch, now).unwrap();
    assert!(matches!(received, Received::New { .. }));
}

/// Partitions, with the rows of each and what these count together.
fn parts(store: &mut Store) -> Vec<(String, i64, i64)> {
    let parts = store.with(async |connection| {
        let names: Vec<String> = sqlx::query_scalar(
            "SELECT CAST(inhrelid::regclass AS TEXT) FROM pg_inherits WHERE inhparent = 'sighting'::regclass ORDER BY 1",
        )
        .fetch_all(&mut *connection)
        .await?;
        let mut parts = Vec::new();
        for name in names {
            let sql =
                format!("SELECT count(*), CAST(coalesce(sum(times), 0) AS BIGINT) FROM {name}");
            let (rows, times): (i64, i64) = sqlx::query_as(sqlx::AssertSqlSafe(sql))
                .fetch_one(&mut *connection)
                .await?;
            parts.push((name, rows, times));
        }
        Ok(parts)
    });
    parts.unwrap()
}

#[track_caller]
fn assert_parts(store: &mut Store, wanted: &[(&str, i64, i64)]) {
    let parts = parts(store);
    let parts: Vec<_> = (parts.iter())
        .map(|(name, rows, times)| (&**name, *rows, *times))
        .collect();
    assert_eq!(parts, wanted);
}

/// Check that the days to come have partitions before they begin, that what comes late gets one, and that what was seen by a wrong clock is there as well.
#[test]
fn days_have_partitions() {
    let (_address, mut store, race) = with_race();
    let ahead = [
        "sighting_20260101_1",
        "sighting_20260102_1",
        "sighting_20260103_1",
    ];
    let [first, second, third] = ahead;
    assert_parts(
        &mut store,
        &[
            (first, 1, 1),
            (second, 0, 0),
            (third, 0, 0),
            ("sighting_other", 0, 0),
        ],
    );
    let wrong = millis_of("1999-01-01T00:00:00Z").unwrap();
    let late = [at(0, 0), at(0, 1), at(1, 3), at(-3, 5), wrong];
    receive(&mut store, 2, &again(&race, &late), at(1, 4));
    assert_parts(
        &mut store,
        &[
            ("sighting_20251229_1", 1, 1),
            (first, 2, 3),
            (second, 1, 1),
            (third, 0, 0),
            ("sighting_20260104_1", 0, 0),
            ("sighting_other", 1, 1),
        ],
    );
    assert_eq!(store.races(at(1, 4)).unwrap()[0].times, 6);
}

/// Check that a day of a week ago is written anew with fewer rows, and that thirty of them become one partition, which takes what comes late; that nothing is lost of what is counted; and that
/// partitions of what was forgotten are dropped.
#[test]
fn old_days_are_dropped() {
    let (_address, mut store, race) = with_race();
    for day in 0..4 {
        let times = [at(day, 1), at(day, 2), at(day, 3)];
        let sequence = 2 + day.unsigned_abs();
        receive(&mut store, sequence, &again(&race, &times), at(day, 4));
    }
    assert_eq!(store.roll_up(at(9, 5)).unwrap().less, 3 + 2);
    assert_eq!(store.roll_up(at(9, 5)).unwrap().less, 0);
    assert_parts(
        &mut store,
        &[
            ("sighting_20260101_2", 1, 4),
            ("sighting_20260102_2", 1, 3),
            ("sighting_20260103_1", 3, 3),
            ("sighting_20260104_1", 3, 3),
            ("sighting_20260105_1", 0, 0),
            ("sighting_20260106_1", 0, 0),
            ("sighting_other", 0, 0),
        ],
    );
    let last = store.races(at(9, 5)).unwrap()[0].seen[0].hour;
    assert_eq!(store.roll_up(at(20, 0)).unwrap().less, 2 + 2);
    assert_parts(
        &mut store,
        &[("sighting_20251208_1", 4, 13), ("sighting_other", 0, 0)],
    );
    receive(&mut store, 9, &again(&race, &[at(0, 9)]), at(3, 4));
    assert_eq!(store.roll_up(at(20, 0)).unwrap().less, 1);
    assert_parts(
        &mut store,
        &[("sighting_20251208_2", 4, 14), ("sighting_other", 0, 0)],
    );
    let races = store.races(at(20, 0)).unwrap();
    assert_eq!((races[0].times, races[0].seen[0].hour), (14, last));
    let pruned = store.forget(std::slice::from_ref(&races[0].id), at(60, 0));
    assert_eq!(pruned.unwrap().races, 1);
    assert_parts(&mut store, &[("sighting_other", 0, 0)]);
}

/// Check that thirty days that are wholly older than is said are one partition with a row a machine, which takes the place of the one of before, and that others stay.
#[test]
fn blocks_are_condensed() {
    let (_address, mut store, race) = with_race();
    for day in 0_i64..37 {
        let sequence = 2 + day.unsigned_abs();
        let times = [at(day, 1), at(day, 2)];
        receive(&mut store, sequence, &again(&race, &times), at(day, 4));
    }
    store.roll_up(at(80, 0)).unwrap();
    let before = parts(&mut store);
    let [first, second, third] = ["20251208_1", "20260107_2", "20260206_2"];
    let wanted = [(first, 6, 13), (second, 30, 60), (third, 1, 2)];
    let wanted = wanted.map(|(name, rows, times)| (format!("sighting_{name}"), rows, times));
    assert_eq!(before[..3], wanted);
    // Of the second thirty days, one is not so old.
    assert_eq!(store.condense(at(35, 0)).unwrap().less, 6 - 2);
    assert_parts(
        &mut store,
        &[
            ("sighting_20251208_2", 2, 13),
            ("sighting_20260107_2", 30, 60),
            ("sighting_20260206_2", 1, 2),
            ("sighting_other", 0, 0),
        ],
    );
    assert_eq!(store.condense(at(36, 0)).unwrap().less, 30 - 2);
    assert_eq!(store.condense(at(36, 0)).unwrap().less, 0);
    assert_parts(
        &mut store,
        &[
            ("sighting_20251208_2", 2, 13),
            ("sighting_20260107_1", 2, 60),
            ("sighting_20260206_2", 1, 2),
            ("sighting_other", 0, 0),
        ],
    );
    assert_eq!(store.races(at(80, 0)).unwrap()[0].times, 75);
}

/// Check that one row which comes late for thirty days of many machines does not have all of them copied once more, and that more of them do.
#[test]
fn a_late_row_copies_nothing() {
    /// One row in so many is enough.
    const HOSTS: usize = 64;
    let (_address, mut store, race) = with_race();
    let of_hosts = |hosts: usize, hour: i64| {
        let mut batch = again(&race, &vec![at(0, hour); hosts]);
        for (number, counted) in batch.counted.iter_mut().enumerate() {
            counted.place = Whereabouts::on(format!("host{number}"));
        }
        batch
    };
    receive(&mut store, 2, &of_hosts(2 * HOSTS, 1), at(0, 4));
    store.roll_up(at(80, 0)).unwrap();
    assert_eq!(parts(&mut store)[0].1, 1 + 2 * HOSTS as i64);
    // Two rows are finer than they are to be where one has come late.
    for (hosts, less) in [(1, 0), (2, 1 + 2)] {
        let sequence = 2 + hosts as u64;
        let hour = 1 + hosts as i64;
        receive(&mut store, sequence, &of_hosts(hosts, hour), at(0, 4));
        assert_eq!(store.roll_up(at(80, 0)).unwrap().less, less, "{hosts}");
    }
}

/// Check that somebody who reads for long is not waited for, which is told, and that it is done the next time.
#[test]
fn a_long_look_keeps_days() {
    let (address, mut store, race) = with_race();
    for day in 0_i64..20 {
        let sequence = 2 + day.unsigned_abs();
        receive(
            &mut store,
            sequence,
            &again(&race, &[at(day, 1)]),
            at(day, 4),
        );
    }
    store.roll_up(at(80, 0)).unwrap();
    beside_a_reader(&address, 20, || {
        let (less, is_whole) = (0, false);
        let condensed = store.condense(at(80, 0)).unwrap();
        assert_eq!(condensed, Fewer { less, is_whole });
    });
    let (less, is_whole) = (6 - 2 + 14 - 2, true);
    let condensed = store.condense(at(80, 0)).unwrap();
    assert_eq!(condensed, Fewer { less, is_whole });
}

/// Check that what a store of before has of a time without partitions moves to one, where it is much; and that what a wrong clock has seen, which is little, stays.
#[test]
fn much_of_before_moves() {
    let (_address, mut store, race) = with_race();
    let put = store.with(async |connection| {
        sqlx::query(
            "INSERT INTO sighting SELECT $1, 'aa11', '', '', 'c' || (number / 2), $2 + number % 2, 1 FROM generate_series(0, 9999) AS number",
        )
        .bind(&race.identity.race)
        .bind(hour(at(-60, 0)))
        .execute(connection)
        .await
    });
    put.unwrap();
    let wrong = millis_of("1999-01-01T00:00:00Z").unwrap();
    let wrong = [wrong, wrong + HOUR];
    receive(&mut store, 2, &again(&race, &wrong), at(0, 0));
    assert_eq!(store.roll_up(at(0, 0)).unwrap().less, 5000 + 1);
    let parts = parts(&mut store);
    let first = ("sighting_20251009_1".to_owned(), 5000, 10_000);
    assert_eq!(parts.first(), Some(&first));
    let last = ("sighting_other".to_owned(), 1, 2);
    assert_eq!(parts.last(), Some(&last));
}

/// Check that of several who write at the beginning of a day none fails, and that each row is there once.
#[test]
fn several_begin_a_day() {
    const WRITERS: u64 = 4;
    let (address, mut store, race) = with_race();
    scope(|scope| {
        for writer in 0..WRITERS {
            let (address, race) = (&address, &race);
            scope.spawn(move || {
                let mut store = Store::open(address, Access::Existing).unwrap();
                store.set_patience(Duration::from_secs(60));
                for day in 10..20 {
                    let sequence = 2 + day * WRITERS + writer;
                    let day = day.cast_signed();
                    let batch = again(race, &[at(day, 1)]);
                    let stamp = Stamp {
                        sender: &format!("{sequence:032x}"),
                        sequence: 1,
                        lost: Lost::default(),
                    };
                    store.receive(&stamp, &batch, at(day, 2)).unwrap();
                }
            });
        }
    });
    let times = store.races(at(20, 0)).unwrap()[0].times;
    assert_eq!(times.unsigned_abs(), 1 + 10 * WRITERS);
    receive(&mut store, 2, &again(&race, &[at(20, 1)]), at(20, 2));
    let parts = parts(&mut store);
    let of_last_week = parts
        .iter()
        .filter(|(name, ..)| name > &"sighting_20260114".to_owned());
    let rows = of_last_week.map(|(name, rows, _)| i64::from(name != "sighting_other") * rows);
    assert_eq!(rows.sum::<i64>(), 8, "{parts:?}");
}

/// Check that nobody who writes is kept waiting where somebody reads for long when a day begins, and that the day has its partition afterwards.
#[test]
fn a_long_look_stops_nobody() {
    let (address, mut store, race) = with_race();
    beside_a_reader(&address, 1, || {
        receive(&mut store, 2, &again(&race, &[at(5, 1)]), at(5, 2));
    });
    let other = |store: &mut Store| {
        let parts = parts(store);
        parts.last().map(|(name, rows, _)| (name.clone(), *rows))
    };
    let name = "sighting_other".to_owned();
    assert_eq!(other(&mut store), Some((name.clone(), 1)));
    receive(&mut store, 3, &again(&race, &[at(5, 1)]), at(5, 3));
    assert_eq!(other(&mut store), Some((name, 0)));
    assert_eq!(store.races(at(5, 3)).unwrap()[0].times, 3);
}

/// The schema without days.
const WITHOUT_DAYS: Schema = Schema {
    migrations: SCHEMA.migrations.split_at(6).0,
    ..SCHEMA
};

/// A store as it was before days had partitions, in which a race was caught twice.
fn without_days() -> (Address, Store, Race) {
    let address: Address = Server::shared().database().parse().unwrap();
    let database = Database::open(&address, Access::Create, &WITHOUT_DAYS).unwrap();
    let mut before = Store {
        database,
        arranged: Some(hour(at(0, 0))),
    };
    let race = race("hits", "aa11", 0);
    receive(&mut before, 1, &caught(&[&race]), at(0, 0));
    receive(&mut before, 2, &again(&race, &[at(1, 1)]), at(0, 0));
    (address, before, race)
}

/// The file of a table.
fn file_of(store: &mut Store, table: &'static str) -> i64 {
    let file = store.with(async |connection| {
        sqlx::query_scalar(
            "SELECT CAST(pg_relation_filenode(CAST($1 AS TEXT)::regclass) AS BIGINT)",
        )
        .bind(table)
        .fetch_one(connection)
        .await
    });
    file.unwrap()
}

/// Check that what a store of before has becomes one partition when it is opened, without a copy, but for what a clock that was ahead has seen; that nothing moves when more comes; and that each row is there once.
#[test]
fn stores_of_before_are_not_written_anew() {
    let (address, mut before, race) = without_days();
    let ahead = millis_of("2999-01-01T00:00:00Z").unwrap();
    receive(&mut before, 3, &again(&race, &[ahead]), at(0, 0));
    let file = file_of(&mut before, "sighting");
    drop(before);
    let mut store = Store::open(&address, Access::Existing).unwrap();
    let old = "sighting_before";
    assert_parts(&mut store, &[(old, 2, 2), ("sighting_other", 1, 1)]);
    receive(&mut store, 4, &again(&race, &[at(0, 0)]), at(1, 2));
    assert_parts(&mut store, &[(old, 2, 3), ("sighting_other", 1, 1)]);
    assert_eq!(file_of(&mut store, old), file);
    // What comes after it has partitions.
    let today = millis(std::time::SystemTime::now());
    receive(&mut store, 5, &again(&race, &[today]), today + DAY);
    let days = parts(&mut store);
    assert!(days.len() > 3, "{days:?}");
    assert_eq!(days.iter().map(|(_, _, times)| times).sum::<i64>(), 5);
    // What a sighting refers to must be there, as before.
    let put = store.with(async |connection| {
        let sql = "INSERT INTO sighting VALUES ('r3:0', 'aa11', '', '', '', 490900, 1)";
        sqlx::query(sql).execute(connection).await
    });
    let error = put.unwrap_err().to_string();
    assert!(error.contains("foreign key"), "{error}");
}

/// Check that thirty days at a time leave what was before, with a row a day, that it is dropped with the last of them, and that nothing is lost, also of what clocks have seen that were wrong.
#[test]
fn what_was_before_goes_by_and_by() {
    let (address, mut before, race) = without_days();
    let put = before.with(async |connection| {
        for day in [-90, -30] {
            sqlx::query(
                "INSERT INTO sighting SELECT $1, 'aa11', '', '', 'c' || (number / 2), $2 + number % 2, 1 FROM generate_series(0, 9999) AS number",
            )
            .bind(&race.identity.race)
            .bind(hour(at(day, 0)))
            .execute(&mut *connection)
            .await?;
        }
        Ok(())
    });
    put.unwrap();
    let wrong = millis_of("1999-01-01T00:00:00Z").unwrap();
    receive(
        &mut before,
        3,
        &again(&race, &[wrong, wrong + HOUR]),
        at(0, 0),
    );
    drop(before);
    let mut store = Store::open(&address, Access::Existing).unwrap();
    // The first thirty days that are many are old, the others are not.
    assert_eq!(store.roll_up(at(-20, 0)).unwrap().less, 5000 + 1);
    assert_parts(
        &mut store,
        &[
            ("sighting_20250909_1", 5000, 10_000),
            ("sighting_before", 10_002, 10_002),
            ("sighting_other", 1, 2),
        ],
    );
    // All are.
    let now = millis(std::time::SystemTime::now()) + 60 * DAY;
    assert_eq!(store.roll_up(now).unwrap().less, 5000);
    let parts = parts(&mut store);
    let [first, second, _, other] = &parts[..] else {
        panic!("{parts:?}");
    };
    assert_eq!((first.1, second.1, second.2), (5000, 5000, 10_000));
    assert_eq!((&*other.0, other.1, other.2), ("sighting_other", 3, 4));
    assert_eq!(store.races(now).unwrap()[0].times, 20_004);
    assert_eq!(store.roll_up(now).unwrap().less, 0);
}
