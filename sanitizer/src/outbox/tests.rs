//! Tests of outboxes on real files.

mod catalogue;
mod daemons;
mod hinting;
mod kills;
mod let_go;
mod otlp;
mod sending;
mod tally;

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::{
    delivery::{Lost, MOST_UNPACKED, Message},
    report::{Race, identity, sample},
    store::{Batch, Caught, Counted, Seen, Whereabouts, millis_of, rfc3339},
};

const GIVER: &str = "00112233445566778899aabbccddeeff";
/// Room for all of a test.
const MUCH: u64 = 64 << 20;
const HOUR: i64 = 3_600_000;

fn scratch() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outbox.db");
    (folder, path)
}

fn start() -> i64 {
    millis_of("2026-01-01T00:00:00Z").unwrap()
}

/// The nth record of a race of this variable.
fn race(variable: &str, nth: i64) -> Race {
    let mut race = sample::race();
    race.location.name = Some(variable.to_owned());
    race.time = rfc3339(start() + nth);
    race.identity = identity(&race);
    race
}

fn caught(race: &Race) -> Batch {
    let caught = Caught {
        race: race.clone(),
        place: Whereabouts::on("web1"),
        times: 1,
        last: None,
    };
    Batch {
        caught: vec![caught],
        ..Batch::default()
    }
}

fn counted(variable: &str, times: u64, last: i64) -> Batch {
    let race = race(variable, 0);
    let counted = Counted {
        build: race.build(),
        race: race.identity.race,
        exe: race.exe,
        place: Whereabouts::on("web1"),
        times,
        last,
    };
    Batch {
        counted: vec![counted],
        ..Batch::default()
    }
}

fn seen(build: &str, at: i64) -> Batch {
    let seen = Seen {
        build: build.to_owned(),
        exe: "/srv/app".to_owned(),
        at,
    };
    Batch {
        builds: vec![seen],
        ..Batch::default()
    }
}

fn handed(sequence: u64, batch: Batch) -> Message {
    Message {
        sender: GIVER.to_owned(),
        sequence,
        lost: Lost::default(),
        batch,
        learned: Vec::new(),
    }
}

/// Hands batches over, one after the other; what was dropped.
fn fill(outbox: &mut Outbox, first: u64, batches: Vec<Batch>) -> Lost {
    let mut all = Lost::default();
    for (batch, sequence) in batches.into_iter().zip(first..) {
        let lost = outbox.take(&handed(sequence, batch)).unwrap();
        all.evidence += lost.evidence;
        all.repeats += lost.repeats;
        all.sightings += lost.sightings;
    }
    all
}

/// The next message, of which it is said that it was taken.
fn sent(outbox: &mut Outbox) -> Option<Message> {
    let sealed = outbox.message().unwrap()?;
    let message = Message::decode(&sealed.body, MOST_UNPACKED).unwrap();
    assert_eq!(message.sequence, sealed.sequence);
    outbox.taken(sealed.sequence).unwrap();
    Some(message)
}

/// All that is there, sent.
fn drained(outbox: &mut Outbox) -> Vec<Message> {
    std::iter::from_fn(|| sent(outbox)).collect()
}

/// How often races were caught, by messages.
fn times(messages: &[Message]) -> u64 {
    let of = |message: &Message| {
        let caught = message.batch.caught.iter().map(|caught| caught.times);
        let counted = message.batch.counted.iter().map(|counted| counted.times);
        caught.chain(counted).sum::<u64>()
    };
    messages.iter().map(of).sum()
}

