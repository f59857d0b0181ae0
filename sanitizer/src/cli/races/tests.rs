//! What `races` writes.

use std::collections::HashSet;

use clap::Parser as _;
use serde_json::Value;

use super::{
    choice::Choice,
    diff::counts,
    hosts,
    json::{Builds, Difference, Line, Listed, SCHEMA, SentBy, Shown, Versioned, write_line},
    list::table,
};
use crate::cli::args::{Cli, Command};
use crate::report::{
    Race, identity, sample,
    schema::{assert_documented, errors, schema_of},
};
use crate::store::{
    Access, Batch, Caught, Lost, Saying, Sender, State, Store, StoredRace, Verdict, Whereabouts,
};

const POD: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// A store of two races, of which one was triaged, and one has names that would do something on a terminal.
fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("races.db");
    let address = format!("sqlite:{}", path.display()).parse().unwrap();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let race = |name: &str, build: &str| {
        let mut race = sample::race();
        race.location.name = Some(name.to_owned());
        race.build_id = Some(build.to_owned());
        race.identity = identity(&race);
        race
    };
    let races = [
        race("hits", "aa11"),
        race("hits", "bb22"),
        race(&"\u{1b}[2Jlong".repeat(30), "bb22"),
    ];
    let caught = races.iter().map(|race: &Race| Caught {
        race: race.clone(),
        place: Whereabouts {
            host: "web1".to_owned(),
            cgroup: format!("/kubepods/pod{POD}/x"),
            container: String::new(),
        },
        times: 2,
        last: None,
    });
    let batch = Batch {
        caught: caught.collect(),
        ..Batch::default()
    };
    assert_eq!(store.write(&batch).unwrap(), 3);
    let saying = Saying {
        name: races[0].identity.race.clone(),
        state: Verdict::Benign,
        reason: "why".to_owned(),
        owner: String::new(),
        expires: None,
        who: "root".to_owned(),
    };
    store.triage(&saying, 1).unwrap();
    (folder, store)
}

fn choice(words: &[&str]) -> Choice {
    let words = ["gwp-race", "races", "list", "--store", "sqlite:x"]
        .iter()
        .chain(words);
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Races(args)) => match args.command {
            super::RacesCommand::List(args) => args.choice,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Check that each condition chooses by what it says, and that all of them must be met.
#[test]
fn conditions() {
    let (_folder, mut store) = store();
    let mut chosen = |words: &[&str]| {
        let races = choice(words).of(&mut store, 2).unwrap();
        races
            .iter()
            .map(|race| race.variable.len() > 4)
            .collect::<Vec<_>>()
    };
    let count = |races: Vec<bool>| races.len();
    assert_eq!(count(chosen(&[])), 2);
    assert_eq!(chosen(&["--state", "benign"]), [false]);
    assert_eq!(chosen(&["--state", "new,regressed"]), [true]);
    assert_eq!(chosen(&["--build", "aa11"]), [false]);
    assert_eq!(count(chosen(&["--build", "bb22"])), 2);
    assert_eq!(chosen(&["--text", "HITS"]), [false]);
    assert_eq!(count(chosen(&["--text", "nothing"])), 0);
    assert_eq!(count(chosen(&["--program", "bin/app"])), 2);
    assert_eq!(count(chosen(&["--program", "other"])), 0);
    assert_eq!(count(chosen(&["--build", "bb22", "--state", "benign"])), 1);
    // As of a moment in 1970 everything is new enough; a century later nothing is.
    assert_eq!(count(chosen(&["--since", "1ms"])), 2);
    let century = 4_000_000_000_000;
    let late = choice(&["--since", "7d"]).of(&mut store, century).unwrap();
    assert!(late.is_empty());
    let records = choice(&[]).records(&mut store, None, 2).unwrap();
    let known: Vec<bool> = (records.iter())
        .map(|record| matches!(record, crate::report::Record::Race(race) if race.known))
        .collect();
    assert_eq!(known.iter().filter(|known| **known).count(), 1);
}

/// Check that a list has a race a line, which fits in and does nothing on a terminal; that names are as long as tells them from each other.
#[test]
fn tables_are_narrow() {
    let (_folder, mut store) = store();
    let mut races = store.races(2).unwrap();
    let text = table(&races, Some(&["new", "both"]));
    assert_eq!(text.lines().count(), 3);
    for line in text.lines() {
        assert!(
            line.chars().count() <= 100 && !line.contains('\u{1b}'),
            "{line}"
        );
    }
    assert!(
        text.contains("benign") && text.contains(" (hits)"),
        "{text}"
    );
    let mut twin = races[0].clone();
    twin.id = format!("{}{}", &twin.id[..20], "0".repeat(15));
    races.push(twin);
    let text = table(&races, None);
    let names: HashSet<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names.len(), 4, "{text}");
    assert_eq!(table(&[], None), "");
}

