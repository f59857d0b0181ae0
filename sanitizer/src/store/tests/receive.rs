//! Messages of hosts: each counts once, in whatever order they come.

use super::*;
use crate::store::{Lost, Received, Sender, Stamp};

also_with_postgres!(
    a_message_counts_once,
    gaps_are_bounded,
    senders_are_forgotten,
);

const SENDER: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";

fn stamp(sender: &str, sequence: u64) -> Stamp<'_> {
    Stamp {
        sender,
        sequence,
        lost: Lost::default(),
    }
}

/// So many times more of a race.
fn counted(race: &Race, times: u64) -> Batch {
    Batch {
        counted: vec![Counted {
            race: race.identity.race.clone(),
            build: race.build(),
            exe: race.exe.clone(),
            place: Whereabouts::on("web2"),
            times,
            last: start(),
        }],
        ..Batch::default()
    }
}

fn is_new(store: &mut Store, sender: &str, sequence: u64, batch: &Batch) -> bool {
    let received = store
        .receive(&stamp(sender, sequence), batch, start())
        .unwrap();
    matches!(received, Received::New { .. })
}

fn only(store: &mut Store) -> Sender {
    let senders = store.senders().unwrap();
    let [sender] = &senders[..] else {
        panic!("{senders:?}");
    };
    sender.clone()
}

/// Check that a message counts once, that another one's of the same number is another one, and that what comes again changes nothing.
#[test]
fn a_message_counts_once() {
    let (_folder, mut store) = store();
    let race = race("hits", "aa11", 0);
    assert!(is_new(&mut store, SENDER, 1, &caught(&[&race])));
    assert!(is_new(&mut store, SENDER, 2, &counted(&race, 5)));
    let before = only(&mut store);
    for _ in 0..3 {
        assert!(!is_new(&mut store, SENDER, 1, &caught(&[&race])));
        assert!(!is_new(&mut store, SENDER, 2, &counted(&race, 5)));
        let late = Stamp {
            lost: Lost {
                evidence: 9,
                ..Lost::default()
            },
            ..stamp(SENDER, 2)
        };
        let again = store.receive(&late, &counted(&race, 5), start() + DAY);
        assert_eq!(again.unwrap(), Received::Before);
    }
    assert_eq!(only(&mut store), before);
    assert_eq!(
        (before.messages, before.missing, &*before.host),
        (2, 0, "web2")
    );
    assert_eq!(store.races(start()).unwrap()[0].times, 6);
    assert!(is_new(&mut store, OTHER, 2, &counted(&race, 5)));
    assert_eq!(store.races(start()).unwrap()[0].times, 11);
}

/// Check that of a sender who is forgotten all stays that he has sent, and nothing of anybody else's is forgotten.
#[test]
fn senders_are_forgotten() {
    let (_folder, mut store) = store();
    let race = race("hits", "aa11", 0);
    assert!(is_new(&mut store, OTHER, 1, &caught(&[&race])));
    assert!(is_new(&mut store, SENDER, 7, &counted(&race, 5)));
    store.forget_sender(SENDER).unwrap();
    assert_eq!(&*only(&mut store).id, OTHER);
    assert_eq!(store.races(start()).unwrap()[0].times, 6);
    // Nobody has such a name any more.
    store.forget_sender(SENDER).unwrap();
    assert!(!is_new(&mut store, OTHER, 1, &caught(&[&race])));
}

/// Check that messages in any order, each sent twice, are counted once each, and that what has not come is known until it has.
#[test]
fn order_does_not_matter() {
    for seed in 0..20 {
        let (_folder, mut store) = store();
        let race = race("hits", "aa11", 0);
        store.write(&caught(&[&race])).unwrap();
        let mut numbers: Vec<u64> = (1..=12).chain(1..=12).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
        let mut seen = std::collections::BTreeSet::new();
        for number in numbers {
            let is_first = seen.insert(number);
            let batch = counted(&race, 1 << number);
            assert_eq!(
                is_new(&mut store, SENDER, number, &batch),
                is_first,
                "{seed}"
            );
            let sender = only(&mut store);
            let highest = seen.last().copied().unwrap_or_default();
            let missing = highest - seen.len() as u64;
            assert_eq!(sender.missing.cast_unsigned(), missing, "{seed}");
            assert_eq!(sender.messages.cast_unsigned(), seen.len() as u64, "{seed}");
        }
        let all: i64 = (1..=12).map(|number| 1 << number).sum();
        assert_eq!(store.races(start()).unwrap()[0].times, 1 + all, "{seed}");
    }
}

