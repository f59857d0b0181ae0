//! Messages as hosts send them, and as nobody but an attacker does.

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use super::{
    Lost, Message, MessageError,
    bounds::{LONGEST, MOST_ELEMENTS},
};
use crate::report::{identity, sample};
use crate::{
    learned::{KnownFunction, Learned, Module, Raced},
    store::{Batch, Caught, Counted, Seen, Whereabouts},
};

const MOST: usize = 1 << 20;

fn message() -> Message {
    let mut race = sample::race();
    race.exe = "/bin/\"app\" \\u0000\n".to_owned();
    race.identity = identity(&race);
    let place = Whereabouts {
        host: "web1".to_owned(),
        cgroup: "/app.slice".to_owned(),
        container: String::new(),
    };
    let counted = Counted {
        race: race.identity.race.clone(),
        build: race.build(),
        exe: race.exe.clone(),
        place: place.clone(),
        times: 7,
        last: 1_700_000_000_000,
    };
    Message {
        sender: "0123456789abcdef".repeat(2),
        sequence: 3,
        lost: Lost {
            evidence: 1,
            repeats: 2,
            sightings: 0,
        },
        batch: Batch {
            builds: vec![Seen {
                build: race.build(),
                exe: race.exe.clone(),
                at: 1,
            }],
            counted: vec![counted],
            caught: vec![Caught {
                race,
                place,
                times: 2,
                last: None,
            }],
        },
        learned: vec![learned()],
    }
}

/// What a host has learned of a build.
fn learned() -> Learned {
    let [name, build] = ["app", "aa11"].map(str::to_owned);
    let function = |at| KnownFunction {
        at,
        fingerprint: u64::MAX - at,
        sites: vec![(4, vec![(0, 3.0), (2, 0.25)])],
        raced: vec![Raced {
            at: 4,
            with: (u64::MAX, 8),
        }],
    };
    Learned {
        module: Module { name, build },
        at: 1_700_000_000_000,
        functions: vec![function(16), function(32)],
    }
}