/// Check that a race which is new in a build asks for no exit code if somebody has accepted it.
#[test]
fn accepted_races_ask_for_no_code() {
    let (_folder, mut store) = store();
    for race in store.races(2).unwrap() {
        let is_accepted = race.state == State::Benign;
        assert_eq!(counts(Builds::New, &race), !is_accepted);
        assert!(!counts(Builds::Both, &race));
    }
}

/// Check that the schema in the documentation is that of the code (`UPDATE_DOCS=1` writes it), and that what is written follows it.
#[test]
fn races_json_follows_the_schema() {
    let schema = schema_of::<Versioned<'static>>();
    assert_documented(&schema, "races.schema.json");
    let validator = jsonschema::validator_for(schema.as_value()).unwrap();
    let (_folder, mut store) = store();
    let mut races = store.races(2).unwrap();
    races.sort_by_key(|race| race.state != State::Benign);
    let [race, ..]: &[StoredRace] = &races else {
        panic!("{races:?}");
    };
    let history = store.said(&[&race.id]).unwrap();
    let reports = store.evidence(&race.id, None).unwrap();
    assert_eq!((history.len(), reports.len()), (1, 2));
    for (line, kind) in [
        (Line::Listed(Listed::of(race)), "listed"),
        (Line::Shown(Shown::of(race, &history, &reports)), "shown"),
        (
            Line::Difference(Difference {
                builds: Builds::Gone,
                listed: Listed::of(race),
            }),
            "difference",
        ),
    ] {
        let mut written = Vec::new();
        write_line(&mut written, &line).unwrap();
        assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), 1);
        let mut line: Value = serde_json::from_slice(&written).unwrap();
        let errors = errors(&validator, &line);
        assert!(errors.is_empty(), "{errors:#?}");
        assert_eq!(
            (&line["type"], &line["schema"]),
            (&kind.into(), &SCHEMA.into())
        );
        assert_eq!(line["said"]["reason"], "why");
        assert_eq!(line["seen"][0]["pod"], POD);
        line["state"] = "song".into();
        assert!(!validator.is_valid(&line));
    }
}

/// Check that a machine that has sent races is told in one line, whatever it calls itself, and as the schema says.
#[test]
fn machines_are_listed() {
    let sender = Sender {
        id: "0123456789abcdef".repeat(2),
        host: "web1\n\u{1b}[2J".repeat(9),
        first_seen: 0,
        last_seen: 1_700_000_000_000,
        messages: 12,
        missing: 3,
        lost: Lost {
            evidence: 4,
            repeats: 5,
            sightings: 6,
        },
        passed_over: 7,
    };
    let nameless = Sender {
        host: String::new(),
        ..sender.clone()
    };
    assert_eq!(hosts::table(&[]), "");
    let text = hosts::table(&[sender.clone(), nameless]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    let words: Vec<&str> = lines[1].split_whitespace().skip(1).collect();
    assert_eq!(
        words,
        ["2023-11-14T22:13:20", "12", "3", "4", "5", "6", "7"]
    );
    assert!(lines[2].starts_with("? "), "{text}");
    let mut written = Vec::new();
    write_line(&mut written, &Line::SentBy(SentBy::of(&sender))).unwrap();
    let line: Value = serde_json::from_slice(&written).unwrap();
    let schema = schema_of::<Versioned<'static>>();
    let validator = jsonschema::validator_for(schema.as_value()).unwrap();
    let errors = errors(&validator, &line);
    assert!(errors.is_empty(), "{errors:#?}");
    assert_eq!(
        (&line["type"], &line["lost_races"]),
        (&"sent-by".into(), &Value::Null)
    );
    assert_eq!(
        (&line["lost_sightings"], &line["unknown"]),
        (&6.into(), &7.into())
    );
}