/// Check that what is kept of a sender is bounded, whatever numbers it gives, the largest included; and that of many gaps the highest are kept.
#[test]
fn gaps_are_bounded() {
    let (_folder, mut store) = store();
    let empty = Batch::default();
    for number in 1..=1010 {
        assert!(is_new(&mut store, SENDER, 2 * number, &empty));
    }
    assert_eq!(only(&mut store).missing, 1000);
    assert!(is_new(&mut store, SENDER, 2019, &empty));
    assert!(!is_new(&mut store, SENDER, 1, &empty));
    assert!(is_new(&mut store, SENDER, i64::MAX.cast_unsigned(), &empty));
    assert!(!is_new(
        &mut store,
        SENDER,
        i64::MAX.cast_unsigned(),
        &empty
    ));
    assert!(is_new(&mut store, SENDER, 1 << 40, &empty));
    assert!(only(&mut store).missing > 1 << 60);
}

/// Check that what a sender has lost only grows, and that counts of a race which is not there are told.
#[test]
fn losses_are_kept() {
    let (_folder, mut store) = store();
    let race = race("hits", "aa11", 0);
    for (sequence, repeats) in [(1, 3), (3, 8), (2, 5)] {
        let lost = Lost {
            evidence: 1,
            repeats,
            sightings: 0,
        };
        let stamp = Stamp {
            lost,
            ..stamp(SENDER, sequence)
        };
        let received = store.receive(&stamp, &counted(&race, 4), start()).unwrap();
        let expected = Received::New {
            records: 0,
            passed_over: 4,
        };
        assert_eq!(received, expected);
    }
    let sender = only(&mut store);
    let expected = Lost {
        evidence: 1,
        repeats: 8,
        sightings: 0,
    };
    assert_eq!((sender.lost, sender.passed_over), (expected, 12));
    assert!(store.races(start()).unwrap().is_empty());
}

/// Check that a message of which a part cannot be written leaves nothing, and is taken when it comes again.
#[test]
fn a_message_is_taken_whole() {
    let (_folder, mut store) = store();
    let [good, wrong] = [race("hits", "aa11", 0), race("total", "aa11", 0)];
    let mut batch = caught(&[&good, &wrong]);
    batch.caught[1].race.time = "yesterday".to_owned();
    let failed = store.receive(&stamp(SENDER, 1), &batch, start());
    assert!(failed.is_err());
    assert!(store.senders().unwrap().is_empty());
    assert!(store.races(start()).unwrap().is_empty());
    assert!(is_new(&mut store, SENDER, 1, &caught(&[&good, &wrong])));
    assert_eq!(store.races(start()).unwrap().len(), 2);
}

/// Check that senders are forgotten when nothing was heard of them for a month longer than races are kept, and no sooner.
#[test]
fn silent_senders_are_forgotten() {
    let (_folder, mut store) = store();
    let empty = Batch::default();
    assert!(is_new(&mut store, SENDER, 7, &empty));
    store.forget(&[], start() + 29 * DAY).unwrap();
    assert!(!is_new(&mut store, SENDER, 7, &empty));
    store.forget(&[], start() + 31 * DAY).unwrap();
    assert!(store.senders().unwrap().is_empty());
    assert!(is_new(&mut store, SENDER, 7, &empty));
}

/// Check that nothing is later than the clock of whoever takes it, and what is earlier stays.
#[test]
fn other_clocks_are_not_trusted() {
    let [early, late] = [race("hits", "aa11", 0), race("total", "aa11", 400)];
    let mut batch = caught(&[&early, &late]);
    batch.caught[0].last = Some(start() + 500 * DAY);
    batch.counted = counted(&late, 1).counted;
    batch.counted[0].last = start() + 600 * DAY;
    batch.builds = vec![Seen {
        build: "aa11".to_owned(),
        exe: "/bin/app".to_owned(),
        at: start() + 700 * DAY,
    }];
    let now = start() + DAY;
    batch.end_at(now);
    assert_eq!(batch.check(), Ok(()));
    let times: Vec<_> = batch
        .caught
        .iter()
        .map(|caught| &*caught.race.time)
        .collect();
    assert_eq!(times, [&*early.time, &*rfc3339(now)]);
    assert_eq!(batch.caught[0].last, Some(now));
    assert_eq!((batch.counted[0].last, batch.builds[0].at), (now, now));
}