/// Check that what is handed over comes out once, with what was counted added up by the hour; that what is handed over again counts for nothing; that a message stays the same until it is taken, also for who opens the
/// outbox anew, and that numbers go on.
#[test]
fn what_is_put_in_comes_out_once() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    assert_eq!(outbox.message().unwrap(), None);
    let hits = race("hits", 0);
    let batches = vec![
        caught(&hits),
        counted("hits", 2, start()),
        counted("hits", 3, start() + 1),
        counted("hits", 5, start() + HOUR),
        seen("aa11", start()),
        seen("aa11", start() + 2),
        seen("aa11", start() + 1),
    ];
    let again = handed(7, batches[6].clone());
    assert_eq!(fill(&mut outbox, 1, batches), Lost::default());
    for repeated in [
        again,
        handed(1, caught(&hits)),
        handed(3, counted("hits", 3, start() + 1)),
    ] {
        outbox.take(&repeated).unwrap();
    }
    // Another daemon, which has found the same.
    let other = Message {
        sender: GIVER.replace('0', "f"),
        ..handed(1, caught(&hits))
    };
    outbox.take(&other).unwrap();
    let first = outbox.message().unwrap().unwrap();
    fill(&mut outbox, 8, vec![counted("hits", 7, start())]);
    assert_eq!(outbox.message().unwrap().unwrap(), first);
    drop(outbox);
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    assert_eq!(outbox.message().unwrap().unwrap(), first);
    let figures = outbox.figures().unwrap();
    assert_eq!((figures.sending, figures.items), (Some(1), 1));
    let messages = drained(&mut outbox);
    let numbers: Vec<_> = messages.iter().map(|message| message.sequence).collect();
    assert_eq!(numbers, [1, 2]);
    let [first, second] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(first.sender, second.sender);
    assert_eq!(first.batch.caught, caught(&hits).caught);
    let counts: Vec<_> = first
        .batch
        .counted
        .iter()
        .map(|one| (one.times, one.last))
        .collect();
    assert_eq!(counts, [(5, start() + 1), (5, start() + HOUR)]);
    // When it was seen first, and last.
    let at: Vec<_> = first.batch.builds.iter().map(|one| one.at).collect();
    assert_eq!(at, [start(), start() + 2]);
    assert_eq!(times(&messages[1..]), 7);
    let figures = outbox.figures().unwrap();
    assert_eq!((figures.taken, figures.bytes, figures.items), (2, 0, 0));
}

/// Check that two outboxes have names of their own.
#[test]
fn senders_differ() {
    let [(_one, one), (_other, other)] = [scratch(), scratch()];
    let [one, other] = [one, other].map(|path| {
        let mut outbox = Outbox::open(&path, MUCH).unwrap();
        outbox.figures().unwrap().sender
    });
    assert_ne!(one, other);
    for sender in [one, other] {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        assert!(
            sender.len() == 32 && sender.bytes().all(is_digit),
            "{sender}"
        );
    }
}

/// Check that of a full outbox repeated evidence is dropped first, of which the number of times stays, then counts, and first sightings last; that each is counted for what it is worth, that sums are equal, and that a race whose first record was dropped is new again.
#[test]
fn what_is_worth_least_is_dropped() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    let batches = |range: std::ops::Range<i64>| -> Vec<Batch> {
        let evidence = range.clone().map(|nth| caught(&race("hits", nth)));
        let counts = range
            .clone()
            .map(|nth| counted(&format!("v{nth}"), 3, start()));
        let first = range.map(|nth| caught(&race(&format!("v{nth}"), nth)));
        evidence.chain(counts).chain(first).collect()
    };
    let all = batches(0..10);
    let given = 10 + 10 * 3 + 10;
    assert_eq!(fill(&mut outbox, 1, all), Lost::default());
    let bytes = outbox.figures().unwrap().bytes;
    drop(outbox);
    // Room for one record less: the oldest repeat.
    let keep = |most: u64, sequence: u64| {
        let mut outbox = Outbox::open(&path, most).unwrap();
        let lost = outbox.take(&handed(sequence, Batch::default())).unwrap();
        let figures = outbox.figures().unwrap();
        assert!(figures.bytes <= most, "{figures:?}");
        (lost, figures.bytes)
    };
    let (lost, bytes) = keep(bytes - 1, 31);
    assert_eq!((lost.evidence, lost.repeats, lost.sightings), (1, 0, 0));
    // All evidence, and no more: counts go when there is none.
    let mut least = bytes;
    let mut sum = lost;
    let mut sequence = 32;
    while sum.evidence < 9 {
        let (lost, left) = keep(least - 1, sequence);
        assert_eq!((lost.repeats, lost.sightings), (0, 0));
        sum.evidence += lost.evidence;
        (least, sequence) = (left, sequence + 1);
    }
    while sum.repeats < 9 + 30 {
        let (lost, left) = keep(least - 1, sequence);
        assert_eq!((lost.evidence, lost.sightings), (0, 0));
        assert!(lost.repeats > 0);
        sum.repeats += lost.repeats;
        (least, sequence) = (left, sequence + 1);
    }
    let (lost, _) = keep(least - 1, sequence);
    assert_eq!((lost.evidence, lost.repeats, lost.sightings), (0, 0, 1));
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    let messages = drained(&mut outbox);
    let last = messages.last().unwrap().lost;
    assert_eq!((last.evidence, last.repeats, last.sightings), (9, 39, 1));
    assert_eq!(times(&messages) + last.repeats + last.sightings, given);
    // The first record of the oldest race was dropped, so its next one is a first one.
    fill(
        &mut outbox,
        sequence + 1,
        vec![caught(&race("hits", 99)), caught(&race("v3", 99))],
    );
    let (lost, _) = keep(1, sequence + 3);
    assert_eq!((lost.evidence, lost.repeats, lost.sightings), (1, 1, 1));
}

