//! Outboxes whose process is killed at any instant.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use super::*;

/// What the child is told: the folder, and the number of the first message that is to be handed over.
const FOLDER: &str = "GWP_RACE_TEST_OUTBOX";
const FIRST: &str = "GWP_RACE_TEST_OUTBOX_FIRST";
/// Little room, so that something is dropped all the time.
const LITTLE: u64 = 24 << 10;
const KILLS: usize = 25;

/// The nth thing that is handed over: each is a race that was caught once.
fn batch(nth: u64) -> Batch {
    let variable = format!("v{}", nth % 7);
    let at = i64::try_from(nth).unwrap();
    if nth.is_multiple_of(3) {
        counted(&variable, 1, start() + at * HOUR / 10)
    } else {
        caught(&race(&variable, at))
    }
}

/// A collector on the disk: messages by their numbers. One that comes again must be the same.
fn collect(folder: &Path, message: &Sealed) {
    let path = folder.join(format!("message-{}", message.sequence));
    match fs::read(&path) {
        Ok(before) => assert_eq!(before, message.body, "message {}", message.sequence),
        Err(_) => write(&path, &message.body),
    }
}

/// A file that is whole or not there.
fn write(path: &Path, bytes: &[u8]) {
    let name = format!("unfinished-{}", std::process::id());
    let unfinished = path.with_file_name(name);
    fs::write(&unfinished, bytes).unwrap();
    fs::rename(unfinished, path).unwrap();
}

/// A collector of OpenTelemetry on the disk: events may come again.
fn tell(folder: &Path, events: &Events) {
    let path = folder.join(format!("events-{}", events.last));
    write(&path, events.body.as_bytes());
}

fn open(folder: &Path) -> Outbox {
    let outbox = Outbox::open(&folder.join("outbox.db"), LITTLE);
    outbox.unwrap().for_whom(super::otlp::BOTH)
}

/// Hands over and sends until it is killed. What was taken in is told.
fn child(folder: &Path, first: u64) {
    let mut outbox = open(folder);
    for nth in first.. {
        outbox.take(&handed(nth, batch(nth))).unwrap();
        let mut out = std::io::stdout();
        if writeln!(out, "taken {nth}")
            .and_then(|()| out.flush())
            .is_err()
        {
            return;
        }
        if nth.is_multiple_of(5)
            && let Some(events) = outbox.events(2).unwrap()
        {
            tell(folder, &events);
            outbox.events_taken(events.last, 0).unwrap();
        }
        if nth.is_multiple_of(16)
            && let Some(message) = outbox.message().unwrap()
        {
            collect(folder, &message);
            if message.sequence.is_multiple_of(5) {
                outbox.set_aside(message.sequence, "why not").unwrap();
            } else {
                outbox.taken(message.sequence).unwrap();
            }
        }
    }
}

/// Check that wherever the process is killed, what was answered is there once or counted as dropped, that numbers are used once and leave no gap, that a message is the same whenever it comes, and that each race is an event once.
#[test]
fn killed_at_any_instant() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let first = std::env::var(FIRST).unwrap().parse().unwrap();
        return child(folder.as_ref(), first);
    }
    let name = format!("{}::killed_at_any_instant", module_path!());
    let (_, name) = name.split_once("::").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut last = 0;
    for _ in 0..KILLS {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FOLDER, folder.path())
            .env(FIRST, (last + 1).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut read = || -> Option<u64> {
            loop {
                // The harness says something of its own as well, maybe in the same line.
                let line = lines.next()?.ok()?;
                if let Some((_, number)) = line.split_once("taken ") {
                    return number.parse().ok();
                }
            }
        };
        for _ in 0..random.u32(1..12) {
            last = read().expect("the child has ended by itself");
        }
        std::thread::sleep(Duration::from_micros(random.u64(0..4000)));
        process.kill().unwrap();
        // What it has told before that counts, too.
        while let Some(number) = read() {
            last = number;
        }
        process.wait().unwrap();
    }
    let mut outbox = open(folder.path());
    // Maybe it was taken in, and nobody has heard of it.
    outbox.take(&handed(last + 1, batch(last + 1))).unwrap();
    while let Some(message) = outbox.message().unwrap() {
        collect(folder.path(), &message);
        outbox.taken(message.sequence).unwrap();
    }
    while let Some(events) = outbox.events(2).unwrap() {
        tell(folder.path(), &events);
        outbox.events_taken(events.last, 0).unwrap();
    }
    let mut messages = BTreeMap::new();
    let mut told = BTreeMap::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if let Some(number) = name.strip_prefix("message-") {
            let number: u64 = number.parse().unwrap();
            let message = Message::decode(&fs::read(&path).unwrap(), MOST_UNPACKED).unwrap();
            assert_eq!(message.sequence, number);
            messages.insert(number, message);
        } else if name.starts_with("events-") {
            told.extend(super::otlp::events_of(&fs::read(&path).unwrap()));
        }
    }
    let numbers: Vec<u64> = messages.keys().copied().collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let messages: Vec<_> = messages.into_values().collect();
    assert!(
        messages
            .iter()
            .all(|message| message.sender == messages[0].sender)
    );
    let figures = outbox.figures().unwrap();
    assert_eq!((figures.items, figures.bytes), (0, 0));
    assert_eq!(figures.taken + figures.refused, messages.len() as u64);
    let sum = times(&messages) + figures.lost_repeats + figures.lost_sightings;
    assert_eq!(sum, last + 1, "{figures:?}");
    assert!(figures.lost_evidence > 0, "{figures:?}");
    assert_eq!(figures.caught, last + 1);
    let races: BTreeSet<_> = told.values().collect();
    assert_eq!((told.len(), races.len()), (7, 7), "{told:?}");
    assert_eq!((figures.races, figures.events_taken), (7, 7), "{figures:?}");
    // A record is in one message at most.
    let mut records: Vec<_> = messages
        .iter()
        .flat_map(|message| &message.batch.caught)
        .map(|caught| (caught.race.identity.race.clone(), caught.race.time.clone()))
        .collect();
    let all = records.len();
    records.sort();
    records.dedup();
    assert_eq!(records.len(), all);
}
