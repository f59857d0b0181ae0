//! Stores whose races have names by an older rule.

use super::*;
use crate::report::race_record;
use crate::store::{Lost, Received, Stamp};

const OLD_RACE: &str = "r2:00000000000000000000000000000001";
const OLD_ISSUE: &str = "i2:00000000000000000000000000000002";

/// A store as the first version has it.
const FIRST: Schema = Schema {
    migrations: SCHEMA.migrations.split_at(1).0,
    ..SCHEMA
};

also_with_postgres!(
    races_are_named_anew,
    merged_races_are_named_anew,
    unreadable_races_stay,
    what_was_said_stays_with_unreadable_races,
    races_of_a_newer_rule,
    stores_without_control_groups,
    messages_of_before_an_upgrade_count_once,
    stores_of_a_newer_version_stay_as_they_are,
    who_has_a_store_open_that_a_newer_one_changes,
);

/// The one by which messages of hosts were taken first.
const DELIVERY: Schema = Schema {
    migrations: SCHEMA.migrations.split_at(4).0,
    ..SCHEMA
};

/// The one before the last change that older programs cannot go on with.
const BEFORE: Schema = Schema {
    migrations: SCHEMA.migrations.split_at(6).0,
    ..SCHEMA
};

/// Has a statement executed by the engine alone.
pub(super) fn execute(database: &mut Database, sql: &str) {
    let sql = sqlx::AssertSqlSafe(sql.to_owned());
    let done = database.with(async |connection| sqlx::query(sql).execute(connection).await);
    done.unwrap();
}

/// Makes a store of the old rule, which takes these races for one; the digests are none that records have.
fn make_old(address: &Address, races: &[Race]) -> Database {
    let mut file = Database::open(address, Access::Create, &FIRST).unwrap();
    for sql in [
        format!("INSERT INTO issue VALUES ('{OLD_ISSUE}', 'f / g')"),
        format!("INSERT INTO race VALUES ('{OLD_RACE}', '{OLD_ISSUE}', 'v', 'p', 5, 7)"),
        format!("INSERT INTO pair VALUES ('p2:00', '{OLD_RACE}')"),
        "INSERT INTO build VALUES ('aa11', '/a', 1, 2)".to_owned(),
        format!("INSERT INTO sighting VALUES ('{OLD_RACE}', 'aa11', 'web1', '', 0, 30)"),
        format!("INSERT INTO evidence VALUES ('many', '{OLD_RACE}', 'aa11', 1, '')"),
        format!("INSERT INTO triage VALUES (1, '{OLD_ISSUE}', 'fixed', '', '', NULL, 'me', 1)"),
        format!("INSERT INTO triage VALUES (2, '{OLD_RACE}', 'benign', 'why', '', NULL, 'me', 2)"),
        "INSERT INTO triage VALUES (3, 'i2:gone', 'new', '', '', NULL, 'me', 3)".to_owned(),
    ] {
        execute(&mut file, &sql);
    }
    for (number, race) in races.iter().enumerate() {
        let mut race = race.clone();
        race.identity.race = OLD_RACE.to_owned();
        race.identity.issue = OLD_ISSUE.to_owned();
        let put = async |connection: &mut Connection| {
            sqlx::query("INSERT INTO evidence VALUES ($1, $2, 'aa11', $3, $4)")
                .bind(number.to_string())
                .bind(OLD_RACE)
                .bind(i64::try_from(number).unwrap())
                .bind(race_record(&race).unwrap())
                .execute(connection)
                .await
        };
        file.with(put).unwrap();
    }
    file
}

/// Check that races of another rule get today's names when a store is opened, with all that was counted and said, and that what was said of one holds for both that it has become.
#[test]
fn races_are_named_anew() {
    let (_folder, address) = scratch();
    let first = race("hits", "aa11", 0);
    let mut second = race("hits", "aa11", 1);
    second.accesses[0].stack[0].file = Some("/src/other.c".to_owned());
    second.identity = identity(&second);
    assert_ne!(first.identity.issue, second.identity.issue);
    drop(make_old(&address, &[first.clone(), second.clone()]));

    // The second time nothing is left to do.
    for _ in 0..2 {
        let mut store = Store::open(&address, Access::Existing).unwrap();
        let mut races = store.races(start()).unwrap();
        races.sort_by(|a, b| a.id.cmp(&b.id));
        let mut wanted = [&first.identity, &second.identity];
        wanted.sort_by(|a, b| a.race.cmp(&b.race));
        for (race, names) in races.iter().zip(wanted) {
            assert_eq!((&race.id, &race.issue), (&names.race, &names.issue));
            assert_eq!(race.state, State::Benign);
        }
        assert_eq!(races.len(), 2);
        let times: Vec<_> = races.iter().map(|race| race.times).collect();
        assert_eq!(times.iter().sum::<i64>(), 30);
        let records = store.evidence(&first.identity.race, None).unwrap();
        assert_eq!(records, std::slice::from_ref(&first));
        let said = store
            .said(&[&first.identity.race, &first.identity.issue])
            .unwrap();
        let said: Vec<_> = said.iter().map(|said| &*said.name).collect();
        assert_eq!(said, [&first.identity.issue, &first.identity.race]);
        assert_eq!(store.said(&["i2:gone"]).unwrap().len(), 1);
        // A report that is there already counts for nothing.
        assert_eq!(store.write(&caught(&[&first])).unwrap(), 0);
    }
}

