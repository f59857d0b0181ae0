//! What a race is as time goes by: by what was said of it, until when, and in which builds it was caught.

use super::*;

/// What happens to a race on a day.
enum Event {
    /// It is caught in this build.
    Caught(&'static str),
    /// This build is watched, and it is not caught there.
    Watched(&'static str),
    /// Somebody says this, until a day where there is one.
    Said(Verdict, Option<i64>),
    /// Somebody says this of its issue.
    SaidOfIssue(Verdict),
}

use Event::{Caught as In, Said, SaidOfIssue, Watched};

/// What happens, by days, and what the race is on some days after all of that.
type Case = (
    &'static str,
    &'static [(i64, Event)],
    &'static [(i64, State)],
);

const CASES: &[Case] = &[
    ("nothing said", &[(0, In("a"))], &[(0, State::New)]),
    (
        "confirmed",
        &[
            (0, In("a")),
            (1, Said(Verdict::Confirmed, None)),
            (2, In("b")),
        ],
        &[(3, State::Confirmed)],
    ),
    (
        "fixed, and caught in the build of before",
        &[(0, In("a")), (1, Said(Verdict::Fixed, None)), (9, In("a"))],
        &[(9, State::Fixed)],
    ),
    (
        "fixed, and caught for the first time in a build that was watched before",
        &[
            (0, In("a")),
            (0, Watched("b")),
            (1, Said(Verdict::Fixed, None)),
            (9, In("b")),
        ],
        &[(9, State::Fixed)],
    ),
    (
        "fixed, and caught in a build that was watched first after that",
        &[
            (0, In("a")),
            (1, Said(Verdict::Fixed, None)),
            (2, Watched("b")),
            (9, In("b")),
        ],
        &[(9, State::Regressed)],
    ),
    (
        "a new build alone is no regression",
        &[
            (0, In("a")),
            (1, Said(Verdict::Fixed, None)),
            (2, Watched("b")),
        ],
        &[(9, State::Fixed)],
    ),
    (
        "regressed, and fixed again",
        &[
            (0, In("a")),
            (1, Said(Verdict::Fixed, None)),
            (2, In("b")),
            (3, Said(Verdict::Fixed, None)),
            (4, In("b")),
        ],
        &[(9, State::Fixed)],
    ),
    (
        "regressed once more",
        &[
            (0, In("a")),
            (1, Said(Verdict::Fixed, None)),
            (2, In("b")),
            (3, Said(Verdict::Fixed, None)),
            (4, In("c")),
        ],
        &[(9, State::Regressed)],
    ),
    (
        "for a time",
        &[(0, In("a")), (1, Said(Verdict::Benign, Some(5)))],
        &[(4, State::Benign), (5, State::New), (6, State::New)],
    ),
    (
        "for a time, beside what was said before",
        &[
            (0, In("a")),
            (1, Said(Verdict::Confirmed, None)),
            (2, Said(Verdict::Acknowledged, Some(5))),
        ],
        &[(4, State::Acknowledged), (5, State::Confirmed)],
    ),
    (
        "for a time, beside a fix that did not last",
        &[
            (0, In("a")),
            (1, Said(Verdict::Fixed, None)),
            (2, In("b")),
            (3, Said(Verdict::Acknowledged, Some(5))),
        ],
        &[(4, State::Acknowledged), (5, State::Regressed)],
    ),
    (
        "for a time, that of the issue for good",
        &[
            (0, In("a")),
            (1, SaidOfIssue(Verdict::Benign)),
            (2, Said(Verdict::New, Some(5))),
        ],
        &[(4, State::New), (5, State::Benign)],
    ),
    (
        "the last of two times",
        &[
            (0, In("a")),
            (1, Said(Verdict::Benign, Some(9))),
            (2, Said(Verdict::Acknowledged, Some(5))),
        ],
        &[
            (4, State::Acknowledged),
            (5, State::Benign),
            (9, State::New),
        ],
    ),
    (
        "the last word",
        &[
            (0, In("a")),
            (1, Said(Verdict::Benign, None)),
            (2, SaidOfIssue(Verdict::Acknowledged)),
            (3, Said(Verdict::New, None)),
        ],
        &[(4, State::New)],
    ),
];

/// Check what a race is on each day of some stories.
#[test]
fn states_over_time() {
    let (_folder, mut store) = store();
    for (number, (story, events, states)) in CASES.iter().enumerate() {
        // Each has builds, and an issue, of its own.
        let names = |build: &str, day: i64| {
            let mut race = race(&format!("v{number}"), &format!("{number}{build}"), day);
            race.accesses[0].stack[0].function = Some(format!("f{number}"));
            race.identity = identity(&race);
            race
        };
        let identity = names("a", 0).identity;
        for (day, event) in *events {
            let now = start() + day * DAY;
            let said = |name: &str, state, until: Option<i64>| {
                saying(name, state, until.map(|day| start() + day * DAY))
            };
            match event {
                In(build) => {
                    store.write(&caught(&[&names(build, *day)])).unwrap();
                }
                Watched(build) => {
                    let race = names(build, *day);
                    let seen = Seen {
                        build: race.build(),
                        exe: race.exe.clone(),
                        at: now,
                    };
                    let batch = Batch {
                        builds: vec![seen],
                        ..Batch::default()
                    };
                    store.write(&batch).unwrap();
                }
                Said(state, until) => {
                    store
                        .triage(&said(&identity.race, *state, *until), now)
                        .unwrap();
                }
                SaidOfIssue(state) => {
                    store
                        .triage(&said(&identity.issue, *state, None), now)
                        .unwrap();
                }
            }
        }
        for (day, state) in *states {
            let races = store.races(start() + day * DAY).unwrap();
            let race = races.iter().find(|race| race.id == identity.race).unwrap();
            assert_eq!(race.state, *state, "{story}, day {day}");
        }
    }
}

/// Check that whoever sees to a race does so until somebody says otherwise, and that a word that is over names nobody.
#[test]
fn owners_stay() {
    let (_folder, mut store) = store();
    let first = race("hits", "aa11", 0);
    store.write(&caught(&[&first])).unwrap();
    let names = &first.identity;
    let mut number = 0;
    let mut owner = |name: &str, owner: Option<&str>, expires: Option<i64>| {
        number += 1;
        let saying = Saying {
            owner: owner.map(str::to_owned),
            ..saying(name, Verdict::Acknowledged, expires)
        };
        store.triage(&saying, number).unwrap();
        store.races(number).unwrap()[0].owner(number).to_owned()
    };
    assert_eq!(owner(&names.issue, Some("web"), None), "web");
    assert_eq!(owner(&names.race, None, None), "web");
    assert_eq!(owner(&names.race, Some("core"), None), "core");
    assert_eq!(owner(&names.race, None, None), "core");
    // Of the issue nobody else was named.
    assert_eq!(owner(&names.issue, None, None), "web");
    assert_eq!(owner(&names.race, Some(""), None), "");
    assert_eq!(
        owner(&names.race, Some("for a time"), Some(9)),
        "for a time"
    );
    let races = store.races(9).unwrap();
    assert_eq!(races[0].owner(9), "");
}