/// The JSON of the message, with something else in one place.
fn changed(pointer: &str, value: Value) -> Vec<u8> {
    let mut json = serde_json::to_value(message()).unwrap();
    json["schema"] = 1.into();
    *json.pointer_mut(pointer).expect("a place in the message") = value;
    serde_json::to_vec(&json).unwrap()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// Check that what was sent is read, that what a later version adds is passed over, and what an earlier one lacks has a usual value.
#[test]
fn what_was_sent_is_read() {
    let message = message();
    assert_eq!(Message::decode(&message.encode(), MOST).unwrap(), message);
    let more = changed("/batch", json!({ "builds": [], "later": [{ "x": 1 }] }));
    let read = Message::of_json(&more).unwrap();
    assert!(read.batch.is_empty() && read.lost == message.lost);
    let mut less: Value = serde_json::from_slice(&more).unwrap();
    less.as_object_mut().unwrap().remove("lost");
    less.as_object_mut().unwrap().remove("learned");
    let read = Message::of_json(&serde_json::to_vec(&less).unwrap()).unwrap();
    assert_eq!(read.lost, Lost::default());
    assert!(read.learned.is_empty());
}

/// Check that a body which is no whole frame, or more than one, or one of something else, is refused for good.
#[test]
fn garbage_is_refused() {
    let whole = message().encode();
    let cut = whole[..whole.len() - 1].to_vec();
    let twice = [&whole[..], &whole].concat();
    for body in [b"".to_vec(), b"{}".to_vec(), vec![0xff; 100], cut, twice] {
        let error = Message::decode(&body, MOST).unwrap_err();
        assert!(matches!(error, MessageError::Packed(_)), "{error}");
        assert_eq!(error.status(), 400);
    }
    for json in ["", "null", "{}", "[1]", "{\"schema\":1}", "{\"schema\":1"] {
        let error = Message::decode(&packed(json.as_bytes()), MOST).unwrap_err();
        assert!(matches!(error, MessageError::Json(_)), "{json}: {error}");
        assert_eq!(error.status(), 400);
    }
}

/// Check that what gets too large when it is unpacked is refused at the limit, and one byte less is read.
#[test]
fn bombs_are_refused() {
    let bomb = packed(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < MOST);
    let error = Message::decode(&bomb, MOST).unwrap_err();
    assert!(matches!(error, MessageError::TooLarge(MOST)), "{error}");
    assert_eq!(error.status(), 413);
    let json = changed("/sequence", 4.into());
    assert!(Message::decode(&packed(&json), json.len()).is_ok());
    assert!(Message::decode(&packed(&json), json.len() - 1).is_err());
}

/// Check that what nobody's message has is refused: too many levels, elements and bytes, NULs, and values that no store takes.
#[test]
fn bounds_hold() {
    let refused = |pointer: &str, value: Value| {
        let error = Message::of_json(&changed(pointer, value)).unwrap_err();
        assert_eq!(error.status(), 422, "{error}");
        error.to_string()
    };
    let deep = (0..20).fold(json!(1), |inner, _| json!([inner]));
    let race = "/batch/caught/0/race";
    for (pointer, value, said) in [
        ("/batch/builds", deep, "levels"),
        (
            "/batch/builds",
            json!(vec![1; MOST_ELEMENTS + 1]),
            "elements",
        ),
        (
            "/batch/counted/0/exe",
            "x".repeat(LONGEST + 1).into(),
            "bytes",
        ),
        ("/batch/counted/0/exe", "a\0b".into(), "NUL"),
        ("/schema", 0.into(), "the form 0"),
        ("/sender", "0123".into(), "32 hexadecimal digits"),
        (
            "/sender",
            "0123456789ABCDEF".repeat(2).into(),
            "32 hexadecimal digits",
        ),
        ("/sequence", 0.into(), "a number"),
        ("/sequence", u64::MAX.into(), "a number"),
        ("/lost/repeats", u64::MAX.into(), "losses"),
        ("/batch/builds/0/at", (-1).into(), "no time"),
        ("/batch/counted/0/last", i64::MAX.into(), "no time"),
        ("/batch/caught/0/last", (-1).into(), "no time"),
        ("/batch/counted/0/race", "r1:00".into(), "no name"),
        ("/batch/caught/0/race/time", "yesterday".into(), "no time"),
        (
            "/batch/caught/0/race/schema",
            2.into(),
            "no time or no identity",
        ),
        (
            "/batch/caught/0/race/identity/race",
            "x".into(),
            "no identity",
        ),
        ("/learned/0/name", "../etc".into(), "no name or build id"),
        ("/learned/0/build", "".into(), "no name or build id"),
        ("/learned/0/functions/1/at", 16.into(), "order"),
        ("/learned/0/functions/1/at", u64::MAX.into(), "cannot be"),
        (
            "/learned/0/functions/0/sites",
            json!([[4, [[16, 1.0]]]]),
            "cannot be",
        ),
        (
            "/learned/0/functions/0/sites",
            json!([[4, [[0, -1.0]]]]),
            "cannot be",
        ),
        (
            "/learned/0/functions/0/sites",
            json!([[4, [[0, 1e30]]]]),
            "cannot be",
        ),
        ("/learned", json!(vec![learned(); 9]), "more of functions"),
    ] {
        let error = refused(pointer, value);
        assert!(error.contains(said), "{pointer}: {error}");
    }
    // Whoever is newer keeps it until this one is.
    let newer = Message::of_json(&changed("/schema", 2.into())).unwrap_err();
    assert_eq!(newer.status(), 426);
    assert!(newer.to_string().contains("the form 2"), "{newer}");
    let wrong = changed(race, json!({ "schema": 1 }));
    assert_eq!(Message::of_json(&wrong).unwrap_err().status(), 400);
    let longest = changed("/batch/counted/0/exe", "x".repeat(LONGEST - 1).into());
    assert!(Message::of_json(&longest).is_ok());
}
