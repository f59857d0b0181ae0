//! What is left of what is so old that nobody asks for days.

use super::*;
use crate::store::engine::Engine;

also_with_postgres!(
    sums_stay_when_days_go,
    what_comes_late_is_condensed,
    single_days_are_forgotten,
);

/// Days that have ended, and are to be forgotten: all of the blocks of thirty days that begin on 2025-12-08, 2026-01-07 and 2026-02-06, and not those of the next one.
const OLD: i64 = 66;
/// Pages tell single days after those.
const NOW: i64 = OLD + 60;

fn speaker() -> Speaker {
    Speaker {
        who: "root".to_owned(),
        reason: String::new(),
    }
}

/// Two races that were caught in two builds, on three hosts, in several containers, each day or now and then; the counts are different powers of two in part, so that none stands for another.
fn caught_for_long(store: &mut Store) -> [String; 2] {
    let races = [race("hits", "aa11", 3), race("total", "bb22", 5)];
    // On a server each of these days has a partition, as it would have if it were today.
    for day in 0..OLD + 20 {
        store.arrange(at(day, 0));
    }
    store
        .write(&caught(&races.iter().collect::<Vec<_>>()))
        .unwrap();
    let mut counted = Vec::new();
    for (which, race) in (0..).zip(&races) {
        for day in 3..OLD + 20 {
            for (host, step) in [("web1", 1), ("web2", 2), ("web3", 9), ("", 11)] {
                if day % step != which % step {
                    continue;
                }
                for build in ["aa11", "bb22"] {
                    // The second one came later.
                    if build == "bb22" && day < 30 {
                        continue;
                    }
                    counted.push(Counted {
                        race: race.identity.race.clone(),
                        build: build.to_owned(),
                        exe: "/bin/app".to_owned(),
                        place: Whereabouts {
                            host: host.to_owned(),
                            cgroup: format!("/pod{}", day % 3),
                            container: if step == 2 {
                                format!("c{}", day % 5)
                            } else {
                                String::new()
                            },
                        },
                        times: (1 << which) + 100 * day.unsigned_abs(),
                        // Any hour of a day.
                        last: at(day, day * 7 % 24),
                    });
                }
            }
        }
    }
    for counted in counted.chunks(100) {
        let batch = Batch {
            counted: counted.to_vec(),
            ..Batch::default()
        };
        store.write(&batch).unwrap();
    }
    races.map(|race| race.identity.race)
}

/// Rows that tell how often races were caught: those before the days that stay, and after.
fn rows(store: &mut Store) -> (i64, i64) {
    let rows = store.with(async |connection| {
        sqlx::query_as("SELECT CAST(sum(CASE WHEN hour < $1 THEN 1 ELSE 0 END) AS BIGINT), CAST(sum(CASE WHEN hour < $1 THEN 0 ELSE 1 END) AS BIGINT) FROM sighting")
            .bind(hour(at(OLD, 0)))
            .fetch_one(connection)
            .await
    });
    rows.unwrap()
}

/// Asserts that nothing is where rows are that have no partition of their own on a server: of those there are few there, and they become fewer in another way.
#[track_caller]
fn assert_in_partitions(store: &mut Store) {
    let rows = store.with(async |connection| {
        let engine = Engine::behind(connection);
        if !engine.is_server() {
            return Ok(0);
        }
        let sql = format!("SELECT count(*) FROM {}", engine.loose());
        sqlx::query_scalar::<_, i64>(sqlx::AssertSqlSafe(sql))
            .fetch_one(connection)
            .await
    });
    assert_eq!(rows.unwrap(), 0);
}

/// All that pages and lists show of sums, with the hours of the last times and the days of the first.
fn shown(store: &mut Store, names: &[String]) -> Vec<String> {
    let mut shown = Vec::new();
    for name in names {
        let details = store.details(name, None, at(NOW, 0)).unwrap().unwrap();
        let days = |[first, last]: [i64; 2]| [day_of(first), last];
        let mut all = vec![format!("{:?} {:?}", details.row, details.days)];
        for build in details.builds {
            let (days, times) = (days(build.hours), build.times);
            all.push(format!(
                "{} {days:?} {times} {:?}",
                build.build.id, build.days
            ));
        }
        for host in details.hosts {
            all.push(format!(
                "{} {:?} {}",
                host.host,
                days(host.hours),
                host.times
            ));
        }
        all[1..].sort_unstable();
        shown.append(&mut all);
    }
    for race in store.races(at(NOW, 0)).unwrap() {
        let mut seen: Vec<(String, String, i64, i64)> = Vec::new();
        for place in race.seen {
            let (build, host) = (place.build.id, place.place.host);
            match seen.iter_mut().find(|it| (&it.0, &it.1) == (&build, &host)) {
                Some(it) => (it.2, it.3) = (it.2 + place.times, it.3.max(place.hour)),
                None => seen.push((build, host, place.times, place.hour)),
            }
        }
        seen.sort_unstable();
        shown.push(format!(
            "{} {} {} {} {:?} {seen:?}",
            race.id, race.times, race.first_seen, race.last_seen, race.state
        ));
    }
    shown
}

