//! What was learned on its way to a collector, and what others have learned on its way back.

use std::{sync::Arc, thread, time::Instant};

use super::{
    sending::{PATIENCE, QUICK, destination, stub},
    *,
};
use crate::{
    learned::{KnownFunction, Learned, Module},
    outbox::collector::Told,
};

fn module(build: &str) -> Module {
    Module {
        name: "größe +1".to_owned(),
        build: build.to_owned(),
    }
}

/// Check that a build is asked for again the later, the more often there was something new, and six hours later at most.
#[test]
fn what_is_known_is_asked_for_seldom() {
    let mut pace = Pace::default();
    let minutes = [(true, 15), (false, 30), (true, 30), (true, 60), (true, 120)];
    for (is_new, expected) in minutes {
        assert_eq!(pace.after(is_new).as_secs() / 60, expected);
    }
    for _ in 0..3 {
        let _ = pace.after(true);
    }
    assert_eq!(pace.after(true).as_secs(), 6 * 3600);
}

/// What was learned of so many functions.
fn learned(nth: i64, functions: u64) -> Learned {
    let function = |at| KnownFunction {
        at,
        fingerprint: 7,
        sites: vec![(4, vec![(0, 1.0)])],
        raced: Vec::new(),
    };
    Learned {
        module: module("aa11"),
        at: start() + nth,
        functions: (0..functions).map(function).collect(),
    }
}

fn handed_learned(sequence: u64, learned: Vec<Learned>) -> Message {
    Message {
        learned,
        ..handed(sequence, Batch::default())
    }
}

/// Check that what was learned is sent in messages of its own, after all else, each piece once however often it is handed over; and that it stays the same from one start to the next.
#[test]
fn learning_has_its_own_messages() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    let all: Vec<_> = (0..10).map(|nth| learned(nth, 3)).collect();
    for _ in 0..2 {
        outbox.take(&handed_learned(1, all.clone())).unwrap();
    }
    outbox.take(&handed(2, caught(&race("hits", 0)))).unwrap();
    drop(outbox);
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    let messages = drained(&mut outbox);
    let [race, first, second] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert!(race.learned.is_empty() && race.batch.caught.len() == 1);
    assert!(first.batch.is_empty() && second.batch.is_empty());
    let learned: Vec<_> = first.learned.iter().chain(&second.learned).collect();
    assert_eq!(first.learned.len(), 8);
    assert!(learned.into_iter().eq(&all));
    let figures = outbox.figures().unwrap();
    assert_eq!(
        (figures.items, figures.bytes, figures.lost_learning),
        (0, 0, 0)
    );
}

/// Check that what was learned is dropped first, is counted as such, and that nothing else is dropped for it.
#[test]
fn learning_is_dropped_first() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, 60_000).unwrap();
    outbox.take(&handed(1, caught(&race("hits", 0)))).unwrap();
    for sequence in 2..12_u64 {
        let more = learned(sequence.cast_signed(), 256);
        let lost = outbox.take(&handed_learned(sequence, vec![more])).unwrap();
        assert_eq!(lost, Lost::default());
    }
    let figures = outbox.figures().unwrap();
    assert!(figures.bytes <= 60_000 && figures.items > 1, "{figures:?}");
    assert_eq!(figures.lost_learning, 256 * (11 - figures.items));
    for number in 0..20 {
        let caught = caught(&race(&format!("v{number}"), 0));
        outbox.take(&handed(12 + number, caught)).unwrap();
    }
    let figures = outbox.figures().unwrap();
    assert_eq!(figures.lost_learning, 256 * 10);
    // With nobody who takes it, it is not kept at all.
    let mut outbox = outbox.for_whom(Wants {
        messages: false,
        events: false,
    });
    outbox.let_go().unwrap();
    outbox
        .take(&handed_learned(99, vec![learned(99, 1)]))
        .unwrap();
    assert_eq!(outbox.figures().unwrap().items, 0);
}

