//! The thread and an agent that says what it is told to.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixListener,
    path::PathBuf,
};

use tempfile::TempDir;

use super::*;
use crate::{
    delivery::{MOST_UNPACKED, Message},
    hunt::wire,
    ledger::{HALF_LIFE, Ledger},
    outbox::{Answer, Asked, Question},
};

fn module(build: &str) -> Module {
    Module {
        name: "app".to_owned(),
        build: build.to_owned(),
    }
}

fn function(at: u64, came: f32) -> KnownFunction {
    KnownFunction {
        at,
        fingerprint: 7,
        sites: vec![(4, vec![(0, came)])],
        raced: Vec::new(),
    }
}

/// An agent that says this to so many questions; what it was asked. Then it is gone.
fn agent(answers: Vec<Answer>) -> (TempDir, PathBuf, JoinHandle<Vec<Question>>) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let thread = std::thread::spawn(move || {
        let answer = |answer: Answer| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = Vec::new();
            let asked = loop {
                let mut piece = [0; 4096];
                let read = stream.read(&mut piece).unwrap();
                buffer.extend_from_slice(&piece[..read]);
                if let Some(asked) = wire::decode::<Asked>(&mut buffer).unwrap() {
                    break asked;
                }
            };
            stream.write_all(&wire::encode(&answer).unwrap()).unwrap();
            asked.question
        };
        answers.into_iter().map(answer).collect()
    });
    (folder, socket, thread)
}

fn hinted(build: &str, tag: &str, body: Vec<u8>) -> Answer {
    Answer::Hints(Asking {
        hinted: Some(Box::new(Hinted {
            module: module(build),
            tag: tag.to_owned(),
            body,
        })),
        is_pending: false,
    })
}

fn file(build: &str) -> Vec<u8> {
    let file = HintFile {
        module: module(build),
        functions: vec![function(16, 3.0)],
    };
    file.encode()
}

/// Check that what others have learned is taken where it is whole and of the build that was asked for, and else ignored, and that neither is asked for again; and that nobody is asked who has nothing to ask for.
#[test]
fn what_is_wrong_is_ignored() {
    let (_folder, socket, thread) = agent(vec![
        hinted("aa", "t1", b"poison".to_vec()),
        hinted("aa", "t2", file("bb")),
        hinted("cc", "t3", file("cc")),
        hinted("aa", "t4", file("aa")),
        Answer::Hints(Asking {
            hinted: None,
            is_pending: true,
        }),
        Answer::Hints(Asking::default()),
    ]);
    let (sender, found) = channel();
    let mut work = Work::new(Agent::new(&socket), sender);
    let now = Instant::now();
    assert_eq!(work.ask(now), LOOK);
    work.runs(
        Wanted {
            module: module("aa"),
            tag: "t0".to_owned(),
        },
        now,
    );
    assert!(work.asks <= now + SOON);
    for _ in 0..4 {
        assert_eq!(work.ask(now), Duration::ZERO);
    }
    assert_eq!([(); 2].map(|()| work.ask(now)), [SOON, LOOK]);
    let found: Vec<Found> = found.try_iter().collect();
    let [only] = &found[..] else {
        panic!("{} were found", found.len());
    };
    assert_eq!((&only.module, &*only.tag), (&module("aa"), "t4"));
    assert_eq!(only.functions, [function(16, 3.0)]);
    let tags = thread.join().unwrap().into_iter().map(|question| {
        let Question::Hints(wanted) = question else {
            panic!("{question:?}");
        };
        assert_eq!(wanted.len(), 1);
        wanted[0].tag.clone()
    });
    let tags: Vec<_> = tags.collect();
    assert_eq!(tags, ["t0", "t1", "t2", "t2", "t4", "t4"]);
    // Whoever does not run any more is not asked for.
    assert_eq!(work.ask(now + KEPT_FOR), LOOK);
    assert!(work.runs.is_empty());
}

/// Check that what was gained is handed over as a whole, once, also what the agent has not taken at first, and what is left at the end; and that what it will never take is let go.
#[test]
fn what_was_gained_is_handed_over() {
    let (_folder, socket, thread) = agent(vec![
        Answer::Refused("no room".to_owned()),
        Answer::Taken,
        Answer::Never("older".to_owned()),
        Answer::Taken,
    ]);
    let (sender, _found) = channel();
    let mut work = Work::new(Agent::new(&socket), sender);
    work.hand_over();
    let mut gains = Gains::default();
    gains.add(&module("aa"), vec![function(16, 1.0)], false);
    work.gains.add_shared(&gains, MOST_WAITING);
    work.gains.add_shared(&gains, MOST_WAITING);
    work.hand_over();
    assert!(work.agent.owes());
    work.hand_over();
    assert!(!work.agent.owes());
    let (told, queue) = sync_channel(4);
    for build in ["bb", "cc"] {
        let mut gains = Gains::default();
        gains.add(&module(build), vec![function(16, 1.0)], false);
        told.send(Told::Gained(gains)).unwrap();
    }
    drop(told);
    // Their message is never taken: nothing of it is left.
    work.go_on(&queue);
    let mut gains = Gains::default();
    gains.add(&module("dd"), vec![function(16, 1.0)], false);
    work.gains.add_shared(&gains, MOST_WAITING);
    work.hand_over();
    let messages = thread.join().unwrap().into_iter().map(|question| {
        let Question::Take(body) = question else {
            panic!("{question:?}");
        };
        Message::decode(&body, MOST_UNPACKED).unwrap()
    });
    let messages: Vec<_> = messages.collect();
    let numbers: Vec<_> = messages.iter().map(|message| message.sequence).collect();
    assert_eq!(numbers, [1, 1, 2, 3]);
    assert_eq!(messages[0], messages[1]);
    let [learned] = &messages[0].learned[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(learned.functions, [function(16, 2.0)]);
    assert_eq!(messages[2].learned.len(), 2);
}

/// Check that what others have learned is in the ledger for whoever is watched next.
#[test]
fn what_was_found_is_for_the_next() {
    let (folder, socket, thread) = agent(vec![hinted("aa", "t1", file("aa"))]);
    let path = folder.path().join("ledger.db");
    let mut ledger = Ledger::open(&path, HALF_LIFE).unwrap();
    let sharing = Sharing::start(&socket).unwrap();
    sharing.tell(Told::Runs(Wanted {
        module: module("aa"),
        tag: String::new(),
    }));
    let found = sharing.found.recv_timeout(Duration::from_secs(60)).unwrap();
    thread.join().unwrap();
    ledger
        .take_hints(&found.module, &found.tag, &found.functions, 5)
        .unwrap();
    sharing.end();
    let (all, _) = ledger.remembered(&module("aa"), 5).unwrap();
    assert_eq!(all[0].1, [function(16, 3.0)]);
}
