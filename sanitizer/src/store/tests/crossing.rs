//! Pruning while others write, read, and say something.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread::sleep,
};

use super::{server::Server, *};
use crate::store::page::Filter;

also_with_postgres!(
    races_that_are_judged_meanwhile_stay,
    many_are_forgotten,
    who_has_much_to_do_gives_way,
);

/// Check that a race of which somebody says something, or which somebody merges, after it was chosen is kept where such are to be, and forgotten where not.
#[test]
fn races_that_are_judged_meanwhile_stay() {
    let (_folder, mut store) = store();
    let races = ["hits", "total", "count"].map(|variable| race(variable, "aa11", 0));
    store
        .write(&caught(&races.iter().collect::<Vec<_>>()))
        .unwrap();
    let [judged, merged, other] = races.each_ref().map(|race| race.identity.race.clone());
    let chosen = [&judged, &merged, &other].map(Clone::clone);
    let word = saying(&judged, Verdict::Confirmed, None);
    store.triage(&word, start()).unwrap();
    let late = race("late", "aa11", 20);
    store.write(&caught(&[&late])).unwrap();
    store
        .merge(
            &late.identity.race,
            &merged,
            &Speaker::default(),
            start() + DAY,
        )
        .unwrap();
    let before = start() + 30 * DAY;
    let pruned = store.forget_untouched(&chosen, before).unwrap();
    assert_eq!(pruned.races, 1);
    let left = store.races(start()).unwrap();
    let mut left: Vec<&String> = left.iter().map(|race| &race.id).collect();
    left.sort_unstable();
    let mut wanted = [&judged, &merged];
    wanted.sort_unstable();
    assert_eq!(left, wanted);
    let pruned = store.forget(&chosen, before).unwrap();
    assert_eq!(pruned.races, 2);
    assert!(store.races(start()).unwrap().is_empty());
}

/// Check that more races than one transaction has are forgotten, each once.
#[test]
fn many_are_forgotten() {
    let (_folder, mut store) = store();
    let races: Vec<Race> = (0..150)
        .map(|number| race(&format!("v{number}"), "aa11", 0))
        .collect();
    store
        .write(&caught(&races.iter().collect::<Vec<_>>()))
        .unwrap();
    let names: Vec<String> = races
        .iter()
        .map(|race| race.identity.race.clone())
        .collect();
    let pruned = store.forget(&names, start() + DAY).unwrap();
    assert_eq!((pruned.races, pruned.builds), (150, 1));
    assert_eq!(store.forget(&names, start() + DAY).unwrap().races, 0);
}

/// Check that of who does much in a store, each piece of which takes a whole turn, others wait for one turn or two and not for all; that each piece is done once, and that what comes is written between two.
#[test]
fn who_has_much_to_do_gives_way() {
    const PIECES: usize = 12;
    let (_folder, address) = scratch();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let mut other = Store::open(&address, Access::Existing).unwrap();
    // Less than all of it takes, and some turns more than one.
    other.set_patience(Duration::from_millis(1500));
    let done = AtomicUsize::new(0);
    let pieces = [(); PIECES];
    scope(|scope| {
        let waiting = scope.spawn(|| {
            while done.load(Relaxed) == 0 {
                sleep(Duration::from_millis(5));
            }
            other.write(&caught(&[&race("hits", "aa11", 0)])).unwrap();
            done.load(Relaxed)
        });
        let worked = store.in_turns(&pieces, async |_, pieces, turn| {
            assert!(!pieces.is_empty());
            done.fetch_add(1, Relaxed);
            while !turn.is_over() {
                sleep(Duration::from_millis(5));
            }
            Ok(1)
        });
        worked.unwrap();
        assert!(waiting.join().unwrap() < PIECES);
    });
    assert_eq!(done.load(Relaxed), PIECES);
    assert_eq!(store.races(start()).unwrap().len(), 1);
}

