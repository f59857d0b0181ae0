//! What pages read: the same as lists of the whole store, from summaries.

use std::collections::{BTreeMap, BTreeSet};

use super::{renew::execute, *};
use crate::store::{
    page::{Filter, List, Mark, Row},
    summary,
};

also_with_postgres!(
    lists_are_as_without_summaries,
    details_add_up,
    builds_are_compared,
    summaries_are_made_of_sightings,
    stores_of_before_catch_up,
);

/// Leaves of races what stores of before the sixth version have of them.
fn forget_summaries(address: &Address, which: &str) {
    let mut file = Database::open(address, Access::Existing, &SCHEMA).unwrap();
    for table in ["race_day", "race_build", "race_host"] {
        let sql = format!("DELETE FROM {table} WHERE race IN (SELECT id FROM race WHERE {which})");
        execute(&mut file, &sql);
    }
    let sql = format!(
        "UPDATE race SET counts_as = id, issue_as = issue, first_caught = 0, last_caught = 0, times = 0, builds = 0, hosts = 0, triage = 0, search_text = '', behind = 1 WHERE {which}"
    );
    execute(&mut file, &sql);
}

const BUILDS: [&str; 3] = ["aa11", "bb22", "exe:/opt/bin/plain"];
const HOSTS: [&str; 3] = ["web1", "web2", ""];

/// A race of this variable in this build, which may be one without a build id.
fn race_in(variable: &str, build: &str, day: i64) -> Race {
    let mut race = race(variable, build, day);
    if let Some(path) = build.strip_prefix("exe:") {
        race.build_id = None;
        path.clone_into(&mut race.exe);
    }
    assert_eq!(race.build(), build);
    race
}

