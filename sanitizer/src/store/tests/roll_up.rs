//! What is left of old rows.

use super::*;

also_with_postgres!(old_rows_become_one_a_day);

/// How often a race was caught in each place, and when last.
fn seen(store: &mut Store) -> Vec<(String, i64, i64)> {
    let race = store.races(0).unwrap().swap_remove(0);
    let seen = race.seen.into_iter();
    seen.map(|seen| (seen.place.host, seen.times, seen.hour))
        .collect()
}

/// Check that old rows of a day become one, which counts and says the same as they did, that days which have not ended a week ago keep theirs, and that a second time changes nothing.
#[test]
fn old_rows_become_one_a_day() {
    let (_folder, mut store) = store();
    let first = race("hits", "aa11", 0);
    store.write(&caught(&[&first])).unwrap();
    let counted = [
        ("web1", 0, 5, 2),
        ("web1", 0, 9, 3),
        ("web1", 1, 0, 4),
        ("web2", 0, 5, 7),
        ("web1", 13, 23, 1),
        ("web1", 14, 0, 1),
        ("web1", 14, 1, 1),
        ("web1", 20, 2, 1),
    ];
    let counted = counted.map(|(host, day, hour, times)| Counted {
        race: first.identity.race.clone(),
        build: "aa11".to_owned(),
        exe: "/bin/app".to_owned(),
        place: Whereabouts::on(host),
        times,
        last: start() + day * DAY + hour * HOUR,
    });
    let batch = Batch {
        counted: counted.into(),
        ..Batch::default()
    };
    store.write(&batch).unwrap();
    let before = seen(&mut store);
    // Day 14 begins seven days before this, and is whole.
    let now = start() + 21 * DAY + 3 * HOUR;
    assert_eq!(store.roll_up(now).unwrap().less, 2);
    assert_eq!(seen(&mut store), before);
    assert_eq!(store.roll_up(now).unwrap().less, 0);
    assert_eq!(store.roll_up(now + DAY).unwrap().less, 1);
    assert_eq!(seen(&mut store), before);
}