/// Check that what was merged under names of another rule is merged under today's.
#[test]
fn merged_races_are_named_anew() {
    let (_folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let [first, second] = ["hits", "total"].map(|variable| race(variable, "aa11", 0));
    let ids = [&first, &second].map(|race| &*race.identity.race);
    store.write(&caught(&[&first, &second])).unwrap();
    store
        .merge(ids[0], ids[1], &Speaker::default(), start())
        .unwrap();
    store
        .triage(&saying(ids[1], Verdict::Benign, None), start())
        .unwrap();
    let log = store.log(None).unwrap();
    drop(store);
    // As if the names had been others until now.
    let mut database = Database::open(&address, Access::Existing, &SCHEMA).unwrap();
    for sql in [
        "INSERT INTO race (id, issue, variable, places, first_seen, last_seen)
             SELECT 'r2' || substr(id, 3), issue, variable, places, first_seen, last_seen FROM race",
        "UPDATE sighting SET race = 'r2' || substr(race, 3)",
        "UPDATE pair SET race = 'r2' || substr(race, 3)",
        "UPDATE evidence SET race = 'r2' || substr(race, 3)",
        "DELETE FROM race WHERE id LIKE 'r3%'",
        "UPDATE triage SET name = 'r2' || substr(name, 3)",
        "UPDATE alias SET name = 'r2' || substr(name, 3), target = 'r2' || substr(target, 3)",
        "UPDATE naming SET version = 2",
    ] {
        execute(&mut database, sql);
    }
    drop(database);
    let mut store = Store::open(&address, Access::Existing).unwrap();
    assert_eq!(store.log(None).unwrap(), log);
    let races = store.races(start()).unwrap();
    let [race] = &races[..] else {
        panic!("{races:?}");
    };
    assert_eq!(
        (&*race.id, &race.merged[..]),
        (ids[1], &[ids[0].to_owned()][..])
    );
    assert_eq!((race.times, race.state), (2, State::Benign));
}

/// Check that a race whose records cannot be read stays as it is.
#[test]
fn unreadable_races_stay() {
    let (_folder, address) = scratch();
    drop(make_old(&address, &[]));
    for _ in 0..2 {
        let mut store = Store::open(&address, Access::Existing).unwrap();
        let races = store.races(start()).unwrap();
        let names: Vec<_> = races.iter().map(|race| &*race.id).collect();
        assert_eq!(names, [OLD_RACE]);
        assert_eq!(store.said(&[OLD_RACE]).unwrap().len(), 1);
    }
}

/// Check that what was said of an issue still holds for a race of it that has kept its name, as its records cannot be read.
#[test]
fn what_was_said_stays_with_unreadable_races() {
    let (_folder, address) = scratch();
    let first = race("hits", "aa11", 0);
    let mut old = make_old(&address, std::slice::from_ref(&first));
    execute(
        &mut old,
        "INSERT INTO race VALUES ('r2:03', 'i2:00000000000000000000000000000002', 'v', 'p', 5, 7)",
    );
    drop(old);
    let mut store = Store::open(&address, Access::Existing).unwrap();
    for issue in [OLD_ISSUE, &first.identity.issue] {
        assert_eq!(store.said(&[issue]).unwrap().len(), 1, "{issue}");
    }
}

/// Check that a store whose races are named by a rule that is not known is refused, and left as it is.
#[test]
fn races_of_a_newer_rule() {
    let (_folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    execute(&mut store.database, "UPDATE naming SET version = 9999");
    drop(store);
    let error = Store::open(&address, Access::Existing).err().unwrap();
    assert!(
        matches!(error, StoreError::Newer { version: 9999, .. }),
        "{error}"
    );
}

/// Check that a store in which no control groups were kept has all that it had, and keeps them from then on.
#[test]
fn stores_without_control_groups() {
    let (_folder, address) = scratch();
    let first = race("hits", "aa11", 0);
    drop(make_old(&address, std::slice::from_ref(&first)));
    let mut store = Store::open(&address, Access::Existing).unwrap();
    let place = Whereabouts {
        cgroup: "/app.slice".to_owned(),
        ..Whereabouts::on("web1")
    };
    let counted = Counted {
        race: first.identity.race.clone(),
        build: "aa11".to_owned(),
        exe: "/bin/app".to_owned(),
        place: place.clone(),
        times: 2,
        last: start(),
    };
    let batch = Batch {
        counted: vec![counted],
        ..Batch::default()
    };
    store.write(&batch).unwrap();
    let races = store.races(start()).unwrap();
    let seen = races[0].seen.iter().map(|seen| (&seen.place, seen.times));
    let before = Whereabouts::on("web1");
    assert_eq!(seen.collect::<Vec<_>>(), [(&before, 30), (&place, 2)]);
}

/// Check that what hosts send again, since a collector was exchanged for a newer one before it had answered, counts once, and that what they send for the first time counts as well.
#[test]
fn messages_of_before_an_upgrade_count_once() {
    const SENDER: &str = "0123456789abcdef0123456789abcdef";
    let (_folder, address) = scratch();
    let first = race("hits", "aa11", 0);
    drop(make_old(&address, std::slice::from_ref(&first)));
    let mut older = Database::open(&address, Access::Existing, &DELIVERY).unwrap();
    for sql in [
        // The messages 1 and 3 have come.
        format!("INSERT INTO sender VALUES ('{SENDER}', 'web1', 1, 2, 3, 2, 0, 0, 0, 0)"),
        format!("INSERT INTO gap VALUES ('{SENDER}', 2, 2)"),
    ] {
        execute(&mut older, &sql);
    }
    drop(older);
    let mut store = Store::open(&address, Access::Existing).unwrap();
    let counted = Counted {
        race: first.identity.race.clone(),
        build: "aa11".to_owned(),
        exe: "/bin/app".to_owned(),
        place: Whereabouts::on("web1"),
        times: 1,
        last: start(),
    };
    let batch = Batch {
        counted: vec![counted],
        ..Batch::default()
    };
    for sequence in [1, 2, 3, 4, 2, 4] {
        let stamp = Stamp {
            sender: SENDER,
            sequence,
            lost: Lost::default(),
        };
        store.receive(&stamp, &batch, start()).unwrap();
    }
    let stamp = Stamp {
        sender: SENDER,
        sequence: 3,
        lost: Lost::default(),
    };
    let again = store.receive(&stamp, &batch, start()).unwrap();
    assert_eq!(again, Received::Before);
    let races = store.races(start()).unwrap();
    assert_eq!(races.iter().map(|race| race.times).sum::<i64>(), 30 + 2);
    let senders = store.senders().unwrap();
    assert_eq!((senders[0].messages, senders[0].missing), (4, 0));
}

/// Check that a gwp-race of before refuses a store which a newer one has opened, and that the newer one finds all as it was.
#[test]
fn stores_of_a_newer_version_stay_as_they_are() {
    let (_folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    store.write(&caught(&[&race("hits", "aa11", 0)])).unwrap();
    let races = store.races(start()).unwrap();
    drop(store);
    for access in [Access::Existing, Access::Create] {
        let refused = Database::open(&address, access, &BEFORE).err().unwrap();
        assert!(
            matches!(refused, StoreError::Newer { version, known, .. } if version > known),
            "{refused}"
        );
    }
    let mut store = Store::open(&address, Access::Existing).unwrap();
    assert_eq!(store.races(start()).unwrap(), races);
}

/// Check that whoever has a store open which a newer gwp-race changes meanwhile writes nothing more to it, in whichever way, and is told why.
#[test]
fn who_has_a_store_open_that_a_newer_one_changes() {
    let (_folder, address) = scratch();
    let [one, other] = ["hits", "total"].map(|variable| race(variable, "aa11", 0));
    let open = || Store::open(&address, Access::Create).unwrap();
    let mut stores = [open(), open(), open(), open(), open(), open()];
    stores[0].write(&caught(&[&one])).unwrap();
    let mut newer = Database::open(&address, Access::Existing, &SCHEMA).unwrap();
    execute(
        &mut newer,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (999, 'x', TRUE, '', 0)",
    );
    let stamp = Stamp {
        sender: "0123456789abcdef0123456789abcdef",
        sequence: 1,
        lost: Lost::default(),
    };
    let name = one.identity.race.clone();
    let speaker = Speaker::default();
    let [writes, receives, says, merges, forgets, rolls] = &mut stores;
    let batch = caught(&[&other]);
    let refused = [
        writes.write(&batch).map(drop),
        receives.receive(&stamp, &batch, start()).map(drop),
        says.triage(&saying(&name, Verdict::Benign, None), start()),
        merges.merge(&name, "r3:0", &speaker, start()).map(drop),
        forgets.forget(&[name], start() + DAY).map(drop),
        rolls.roll_up(start() + 90 * DAY).map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(
            matches!(error, StoreError::Newer { version: 999, .. }),
            "{error}"
        );
    }
    let left = newer.with(async |connection| {
        sqlx::query_scalar::<_, i64>(
            "SELECT (SELECT count(*) FROM race) + (SELECT count(*) FROM triage) + (SELECT count(*) FROM alias) + (SELECT count(*) FROM sender)",
        )
        .fetch_one(connection)
        .await
    });
    assert_eq!(left.unwrap(), 1);
}