/// Check that somebody who reads for long keeps nobody from pruning, and that what could not be dropped then is dropped the next time.
#[test]
fn a_long_look_stops_no_pruning() {
    let address: Address = Server::shared().database().parse().unwrap();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let hits = race("hits", "aa11", 0);
    let other = race("total", "aa11", 0);
    let batches = [caught(&[&hits]), caught(&[&other])];
    let batches = (batches.into_iter()).chain((1..4).map(|hour| again(&hits, &[at(0, hour)])));
    for (sequence, batch) in (1..).zip(batches) {
        let stamp = Stamp {
            sender: "0123456789abcdef0123456789abcdef",
            sequence,
            lost: Lost::default(),
        };
        // Today is day 0, which has a partition.
        store.receive(&stamp, &batch, start() + 5 * HOUR).unwrap();
    }
    let parts = |store: &mut Store| -> i64 {
        let parts = sqlx::query_scalar(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'sighting'::regclass",
        );
        store
            .with(async |connection| parts.fetch_one(connection).await)
            .unwrap()
    };
    let names = [&hits, &other].map(|race| race.identity.race.clone());
    let now = start() + 60 * DAY;
    let with_days = parts(&mut store);
    assert!(with_days > 3);
    beside_a_reader(&address, 5, || {
        let (less, is_whole) = (0, false);
        assert_eq!(store.roll_up(now).unwrap(), Fewer { less, is_whole });
        assert_eq!(store.forget(&names[..1], now).unwrap().races, 1);
        assert_eq!(parts(&mut store), with_days);
    });
    assert!(store.roll_up(now).unwrap().is_whole);
    assert_eq!(store.races(now).unwrap()[0].times, 1);
    assert_eq!(store.forget(&names, now).unwrap().races, 1);
    // What has no partition of its own has one.
    assert_eq!(parts(&mut store), 1);
}

/// Check that several who prune while messages come and races are listed get in nobody's way: nobody fails, and nothing that was counted is lost.
#[test]
fn pruning_crosses_what_comes() {
    const SENDERS: i64 = 2;
    const MESSAGES: i64 = 60;
    let address: Address = Server::shared().database().parse().unwrap();
    let open = || {
        let mut store = Store::open(&address, Access::Existing).unwrap();
        store.set_patience(Duration::from_secs(60));
        store
    };
    let hits = race("hits", "aa11", 0);
    let mut store = Store::open(&address, Access::Create).unwrap();
    store.write(&caught(&[&hits])).unwrap();
    let is_over = AtomicBool::new(false);
    scope(|scope| {
        let (is_over, hits, open) = (&is_over, &hits, &open);
        for pruner in 0..2 {
            scope.spawn(move || {
                let mut store = open();
                let mut day = 0;
                while !is_over.load(Relaxed) {
                    day = (day + 7 + pruner) % 90;
                    let now = start() + day * DAY;
                    store.roll_up(now).unwrap();
                    let races = store.races(now).unwrap();
                    let old = races.iter().filter(|race| race.variable != "hits");
                    let old: Vec<String> = old.map(|race| race.id.clone()).collect();
                    store.forget(&old, now).unwrap();
                }
            });
        }
        scope.spawn(move || {
            let mut store = open();
            while !is_over.load(Relaxed) {
                let minute = Duration::from_secs(60);
                let all = store.look(minute, |store| {
                    let races = store.list(&Filter::default(), None, 1000, start())?.races;
                    let details = store.details(&hits.identity.race, None, start())?;
                    assert_eq!(
                        races.iter().find(|race| race.id == hits.identity.race),
                        details.as_ref().map(|details| &details.row)
                    );
                    Ok::<_, StoreError>(())
                });
                all.unwrap();
            }
        });
        let senders = (0..SENDERS).map(|sender| {
            scope.spawn(move || {
                let mut store = open();
                let name = format!("{sender:032x}");
                for number in 0..MESSAGES {
                    let stamp = Stamp {
                        sender: &name,
                        sequence: number.unsigned_abs() + 1,
                        lost: Lost::default(),
                    };
                    let day = number / 2 + sender;
                    let mut batch = again(hits, &[at(day, number % 24)]);
                    let passing = race(&format!("passing{number}"), "bb22", day);
                    batch.caught = caught(&[&passing]).caught;
                    let now = start() + day * DAY + 23 * HOUR;
                    store.receive(&stamp, &batch, now).unwrap();
                }
            })
        });
        let senders: Vec<_> = senders.collect();
        let ended: Vec<_> = senders.into_iter().map(|sender| sender.join()).collect();
        is_over.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    let now = start() + 200 * DAY;
    store.roll_up(now).unwrap();
    let races = store.races(now).unwrap();
    let of_hits = races.iter().find(|race| race.variable == "hits").unwrap();
    assert_eq!(of_hits.times, 1 + SENDERS * MESSAGES);
    let details = store.details(&hits.identity.race, None, now).unwrap();
    assert_eq!(details.unwrap().row.times, 1 + SENDERS * MESSAGES);
}