/// A store in which much has happened, always the same; with races that were merged, or without.
fn busy_store(are_merged: bool) -> (TempDir, Address, Store) {
    let (folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let mut random = fastrand::Rng::with_seed(29);
    let mut names: Vec<String> = Vec::new();
    for step in 0..150 {
        let variable = format!("v{}", random.u32(0..12));
        let build = BUILDS[random.usize(0..BUILDS.len())];
        let race = race_in(&variable, build, random.i64(0..20));
        let place = Whereabouts {
            host: HOSTS[random.usize(0..HOSTS.len())].to_owned(),
            container: format!("c{}", random.u32(0..2)),
            ..Whereabouts::default()
        };
        let last = start() + random.i64(0..20 * DAY);
        let counted = Counted {
            race: race.identity.race.clone(),
            build: race.build(),
            exe: race.exe.clone(),
            place: place.clone(),
            times: random.u64(1..9),
            last,
        };
        let mut batch = Batch::default();
        if random.bool() {
            batch.counted.push(counted);
        } else {
            batch.caught.push(Caught {
                race: race.clone(),
                place,
                times: random.u64(1..4),
                last: random.bool().then_some(last),
            });
        }
        store.write(&batch).unwrap();
        if step % 2 == 0 {
            let words = [
                Verdict::New,
                Verdict::Acknowledged,
                Verdict::Confirmed,
                Verdict::Benign,
                Verdict::Fixed,
                Verdict::Fixed,
            ];
            // Every race of these is of one issue.
            let name = if step % 40 == 0 {
                &race.identity.issue
            } else {
                &race.identity.race
            };
            let expires = (step % 5 == 0).then_some(start() + random.i64(0..30 * DAY));
            let saying = saying(name, words[random.usize(0..words.len())], expires);
            let said = start() + random.i64(0..20 * DAY);
            store.triage(&saying, said).unwrap();
        }
        names.push(race.identity.race);
        if are_merged && step > 50 && step % 9 == 0 {
            // What cannot be merged or split is refused.
            let [one, other] = [0, 0].map(|_| names[random.usize(0..names.len())].clone());
            let _ = store.merge(&one, &other, &Speaker::default(), start());
        }
        if are_merged && step % 20 == 19 {
            let _ = store.split(
                &names[random.usize(0..names.len())],
                &Speaker::default(),
                start(),
            );
        }
    }
    // Each state is there.
    let states = [
        (Verdict::New, start()),
        (Verdict::Acknowledged, start()),
        (Verdict::Confirmed, start()),
        (Verdict::Benign, start()),
        (Verdict::Fixed, start() - DAY),
        (Verdict::Fixed, start() + 30 * DAY),
    ];
    let races = store.races(start()).unwrap();
    assert!(races.len() >= states.len());
    for (race, (word, said)) in races.iter().zip(states) {
        store.triage(&saying(&race.id, word, None), said).unwrap();
    }
    (folder, address, store)
}

fn whole(store: &mut Store, filter: &Filter, now: i64) -> Vec<Row> {
    let list = store.list(filter, None, 1000, now).unwrap();
    assert_eq!(list.next, None);
    list.races
}

fn names(races: &[Row]) -> Vec<&str> {
    races.iter().map(|race| &*race.id).collect()
}

/// Check that the list has the races in their order, with states and counts, as they are without summaries; that each condition chooses the same ones; and that parts of it make up the whole.
#[test]
fn lists_are_as_without_summaries() {
    let (_folder, _address, mut store) = busy_store(true);
    let mut seen_states = BTreeSet::new();
    for now in [start() + 5 * DAY, start() + 21 * DAY, start() + 40 * DAY] {
        let races = store.races(now).unwrap();
        let listed = whole(&mut store, &Filter::default(), now);
        assert_eq!(listed.len(), races.len());
        assert!(races.len() > 5);
        assert!(races.iter().any(|race| !race.merged.is_empty()));
        for (row, race) in listed.iter().zip(&races) {
            assert_eq!((&row.id, &row.issue), (&race.id, &race.issue));
            assert_eq!((row.state, row.times), (race.state, race.times), "{race:?}");
            assert_eq!(
                (row.first_seen, row.last_seen),
                (race.first_seen, race.last_seen)
            );
            let builds: BTreeSet<&str> = race.seen.iter().map(|seen| &*seen.build.id).collect();
            let hosts: BTreeSet<&str> = race.seen.iter().map(|seen| &*seen.place.host).collect();
            let hosts = hosts.iter().filter(|host| !host.is_empty()).count();
            assert_eq!(row.builds, builds.len() as i64);
            assert_eq!(row.hosts, hosts as i64);
            seen_states.insert(row.state.name());
        }
        let races_there = races.len() as i64;
        let mut check = |filter: &Filter, is_chosen: &dyn Fn(&StoredRace) -> bool| {
            let chosen = races.iter().filter(|race| is_chosen(race));
            let chosen: Vec<&str> = chosen.map(|race| &*race.id).collect();
            let listed = whole(&mut store, filter, now);
            assert_eq!(names(&listed), chosen, "{filter:?}");
            let mut parts = Vec::new();
            let mut from: Option<Mark> = None;
            loop {
                let List { races, next, all } = store.list(filter, from.as_ref(), 2, now).unwrap();
                assert_eq!(all, races_there);
                parts.extend(races);
                from = next;
                if from.is_none() {
                    break;
                }
            }
            assert_eq!(parts, listed);
        };
        for state in State::ALL {
            let filter = Filter {
                states: vec![state],
                ..Filter::default()
            };
            check(&filter, &|race| race.state == state);
        }
        let filter = Filter {
            states: vec![State::Fixed, State::New],
            build: Some("aa11".to_owned()),
            text: Some("V1".to_owned()),
            ..Filter::default()
        };
        check(&filter, &|race| {
            [State::Fixed, State::New].contains(&race.state)
                && race.seen.iter().any(|seen| seen.build.id == "aa11")
                && race.variable.starts_with("v1")
        });
        let filter = Filter {
            host: Some("web2".to_owned()),
            ..Filter::default()
        };
        check(&filter, &|race| {
            race.seen.iter().any(|seen| seen.place.host == "web2")
        });
        for (text, all) in [("WORKER.c", true), ("%", false), ("_", false), ("!", false)] {
            let filter = Filter {
                text: Some(text.to_owned()),
                ..Filter::default()
            };
            check(&filter, &|_| all);
        }
        let filter = Filter {
            issue: Some(races[0].issue.clone()),
            ..Filter::default()
        };
        check(&filter, &|_| true);
    }
    assert_eq!(seen_states.len(), State::ALL.len(), "{seen_states:?}");
}

/// Check that a race's page has all that was counted of it, by build, host and day, and the record that is asked for.
#[test]
fn details_add_up() {
    let (_folder, _address, mut store) = busy_store(true);
    let now = start() + 21 * DAY;
    for race in store.races(now).unwrap() {
        let details = store.details(&race.id, None, now).unwrap().unwrap();
        assert_eq!(details.merged, race.merged);
        for name in &race.merged {
            let same = store.details(name, None, now).unwrap().unwrap();
            assert_eq!(same.row, details.row);
        }
        let sum = |times: &mut dyn Iterator<Item = i64>| times.sum::<i64>();
        let builds = sum(&mut details.builds.iter().map(|build| build.times));
        let days = sum(&mut details.days.iter().map(|day| day.times));
        assert_eq!([builds, days], [race.times; 2]);
        let of_hosts = race.seen.iter().filter(|seen| !seen.place.host.is_empty());
        let hosts = sum(&mut details.hosts.iter().map(|host| host.times));
        assert_eq!(hosts, sum(&mut of_hosts.map(|seen| seen.times)));
        let own: BTreeSet<&str> = (details.builds.iter())
            .map(|seen| &*seen.build.id)
            .collect();
        assert!(details.others.iter().all(|build| !own.contains(&*build.id)));
        let lately: i64 = details.row.days.iter().sum();
        let of_builds = details.builds.iter().flat_map(|build| &build.days);
        assert_eq!(lately, of_builds.sum::<i64>());
        let after = hour(start() + 7 * DAY) / 24;
        let expected = details.days.iter().filter(|day| day.day > after);
        assert_eq!(lately, expected.map(|day| day.times).sum::<i64>());

        let mut reports = store.evidence(&race.id, None).unwrap();
        assert_eq!(details.evidence.len(), reports.len().min(20));
        let Some(oldest) = details.evidence.last() else {
            assert!(details.record.is_none());
            continue;
        };
        let (shown, _) = details.record.as_ref().unwrap();
        assert_eq!(shown.digest, details.evidence[0].digest);
        let asked = store.details(&race.id, Some(&oldest.digest), now).unwrap();
        let (_, record) = asked.unwrap().record.unwrap();
        reports.truncate(20);
        assert!(reports.contains(&record));
        assert_eq!(millis_of(&record.time), Some(oldest.caught));
        assert!(store.details(&race.id, Some("00"), now).unwrap().is_none());
    }
    assert!(store.details("r3:00", None, now).unwrap().is_none());
}

/// Check that builds of the same program in which a race was not caught are named, and those of others not.
#[test]
fn other_builds() {
    let (_folder, mut store) = store();
    let mut elsewhere = race("else", "cc33", 0);
    elsewhere.exe = "/opt/bin/other".to_owned();
    let races = [race("hits", "aa11", 0), race("total", "bb22", 1), elsewhere];
    store
        .write(&caught(&races.iter().collect::<Vec<_>>()))
        .unwrap();
    let details = store.details(&races[0].identity.race, None, start());
    let details = details.unwrap().unwrap();
    let others: Vec<&str> = details.others.iter().map(|build| &*build.id).collect();
    assert_eq!(others, ["bb22"]);
    assert_eq!(details.of_issue, 3);
    let builds = store.newest_builds(2).unwrap();
    assert_eq!(builds[0].id, "bb22");
    assert_eq!(builds.len(), 2);
}

/// Check that two builds are compared as by `races diff`, and that counts are of all while some are shown.
#[test]
fn builds_are_compared() {
    let (_folder, _address, mut store) = busy_store(true);
    let now = start() + 21 * DAY;
    let races = store.races(now).unwrap();
    for pair in [
        ["aa11", "bb22"],
        ["exe:/opt/bin/plain", "aa11"],
        ["aa11", "none"],
    ] {
        let compared = store.compared(pair, 1000, now).unwrap();
        let mut expected: BTreeMap<[bool; 2], Vec<&str>> = BTreeMap::new();
        for race in &races {
            let is_in = pair.map(|build| race.seen.iter().any(|seen| seen.build.id == build));
            expected.entry(is_in).or_default().push(&race.id);
        }
        for (found, key) in [
            (&compared.new, [false, true]),
            (&compared.gone, [true, false]),
            (&compared.both, [true, true]),
        ] {
            let expected = expected.remove(&key).unwrap_or_default();
            assert_eq!(names(&found.races), expected, "{pair:?} {key:?}");
            assert_eq!(found.all, expected.len() as i64);
        }
        let short = store.compared(pair, 1, now).unwrap();
        assert_eq!(short.gone.all, compared.gone.all);
        assert!(short.gone.races.len() <= 1);
    }
}

/// Check that summaries are the same whether they were kept with each sighting, made of a store of before that had none, of all races or of those that somebody has left, with merged races or without; and that they go with their race.
#[test]
fn summaries_are_made_of_sightings() {
    let now = start() + 21 * DAY;
    let snapshot = |store: &mut Store| {
        let races = whole(store, &Filter::default(), now);
        let details = races.iter().map(|race| {
            let details = store.details(&race.id, None, now).unwrap().unwrap();
            format!(
                "{:?} {:?} {:?} {:?}",
                details.merged, details.builds, details.hosts, details.days
            )
        });
        let details: Vec<String> = details.collect();
        let of_text = |text: &str| Filter {
            text: Some(text.to_owned()),
            ..Filter::default()
        };
        let found = ["v1", "v2", "worker.c"].map(|text| whole(store, &of_text(text), now).len());
        assert!(found[2] > 0);
        (races, details, found)
    };
    for are_merged in [false, true] {
        let (_folder, address, mut store) = busy_store(are_merged);
        let kept = snapshot(&mut store);
        for race in &kept.0 {
            let renewed = store.with(async |connection| summary::renew(connection, &race.id).await);
            renewed.unwrap();
        }
        assert_eq!(snapshot(&mut store), kept);
        drop(store);
        for which in ["1 = 1", "substr(id, 4, 1) < '8'"] {
            forget_summaries(&address, which);
            let mut store = Store::open(&address, Access::Existing).unwrap();
            assert_eq!(snapshot(&mut store), kept, "{which}");
        }
        let mut store = Store::open(&address, Access::Existing).unwrap();
        let all: Vec<String> = kept.0.iter().map(|race| race.id.clone()).collect();
        store.forget(&all, start() + 90 * DAY).unwrap();
        let left: i64 = store
            .with(async |connection| {
                sqlx::query_scalar(
                    "SELECT (SELECT count(*) FROM race_day) + (SELECT count(*) FROM race_build) + (SELECT count(*) FROM race_host)",
                )
                .fetch_one(connection)
                .await
            })
            .unwrap();
        assert_eq!(left, 0);
    }
}

/// Check that races of a store that was made before names were merged for pages are shown together when it is opened, however many there are; and so is what somebody has caught who keeps no summaries.
#[test]
fn stores_of_before_catch_up() {
    let (_folder, address) = scratch();
    let races: Vec<Race> = (0..70)
        .map(|number| race(&format!("v{number}"), "aa11", 0))
        .collect();
    let mut store = Store::open(&address, Access::Create).unwrap();
    store
        .write(&caught(&races.iter().collect::<Vec<_>>()))
        .unwrap();
    let [one, other] = [0, 69].map(|number| &*races[number].identity.race);
    store
        .merge(one, other, &Speaker::default(), start())
        .unwrap();
    let all = whole(&mut store, &Filter::default(), start());
    assert_eq!(all.len(), 69);
    drop(store);
    forget_summaries(&address, "1 = 1");
    let mut store = Store::open(&address, Access::Existing).unwrap();
    assert_eq!(whole(&mut store, &Filter::default(), start()), all);
    let later = start() + DAY;
    let sql = format!(
        "UPDATE sighting SET hour = {}, times = 7 WHERE race = '{one}'",
        hour(later)
    );
    execute(&mut store.database, &sql);
    let sql = format!("UPDATE race SET last_seen = {later} WHERE id = '{one}'");
    execute(&mut store.database, &sql);
    drop(store);
    let mut store = Store::open(&address, Access::Existing).unwrap();
    let first = whole(&mut store, &Filter::default(), later).swap_remove(0);
    assert_eq!((&*first.id, first.times), (other, 8));
    assert_eq!(first.last_seen, later);
}

/// Check that a race whose issue was judged before it was found has that state.
#[test]
fn words_of_issues_hold_for_new_races() {
    let (_folder, mut store) = store();
    let [one, other] = ["hits", "total"].map(|variable| race(variable, "aa11", 0));
    store.write(&caught(&[&one])).unwrap();
    let word = saying(&one.identity.issue, Verdict::Benign, None);
    store.triage(&word, start()).unwrap();
    store.write(&caught(&[&other])).unwrap();
    let races = whole(&mut store, &Filter::default(), start());
    assert!(races.iter().all(|race| race.state == State::Benign));
    assert_eq!(races.len(), 2);
    let details = store.details(&other.identity.race, None, start());
    assert_eq!(details.unwrap().unwrap().said.len(), 1);
}