/// Check that all sums, the days when first and the hours when last, stay as they were when old days go, also in what is merged and split afterwards, for which they are made anew from what is left; that there are much fewer rows, newer ones are not touched,
/// and a second time changes nothing.
#[test]
fn sums_stay_when_days_go() {
    let (_folder, mut store) = store();
    let [first, second] = caught_for_long(&mut store);
    assert!(store.roll_up(at(NOW, 0)).unwrap().is_whole);
    assert_in_partitions(&mut store);
    let names = [first.clone(), second.clone()];
    let apart = shown(&mut store, &names);
    store
        .merge(&first, &second, &speaker(), at(NOW, 0))
        .unwrap();
    let merged = shown(&mut store, &names);
    store.split(&first, &speaker(), at(NOW, 0)).unwrap();
    assert_eq!(shown(&mut store, &names), apart);
    let (old, newer) = rows(&mut store);

    let told = store.condensable(at(OLD, 0)).unwrap();
    let Fewer { less, is_whole } = store.condense(at(OLD, 0)).unwrap();
    assert!(is_whole);
    let (left, still) = rows(&mut store);
    assert_eq!((left, still), (old - less.cast_signed(), newer));
    assert_eq!((told.now, told.left), (old, left));
    // Two races, three blocks of thirty days, two builds, and four hosts, one of which nobody knows: each has a row, and some have two or three.
    assert!(
        left <= 2 * 3 * 2 * 4 * 3 && left * 4 < old,
        "{left} of {old}"
    );
    assert_eq!(shown(&mut store, &names), apart);
    assert_eq!(store.condense(at(OLD, 0)).unwrap().less, 0);
    assert_eq!(store.roll_up(at(NOW, 0)).unwrap().less, 0);
    assert_eq!(store.condensable(at(OLD, 0)).unwrap(), Rows::default());

    store
        .merge(&first, &second, &speaker(), at(NOW, 0))
        .unwrap();
    assert_eq!(shown(&mut store, &names), merged);
    store.split(&first, &speaker(), at(NOW, 0)).unwrap();
    assert_eq!(shown(&mut store, &names), apart);

    // Forgotten with all there is.
    store.forget(&names, at(NOW, 0)).unwrap();
    assert_eq!(store.races(at(NOW, 0)).unwrap(), []);
}

/// Check that what a host sends of a time that is condensed already counts, and is condensed the next time.
#[test]
fn what_comes_late_is_condensed() {
    let (_folder, mut store) = store();
    let names = caught_for_long(&mut store);
    store.roll_up(at(NOW, 0)).unwrap();
    assert_in_partitions(&mut store);
    store.condense(at(OLD, 0)).unwrap();
    let times = |store: &mut Store| {
        let details = store.details(&names[0], None, at(NOW, 0)).unwrap().unwrap();
        details.row.times
    };
    let (before, (left, newer)) = (times(&mut store), rows(&mut store));
    let late = Counted {
        race: names[0].clone(),
        build: "aa11".to_owned(),
        exe: "/bin/app".to_owned(),
        place: Whereabouts {
            host: "web1".to_owned(),
            cgroup: "/late".to_owned(),
            container: String::new(),
        },
        times: 5,
        last: at(40, 3),
    };
    let batch = Batch {
        counted: vec![late],
        ..Batch::default()
    };
    store.write(&batch).unwrap();
    assert_eq!(rows(&mut store), (left + 1, newer));
    assert_in_partitions(&mut store);
    store.roll_up(at(NOW, 0)).unwrap();
    assert_eq!(store.condense(at(OLD, 0)).unwrap().less, 1);
    assert_eq!(rows(&mut store), (left, newer));
    assert_eq!(times(&mut store), before + 5);
}

/// Check that counts of single days go as well, and that those of newer days stay.
#[test]
fn single_days_are_forgotten() {
    let (_folder, mut store) = store();
    caught_for_long(&mut store);
    store.condense(at(OLD, 0)).unwrap();
    let days = store.with(async |connection| {
        sqlx::query_as("SELECT min(day), count(DISTINCT day) FROM race_day")
            .fetch_one(connection)
            .await
    });
    let days: (i64, i64) = days.unwrap();
    assert_eq!(days, (day_of(hour(at(OLD, 0))), 20));
}
