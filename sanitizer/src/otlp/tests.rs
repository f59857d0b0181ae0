//! What is told, word for word, and what is understood of answers.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::{Body, http::Response};

use super::*;
use crate::{
    metrics::{Kind, Metric, Unit},
    report::{Race, sample},
    store::{Caught, Whereabouts},
};

const POD: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

fn caught(race: Race) -> Caught {
    Caught {
        race,
        place: Whereabouts {
            host: "web1".to_owned(),
            cgroup: format!("/kubepods/burstable/pod{POD}/c0ffee"),
            container: "c0ffee".to_owned(),
        },
        times: 1,
        last: None,
    }
}

/// The value of an attribute, which has one.
fn of<'a>(attributes: &'a Value, key: &str) -> Option<&'a Value> {
    let mut found = attributes.as_array().unwrap().iter();
    let found = found.find(|one| one["key"] == key)?;
    found["value"].as_object().unwrap().values().next()
}

/// Check that an event tells a race by the names of the conventions, with times in nanoseconds and numbers as texts, and leaves out what is not known.
#[test]
fn an_event() {
    let race = sample::race();
    let logs: Value = serde_json::from_str(&event(&caught(race.clone()), "uid-1", 7)).unwrap();
    let resource = &logs["resource"]["attributes"];
    for (key, value) in [
        ("service.name", "gwp-race"),
        ("host.name", "web1"),
        ("container.id", "c0ffee"),
        ("k8s.pod.uid", POD),
        ("process.executable.path", "/opt/bin/app"),
        ("process.executable.build_id.gnu", "aabbcc"),
    ] {
        assert_eq!(of(resource, key), Some(&json!(value)), "{logs:#}");
    }
    let record = &logs["scopeLogs"][0]["logRecords"][0];
    assert_eq!(record["timeUnixNano"], "1767323045000000006");
    assert_eq!(record["observedTimeUnixNano"], "7000000");
    assert_eq!(record["eventName"], "gwp_race.race");
    assert_eq!(record["severityNumber"], 13);
    let body = record["body"]["stringValue"].as_str().unwrap();
    assert!(
        body.starts_with("Data race on 'counter': write by"),
        "{body}"
    );
    let attributes = &record["attributes"];
    for (key, value) in [
        ("log.record.uid", "uid-1"),
        ("gwp_race.race.id", &race.identity.race),
        ("gwp_race.issue.id", &race.identity.issue),
        ("gwp_race.verdict", "plain-atomic"),
        ("gwp_race.variable", "counter"),
        ("code.function.name", "bump"),
        ("code.file.path", "/src/worker.c"),
        ("code.line.number", "7"),
        ("process.pid", "10"),
        ("thread.id", "11"),
    ] {
        assert_eq!(of(attributes, key), Some(&json!(value)), "{key}: {logs:#}");
    }
    assert_eq!(of(attributes, "gwp_race.pair.id"), None);
    assert_eq!(of(attributes, "gwp_race.racing.code.line.number"), None);
    let both = events(&vec![logs.to_string(); 2]);
    let both: Value = serde_json::from_str(&both).unwrap();
    assert_eq!(both["resourceLogs"].as_array().unwrap().len(), 2);
}

/// Check that names which others have chosen are shown in one line, without what is not seen, and cut.
#[test]
fn names_of_others() {
    let mut race = sample::race();
    for frame in &mut race.accesses[0].stack {
        frame.function = Some(format!("bump\u{1b}[31m\n{}", "ö".repeat(5000)));
    }
    race.exe = "/opt/\"quoted\"\u{202e}".to_owned();
    let text = event(&caught(race), "uid", 0);
    assert!(text.len() < 8 << 10, "{}", text.len());
    let logs: Value = serde_json::from_str(&text).unwrap();
    let attributes = &logs["scopeLogs"][0]["logRecords"][0]["attributes"];
    let function = of(attributes, "code.function.name").unwrap();
    let function = function.as_str().unwrap();
    assert!(function.starts_with("bump\\u{1b}[31m\\n"), "{function}");
    assert!(function.ends_with("ö…") && function.len() <= 1024 + 3);
    assert!(is_event(&text) && !is_event(&text[1..]) && !is_event("3"));
}