/// Check what a collector is asked, and what each answer means: something new, nothing new, nothing, which is also what a collector says that knows nothing of it, or to ask later.
#[test]
fn answers_to_questions() {
    let new = "HTTP/1.1 200 OK\r\nETag: \"t1\"\r\nContent-Length: 3\r\n\r\nabc";
    let large = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}",
        (1 << 20) + 1,
        "x".repeat((1 << 20) + 1)
    );
    let answers = [
        new,
        "HTTP/1.1 304 Not Modified\r\nETag: \"t1\"\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nETag: \"t\u{e9}\"\r\nContent-Length: 3\r\n\r\nabc",
        &large,
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
    ];
    let (address, requests) = stub(&answers);
    let collector = Collector::new(destination(&address)).unwrap();
    let ask = |tag: &str| collector.hints(&module("aa11"), tag);
    assert_eq!(ask(""), Told::New("\"t1\"".to_owned(), b"abc".to_vec()));
    let (head, _) = requests.recv_timeout(PATIENCE).unwrap();
    let line = "get /below/v1/hints/gr%c3%b6%c3%9fe%20%2b1/aa11 http/1.1\r\n";
    assert!(
        head.starts_with(line) && !head.contains("if-none-match"),
        "{head}"
    );
    assert_eq!(ask("\"t1\""), Told::Same);
    let (head, _) = requests.recv_timeout(PATIENCE).unwrap();
    assert!(head.contains("if-none-match: \"t1\"\r\n"), "{head}");
    assert_eq!(ask("\"t1\""), Told::Nothing);
    let Told::Later(Some(wanted), _) = ask("\"t1\"") else {
        panic!("it is to be asked later")
    };
    assert_eq!(wanted.as_secs(), 7);
    let Told::New(tag, _) = ask("\"t1\"") else {
        panic!("it has a tag of our own")
    };
    assert_eq!(tag.len(), 66);
    for _ in 0..2 {
        assert!(matches!(ask("\"t1\""), Told::Later(None, _)));
    }
}

/// Check that what others have learned comes to whoever wants it, once, also behind others for whom there is nothing; and that a collector which knows nothing of it has messages go on.
#[test]
fn hints_come_once() {
    let nothing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    let new = "HTTP/1.1 200 OK\r\nETag: \"t1\"\r\nContent-Length: 3\r\n\r\nabc";
    let (address, requests) = stub(&[nothing, new]);
    let collector = Collector::new(destination(&address)).unwrap();
    let hinting = Arc::new(Hinting::default());
    let wanted = |tag: &str| {
        [("aa11", ""), ("bb22", tag)].map(|(build, tag)| Wanted {
            module: module(build),
            tag: tag.to_owned(),
        })
    };
    assert!(hinting.ask(&wanted("")).is_pending);
    let fetching = Arc::clone(&hinting);
    let thread = thread::spawn(move || fetching.fetch(&collector));
    let end = Instant::now() + PATIENCE;
    let hinted = loop {
        if let Some(hinted) = hinting.ask(&wanted("")).hinted {
            break hinted;
        }
        assert!(Instant::now() < end);
        thread::sleep(std::time::Duration::from_millis(5));
    };
    assert_eq!((&*hinted.tag, &hinted.body[..]), ("\"t1\"", &b"abc"[..]));
    assert_eq!(hinted.module, module("bb22"));
    // Until it is known to be there it is told again.
    assert_eq!(hinting.ask(&wanted("")).hinted, Some(hinted));
    assert_eq!(hinting.ask(&wanted("\"t1\"")), Asking::default());
    // Whoever begins anew is told anew.
    assert!(hinting.ask(&wanted("")).is_pending);
    // What nobody may be named by is not asked for.
    let wrong = Wanted {
        module: Module {
            name: "../..".to_owned(),
            build: "aa11".to_owned(),
        },
        tag: String::new(),
    };
    assert_eq!(hinting.ask(&[wrong]), Asking::default());
    hinting.end();
    thread.join().unwrap();
    let builds = requests.try_iter().map(|(head, _)| head.contains("/aa11 "));
    assert_eq!(builds.take(2).collect::<Vec<_>>(), [true, false]);

    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    outbox
        .take(&handed_learned(1, vec![learned(1, 1)]))
        .unwrap();
    outbox.take(&handed(2, caught(&race("hits", 0)))).unwrap();
    let (address, _requests) = stub(&[]);
    let collector = Collector::new(destination(&address)).unwrap();
    let shared = Arc::new(Shared::new(outbox));
    let sending = Arc::clone(&shared);
    let thread = thread::spawn(move || sending.send(&collector, &QUICK));
    sending::until(&shared, |figures| figures.taken == 2);
    shared.end();
    thread.join().unwrap();
}