/// Check that a message has a bounded size, that what is worth most goes first, and that all numbers are there.
#[test]
fn messages_are_bounded() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    let mut often = Batch::default();
    for nth in 0..400 {
        often.caught.extend(caught(&race("hits", nth)).caught);
    }
    often.counted = counted("hits", 9, start()).counted;
    outbox.take(&handed(1, often)).unwrap();
    outbox.take(&handed(2, caught(&race("new", 0)))).unwrap();
    let messages = drained(&mut outbox);
    assert!(messages.len() > 1);
    let numbers: Vec<_> = messages.iter().map(|message| message.sequence).collect();
    assert_eq!(numbers, (1..=messages.len() as u64).collect::<Vec<_>>());
    assert_eq!(times(&messages), 400 + 9 + 1);
    let first = &messages[0].batch;
    let names: Vec<_> = first
        .caught
        .iter()
        .take(3)
        .map(|one| one.race.location.name.clone().unwrap())
        .collect();
    assert_eq!(names, ["hits", "new", "hits"]);
    assert_eq!(first.counted.len(), 1);
    for message in &messages {
        let json = serde_json::to_string(&message.batch).unwrap();
        assert!(
            (json.len() as i64) < seal::MOST_RECORDS + (64 << 10),
            "{}",
            json.len()
        );
        assert!(message.encode().len() <= seal::LONGEST);
    }
}

/// Check that messages which will never be taken are set aside, counted, and kept within bounds, and that a record which is none is counted as lost.
#[test]
fn what_nobody_takes() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    let many = u64::try_from(settle::MOST_REFUSED).unwrap() + 3;
    for nth in 1..=many {
        outbox
            .take(&handed(nth, seen(&format!("b{nth}"), start())))
            .unwrap();
        let sealed = outbox.message().unwrap().unwrap();
        assert_eq!(sealed.sequence, nth);
        outbox
            .set_aside(sealed.sequence, "HTTP status 422")
            .unwrap();
        // Once more, as after a kill.
        outbox
            .set_aside(sealed.sequence, "HTTP status 422")
            .unwrap();
    }
    let figures = outbox.figures().unwrap();
    assert_eq!(
        (figures.refused, figures.taken, figures.bytes),
        (many, 0, 0)
    );
    let kept = outbox.with(async |connection| {
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM refused")
            .fetch_one(connection)
            .await
    });
    assert_eq!(kept.unwrap(), settle::MOST_REFUSED);
    let broken = outbox.take(&handed(many + 1, caught(&race("hits", 0))));
    broken.unwrap();
    let done = outbox.with(async |connection| {
        sqlx::query("UPDATE item SET record = '{}'")
            .execute(connection)
            .await
            .map(drop)
    });
    done.unwrap();
    assert_eq!(outbox.message().unwrap(), None);
    assert_eq!(outbox.figures().unwrap().lost_sightings, 1);
}

/// Check that an outbox which was deleted is begun anew, under another name, so that nobody takes its messages for others.
#[test]
fn deleted_outboxes() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    outbox.take(&handed(1, seen("b", start()))).unwrap();
    let before = outbox.figures().unwrap().sender;
    for end in ["", "-wal", "-shm"] {
        let mut name = path.clone().into_os_string();
        name.push(end);
        let _ = std::fs::remove_file(name);
    }
    outbox.take(&handed(2, seen("b", start()))).unwrap();
    assert_ne!(outbox.figures().unwrap().sender, before);
    let messages = drained(&mut Outbox::open(&path, MUCH).unwrap());
    assert_eq!(messages.len(), 1);
}