/// Check that counters are told as sums since they began, and others as they are.
#[test]
fn figures() {
    let all = [
        Metric::several(
            "gwp_race.agent.messages",
            "Messages.",
            Unit::Of("message"),
            "result",
            [("taken", 3), ("refused", u64::MAX)],
        ),
        Metric::one("gwp_race.agent.size", "Size.", Unit::Bytes, Kind::Gauge, 5),
    ];
    let request: Value = serde_json::from_str(&metrics(&all, "web1", "id", 1, 2)).unwrap();
    let request = &request["resourceMetrics"][0];
    let resource = &request["resource"]["attributes"];
    assert_eq!(of(resource, "service.instance.id"), Some(&json!("id")));
    let point = |value: i64, word: &str| {
        json!({
            "asInt": value, "startTimeUnixNano": "1000000", "timeUnixNano": "2000000",
            "attributes": [{ "key": "result", "value": { "stringValue": word } }],
        })
    };
    let expected = json!([
        {
            "name": "gwp_race.agent.messages", "description": "Messages.", "unit": "{message}",
            "sum": {
                "aggregationTemporality": 2, "isMonotonic": true,
                "dataPoints": [point(3, "taken"), point(i64::MAX, "refused")],
            },
        },
        {
            "name": "gwp_race.agent.size", "description": "Size.", "unit": "By",
            "gauge": { "dataPoints": [{ "asInt": 5, "timeUnixNano": "2000000" }] },
        },
    ]);
    assert_eq!(request["scopeMetrics"][0]["metrics"], expected);
}

fn answered(status: u16, header: (&str, &str), body: &str) -> Outcome {
    let body = Body::builder().data(body.to_owned());
    let answer = Response::builder()
        .status(status)
        .header(header.0, header.1);
    answer::outcome(answer.body(body).unwrap())
}

/// Check that only what the specification names is sent again, that what was thrown away is heard, in either form of numbers, and that no page of somebody on the way is taken for an answer.
#[test]
fn answers() {
    const NONE: (&str, &str) = ("x", "y");
    for status in [429, 502, 503, 504] {
        for (header, wanted) in [
            (("Retry-After", "7"), Some(Duration::from_secs(7))),
            (("Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"), None),
            (NONE, None),
        ] {
            let outcome = answered(status, header, "busy");
            assert!(
                matches!(&outcome, Outcome::Later(after, why) if *after == wanted && why.contains("busy")),
                "{status}: {outcome:?}"
            );
        }
    }
    for (status, told) in [
        (302, "name the address itself as endpoint"),
        (400, "OTLP/HTTP in JSON"),
        (401, "check headers"),
        (403, "check headers"),
        (404, "check endpoint of [agent.otlp]"),
        (405, "check endpoint of [agent.otlp]"),
        (413, "how much at once"),
        (418, "see what is wrong there"),
        (500, "see what is wrong there"),
    ] {
        let Outcome::Never { may_be_split, why } = answered(status, NONE, "so\u{1b}so") else {
            panic!("{status} is sent again");
        };
        assert_eq!(may_be_split, matches!(status, 400 | 413), "{status}");
        assert!(why.contains(told) && !why.contains('\u{1b}'), "{why}");
    }
    let taken = |rejected, said: Option<&str>| Outcome::Taken {
        rejected,
        said: said.map(str::to_owned),
    };
    for (body, outcome) in [
        ("", taken(0, None)),
        ("{}", taken(0, None)),
        ("{\"partialSuccess\":null}", taken(0, None)),
        (
            "{\"partialSuccess\":{\"rejectedLogRecords\":\"3\",\"errorMessage\":\"too\\nold\"}}",
            taken(3, Some("too\\nold")),
        ),
        (
            "{\"partialSuccess\":{\"rejectedDataPoints\":2}}",
            taken(2, None),
        ),
        (
            "{\"partialSuccess\":{\"rejectedDataPoints\":-2,\"errorMessage\":\"soon\"}}",
            taken(0, Some("soon")),
        ),
    ] {
        assert_eq!(answered(200, NONE, body), outcome, "{body}");
    }
    for page in ["<html>", "[1]", "3"] {
        assert!(
            matches!(answered(200, NONE, page), Outcome::Later(None, _)),
            "{page}"
        );
    }
}
