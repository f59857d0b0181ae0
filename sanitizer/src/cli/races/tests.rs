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
    log::{entries, told},
};
use crate::cli::args::{Cli, Command};
use crate::report::{
    Race, Record, identity, sample,
    schema::{assert_documented, errors, schema_of},
};
use crate::store::{
    Access, Batch, Caught, Lost, Saying, Sender, Speaker, State, Store, StoredRace, Verdict,
    Whereabouts,
};

/// Check that days are kept for as long as pages tell them one by one, and that one says what is to be forgotten.
#[test]
fn what_may_be_forgotten() {
    let prune = |args: &[&str]| {
        let all = ["gwp-race", "races", "prune", "--store", "sqlite:x"];
        Cli::try_parse_from(all.iter().chain(args)).map_err(|error| error.to_string())
    };
    for args in [
        &["--older-than", "0"][..],
        &["--days-older-than", "60d"],
        &[
            "--older-than",
            "1d",
            "--days-older-than",
            "1000y",
            "--dry-run",
        ],
    ] {
        assert!(prune(args).is_ok(), "{args:?}");
    }
    let error = prune(&["--days-older-than", "59d"]).unwrap_err();
    assert!(error.contains("give 60d or more"), "{error}");
    for args in [
        &[][..],
        &["--dry-run"],
        &["--days-older-than", "60d", "--keep-triaged"],
    ] {
        assert!(prune(args).is_err(), "{args:?}");
    }
}

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
        owner: Some("web".to_owned()),
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
    assert_eq!(chosen(&["--build", "bb22", "--not-in", "aa11"]), [true]);
    assert_eq!(count(chosen(&["--not-in", "bb22"])), 0);
    assert_eq!(chosen(&["--owner", "web"]), [false]);
    assert_eq!(count(chosen(&["--owner", "we"])), 0);
    assert_eq!(chosen(&["--owner", ""]), [true]);
    assert_eq!(count(chosen(&["--owner", "web,"])), 2);
    assert_eq!(chosen(&["--state", "open"]), [true]);
    // As of a moment in 1970 everything is new enough; a century later nothing is.
    assert_eq!(count(chosen(&["--since", "1ms"])), 2);
    let century = 4_000_000_000_000;
    let late = choice(&["--since", "7d"]).of(&mut store, century).unwrap();
    assert!(late.is_empty());
    let records = choice(&[]).records(&mut store, None, 2).unwrap();
    let known: Vec<bool> = (records.iter())
        .map(|record| matches!(record, Record::Race(race) if race.known))
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

/// A store whose two races are merged; the name of the first, which counts as the second.
fn merged() -> (tempfile::TempDir, Store, [String; 2]) {
    let (folder, mut store) = store();
    let mut races = store.races(2).unwrap();
    races.sort_by_key(|race| race.state != State::Benign);
    let ids = [0, 1].map(|index| races[index].id.clone());
    let speaker = Speaker {
        who: "\u{1b}me".to_owned(),
        reason: "one bug".to_owned(),
    };
    store.merge(&ids[0], &ids[1], &speaker, 3).unwrap();
    (folder, store, ids)
}

/// Check that races that were merged are found by both names, that the reports of both are written, known by what was said of the one as which they count, and that they are one in a difference.
#[test]
fn merged_races() {
    let (_folder, mut store, [old, new]) = merged();
    for name in [&*old, &old[..11], &*new] {
        let found = Choice::default()
            .of_name(&mut store, Some(name), 2)
            .unwrap();
        let found: Vec<_> = found.iter().map(|race| (&race.id, race.times)).collect();
        assert_eq!(found, [(&new, 6)], "{name}");
    }
    // Caught in one of the builds by the first name, in both by the second.
    assert!(
        choice(&["--not-in", "aa11"])
            .of(&mut store, 2)
            .unwrap()
            .is_empty()
    );
    let saying = Saying {
        name: new.clone(),
        state: Verdict::Benign,
        reason: String::new(),
        owner: None,
        expires: None,
        who: "root".to_owned(),
    };
    for known in [false, true] {
        let records = Choice::default()
            .records(&mut store, Some(&old), 5)
            .unwrap();
        let mut written: Vec<_> = records
            .iter()
            .map(|record| match record {
                Record::Race(race) => (race.identity.race.clone(), race.known),
                Record::Summary(_) => panic!("a store has none"),
            })
            .collect();
        written.sort();
        let mut both = [(old.clone(), known), (new.clone(), known)];
        both.sort();
        assert_eq!(written, both);
        store.triage(&saying, 4).unwrap();
    }
}

/// Check that the log tells who has said and done what, of a race by any of its names, in lines that do nothing on a terminal, and as the schema has it.
#[test]
fn logs() {
    let (_folder, mut store, [old, new]) = merged();
    store.split(&old, &Speaker::default(), 5).unwrap();
    let all = entries(&mut store, None, 9).unwrap();
    assert_eq!(entries(&mut store, Some(&old), 9).unwrap(), all);
    // What was said of the other one is not about this one.
    assert_eq!(entries(&mut store, Some(&new), 9).unwrap(), all[1..]);
    let told: Vec<String> = all.iter().map(told).collect();
    let at = |millis: u8| format!("1970-01-01T00:00:00.00{millis}Z");
    assert_eq!(
        told,
        [
            format!("{}: root said benign of {old}, owner web: why", at(1)),
            format!("{}: \\u{{1b}}me merged {old} into {new}: one bug", at(3)),
            format!("{}:  split {old} from {new}", at(5)),
        ]
    );
    let schema = schema_of::<Versioned<'static>>();
    let validator = jsonschema::validator_for(schema.as_value()).unwrap();
    for (entry, kind) in all.iter().zip(["said", "merged", "split"]) {
        let mut written = Vec::new();
        write_line(&mut written, &Line::logged(entry)).unwrap();
        let line: Value = serde_json::from_slice(&written).unwrap();
        let errors = errors(&validator, &line);
        assert!(errors.is_empty(), "{errors:#?}");
        assert_eq!(
            (&line["type"], &line["of"]),
            (&kind.into(), &Value::from(&*old))
        );
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
    let log = store.log(Some(&race.names())).unwrap();
    let reports = store.evidence(&race.id, None).unwrap();
    assert_eq!((log.len(), reports.len()), (1, 2));
    for (line, kind) in [
        (Line::Listed(Listed::of(race)), "listed"),
        (Line::Shown(Shown::of(race, &log, &reports)), "shown"),
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
