//! Stores to which something has happened, or that others have written.

use super::*;

also_with_postgres!(records_count_once, names_of_any_kind);

/// Check that a record counts once, also where only its digest is kept; and that a race which was caught again, or a build that was forgotten, stops nothing.
#[test]
fn records_count_once() {
    let (_folder, mut store) = store();
    let many: Vec<Race> = (0..30).map(|day| race("hits", "aa11", day)).collect();
    let batch = caught(&many.iter().collect::<Vec<_>>());
    assert_eq!(store.write(&batch).unwrap(), 30);
    assert_eq!(store.write(&batch).unwrap(), 0);
    let stored = store.races(0).unwrap().swap_remove(0);
    assert_eq!(stored.times, 30);
    assert_eq!(store.evidence(&stored.id, None).unwrap().len(), 20);
    // It was caught since.
    let pruned = store.forget(std::slice::from_ref(&stored.id), stored.last_seen);
    assert_eq!(pruned.unwrap().races, 0);
    let counted = Counted {
        race: stored.id.clone(),
        build: "ff99".to_owned(),
        exe: "/bin/app".to_owned(),
        place: Whereabouts::default(),
        times: u64::MAX,
        last: start(),
    };
    let batch = Batch {
        counted: vec![counted.clone(), counted],
        ..Batch::default()
    };
    store.write(&batch).unwrap();
    assert_eq!(store.races(0).unwrap()[0].times, 30 + (1 << 32));
    // As something else may have written it.
    let large = "UPDATE sighting SET times = 9223372036854775807";
    store
        .with(async |connection| sqlx::query(large).execute(connection).await)
        .unwrap();
    assert!(store.races(0).unwrap()[0].times > 0);
    store.write(&batch).unwrap();
    assert!(store.races(0).unwrap()[0].times > 0);
}

/// Check that a store with a trigger, which could drop what is written, is refused.
#[test]
fn stores_with_triggers_are_refused() {
    let (_folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let sql = "CREATE TRIGGER none BEFORE INSERT ON race BEGIN SELECT RAISE(IGNORE); END";
    store
        .with(async |connection| sqlx::query(sql).execute(connection).await)
        .unwrap();
    drop(store);
    let error = Store::open(&address, Access::Existing).err().unwrap();
    assert!(error.to_string().contains("triggers"), "{error}");
}

/// Check that races go to a new file where the store was moved away.
#[test]
fn moved_stores_are_made_anew() {
    let (_folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    store.write(&caught(&[&race("hits", "aa11", 0)])).unwrap();
    let path = address.path().unwrap();
    fs::rename(path, path.with_extension("old")).unwrap();
    store.write(&caught(&[&race("total", "aa11", 1)])).unwrap();
    drop(store);
    let mut store = Store::open(&address, Access::Existing).unwrap();
    assert_eq!(store.races(0).unwrap()[0].variable, "total");
}

/// Check that names which programs give themselves are taken whatever is in them, and however long they are.
#[test]
fn names_of_any_kind() {
    let (_folder, mut store) = store();
    let mut odd = race("hi\0ts", "aa11", 0);
    odd.build_id = None;
    // No database can pack this.
    let mut random = fastrand::Rng::with_seed(1);
    let name: String = (0..4000).map(|_| random.alphanumeric()).collect();
    odd.exe = format!("/tmp/{name}\0");
    odd.accesses[0].stack[0].function = Some("f\0".repeat(3000));
    odd.identity = identity(&odd);
    let mut batch = caught(&[&odd]);
    let long = ["host", "cgroup", "container"].map(|name| format!("{name}\0").repeat(400));
    let [host, cgroup, container] = long;
    batch.caught[0].place = Whereabouts {
        host,
        cgroup,
        container,
    };
    assert_eq!(store.write(&batch).unwrap(), 1);
    assert_eq!(store.write(&batch).unwrap(), 0);
    let stored = store.races(0).unwrap().swap_remove(0);
    assert_eq!((stored.seen.len(), stored.times), (1, 1));
    let build = &stored.seen[0].build;
    let records = store.evidence(&stored.id, Some(&build.id)).unwrap();
    assert_eq!(records, [odd]);
}
