//! What is read at one moment, in a time that has an end.

use std::{thread::sleep, time::Instant};

use super::{server::Server, *};
use crate::store::page::Filter;

also_with_postgres!(looks_are_of_one_moment);

fn count(store: &mut Store) -> Result<i64, StoreError> {
    let list = store.list(&Filter::default(), None, 9, start())?;
    Ok(list.all)
}

/// Check that what is read together is of one moment, whatever is written meanwhile; that nothing is written with it; and that the next one sees all.
#[test]
fn looks_are_of_one_moment() {
    let (_folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let [one, other] = ["hits", "total"].map(|variable| race(variable, "aa11", 0));
    store.write(&caught(&[&one])).unwrap();
    let mut writer = Store::open(&address, Access::Existing).unwrap();
    let minute = Duration::from_secs(60);
    let seen = store.look(minute, |store| {
        let before = count(store)?;
        writer.write(&caught(&[&other]))?;
        let details = store.details(&other.identity.race, None, start())?;
        Ok::<_, StoreError>((before, details.is_some(), count(store)?))
    });
    assert_eq!(seen.unwrap(), (1, false, 1));
    assert_eq!(store.look(minute, count).unwrap(), 2);
    let third = race("more", "aa11", 0);
    let written = store.look(minute, |store| store.write(&caught(&[&third])));
    assert!(written.is_err());
    assert_eq!(count(&mut store).unwrap(), 2);
    // A moment that has passed is nobody's.
    let late = store.look(Duration::ZERO, count);
    assert!(late.is_err());
    assert_eq!(store.look(minute, count).unwrap(), 2);
}

/// Check that a server breaks off what takes too long, and that nobody goes on reading there.
#[test]
fn long_looks_are_broken_off() {
    let address: Address = Server::shared().database().parse().unwrap();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let begun = Instant::now();
    let slow = store.look(Duration::from_millis(300), |store| {
        let slow = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_sleep(100)");
        store.with(async |connection| slow.fetch_one(connection).await)
    });
    assert!(slow.is_err());
    assert!(begun.elapsed() < Duration::from_secs(50));
    assert_nobody_sleeps(&mut store, begun);
}

/// Check that a server is told to break off what its caller does not wait for any more, which it would go on with else for as long as a statement may take.
#[test]
fn what_nobody_waits_for_is_broken_off() {
    let address: Address = Server::shared().database().parse().unwrap();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let begun = Instant::now();
    store.set_limit(Duration::from_millis(300));
    let slow = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_sleep(100)");
    let slow = store.with(async |connection| slow.fetch_one(connection).await);
    assert!(slow.is_err());
    store.set_limit(Duration::from_secs(60));
    assert_nobody_sleeps(&mut store, begun);
}

/// Soon nothing is left of a statement that sleeps for 100 s.
fn assert_nobody_sleeps(store: &mut Store, begun: Instant) {
    loop {
        let sleeping = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND state = 'active' AND query LIKE '%pg_sleep(100)' AND pid <> pg_backend_pid()",
        );
        let sleeping: i64 = store
            .with(async |connection| sleeping.fetch_one(connection).await)
            .unwrap();
        if sleeping == 0 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(50));
        sleep(Duration::from_millis(50));
    }
}
