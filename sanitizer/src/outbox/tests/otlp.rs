//! Events and figures, and a collector of OpenTelemetry that answers as it likes.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::Value;

use super::{
    sending::{PATIENCE, QUICK, Request, destination, stub, until},
    *,
};
use crate::{
    http::{Destination, DestinationError, Secret},
    metrics::{check, prometheus},
    otlp::Exporter,
    outbox::item::Item,
};

pub(super) const BOTH: Wants = Wants {
    messages: true,
    events: true,
};
const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// The races that a request tells of, by their names, in their order.
fn races(request: &Request) -> Vec<String> {
    assert!(
        request.0.starts_with("post /below/v1/logs "),
        "{}",
        request.0
    );
    let events = events_of(&request.1).into_iter();
    events.map(|(_, race)| race).collect()
}

/// The names of the events of a request, and of their races.
pub(super) fn events_of(body: &[u8]) -> Vec<(String, String)> {
    let request: Value = serde_json::from_slice(body).unwrap();
    let logs = request["resourceLogs"].as_array().unwrap().iter();
    logs.map(|logs| {
        let record = &logs["scopeLogs"][0]["logRecords"][0];
        let attributes = record["attributes"].as_array().unwrap();
        let [uid, race] = ["log.record.uid", "gwp_race.race.id"].map(|key| {
            let found = attributes.iter().find(|one| one["key"] == key);
            let value = found.unwrap()["value"]["stringValue"].as_str();
            value.unwrap().to_owned()
        });
        (uid, race)
    })
    .collect()
}

fn name(variable: &str) -> String {
    race(variable, 0).identity.race
}

/// A thread that sends events of an outbox to a collector that says these things.
fn sending(
    outbox: Outbox,
    answers: &[&str],
) -> (Arc<Shared>, mpsc::Receiver<Request>, JoinHandle<()>) {
    let (address, requests) = stub(answers);
    let exporter = Exporter::new(destination(&address)).unwrap();
    let shared = Arc::new(Shared::new(outbox));
    let thread = thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.send_events(&exporter, &QUICK)
    });
    (shared, requests, thread)
}

/// Check that each race of a build is an event, once, whatever becomes of messages; that it is sent until it is taken, and that all is counted.
#[test]
fn a_race_is_an_event() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap().for_whom(BOTH);
    let hits = race("hits", 0);
    let mut other_build = race("hits", 1);
    other_build.build_id = Some("ddeeff".to_owned());
    fill(
        &mut outbox,
        1,
        vec![
            caught(&hits),
            caught(&race("hits", 5)),
            caught(&other_build),
            counted("hits", 4, start()),
            caught(&race("misses", 0)),
            seen("aa11", start()),
        ],
    );
    drained(&mut outbox);
    let figures = outbox.figures().unwrap();
    assert_eq!((figures.races, figures.caught), (3, 4 + 4));
    assert_eq!((figures.events_waiting, figures.items), (3, 0));
    assert!(figures.oldest_s.is_some());
    drop(outbox);
    // Whoever opens it anew has them.
    let outbox = Outbox::open(&path, MUCH).unwrap().for_whom(BOTH);
    let (shared, requests, thread) = sending(
        outbox,
        &[
            "",
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n",
            TAKEN,
            "HTTP/1.1 200 OK\r\nContent-Length: 47\r\n\r\n{\"partialSuccess\":{\"rejectedLogRecords\":\"1\"}}  ",
        ],
    );
    until(&shared, |figures| figures.events_taken == 3);
    for _ in 0..4 {
        let request = requests.recv_timeout(PATIENCE).unwrap();
        assert_eq!(
            races(&request),
            [name("hits"), name("hits"), name("misses")]
        );
    }
    // Of what comes later one is thrown away.
    let both = Batch {
        caught: [race("one", 0), race("two", 0)]
            .iter()
            .flat_map(|race| caught(race).caught)
            .collect(),
        ..Batch::default()
    };
    shared.take(&handed(7, both)).unwrap();
    let figures = until(&shared, |figures| {
        figures.events_taken + figures.events_refused == 5
    });
    assert_eq!((figures.events_taken, figures.events_refused), (4, 1));
    assert_eq!((figures.events_waiting, figures.events_lost), (0, 0));
    assert_eq!(figures.events_failing, None);
    shared.end();
    thread.join().unwrap();
}

/// Check that of several events the one that is not taken is found, and the others are; that it is told why, and that it is sent again by an agent that is started anew, and not before.
#[test]
fn what_is_not_taken_is_found() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap().for_whom(BOTH);
    let batches = ["a", "b", "c"].map(|name| caught(&race(name, 0)));
    fill(&mut outbox, 1, batches.to_vec());
    let refused = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let wrong = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    // All, the first one alone, then the others; and what comes later.
    let (shared, requests, thread) = sending(outbox, &[refused, refused, TAKEN, TAKEN, wrong]);
    let figures = until(&shared, |figures| figures.events_waiting == 0);
    assert_eq!((figures.events_taken, figures.events_refused), (2, 1));
    shared.take(&handed(9, caught(&race("d", 0)))).unwrap();
    let figures = until(&shared, |figures| {
        figures.events_refused == 2 && figures.events_failing.is_some()
    });
    let why = figures.events_failing;
    assert!(why.is_some_and(|why| why.contains("check endpoint of [agent.otlp]")));
    let sent: Vec<_> = (0..5)
        .map(|_| races(&requests.recv_timeout(PATIENCE).unwrap()))
        .collect();
    let named = |names: &[&str]| names.iter().map(|one| name(one)).collect::<Vec<_>>();
    assert_eq!(sent[0], named(&["a", "b", "c"]));
    assert_eq!(sent[1], named(&["a"]));
    assert_eq!(sent[2], named(&["b"]));
    assert_eq!(sent[3], named(&["c"]));
    assert_eq!(sent[4], named(&["d"]));
    shared.end();
    thread.join().unwrap();
    drop(shared);
    let outbox = Outbox::open(&path, MUCH).unwrap().for_whom(BOTH);
    let (shared, requests, thread) = sending(outbox, &[TAKEN]);
    let figures = until(&shared, |figures| figures.events_taken == 4);
    assert_eq!((figures.events_waiting, figures.events_refused), (0, 2));
    let request = requests.recv_timeout(PATIENCE).unwrap();
    assert_eq!(races(&request), named(&["a", "d"]));
    shared.end();
    thread.join().unwrap();
}

/// Check that events have a bound of their own, beyond which they are counted and told when there is room; that one which the disk has changed keeps no other one back, and that nothing is kept for whom there is not.
#[test]
fn events_are_bounded() {
    let (_folder, path) = scratch();
    let only = Wants {
        messages: false,
        events: true,
    };
    let mut outbox = Outbox::open(&path, MUCH).unwrap().for_whom(only);
    outbox.take(&handed(1, caught(&race("hits", 0)))).unwrap();
    assert_eq!(outbox.message().unwrap(), None);
    assert_eq!(outbox.figures().unwrap().bytes, 0);
    // As if there were as many as there may be.
    let grow = |outbox: &mut Outbox, bytes: i64| {
        let grown = outbox.with(async |connection| {
            sqlx::query("UPDATE event SET record = hex(zeroblob($1 / 2)), bytes = $1")
                .bind(bytes)
                .execute(connection)
                .await
                .map(drop)
        });
        grown.unwrap();
    };
    grow(&mut outbox, events::MOST_BYTES);
    for sequence in 2..4 {
        let batch = caught(&race("misses", sequence));
        let sequence = u64::try_from(sequence).unwrap();
        outbox.take(&handed(sequence, batch)).unwrap();
    }
    let figures = outbox.figures().unwrap();
    assert_eq!((figures.events_waiting, figures.events_lost), (1, 2));
    // What was refused makes room.
    let last = outbox.events(1).unwrap().unwrap().last;
    outbox.events_refused(last).unwrap();
    assert_eq!(outbox.events(1).unwrap(), None);
    outbox.take(&handed(4, caught(&race("room", 0)))).unwrap();
    grow(&mut outbox, 100);
    outbox.take(&handed(5, caught(&race("misses", 4)))).unwrap();
    let events = outbox.events(100).unwrap().unwrap();
    assert_eq!((events.count, events.damaged), (2, 1));
    let request = (
        "post /below/v1/logs ".to_owned(),
        events.body.clone().into_bytes(),
    );
    assert_eq!(races(&request), [name("misses")]);
    outbox.events_taken(events.last, events.damaged).unwrap();
    assert_eq!(outbox.events(100).unwrap(), None);
    // Once more, as after a kill.
    outbox.events_taken(events.last, 0).unwrap();
    let figures = outbox.figures().unwrap();
    assert_eq!((figures.events_taken, figures.events_refused), (1, 2));
    let mut outbox = outbox.for_whom(Wants::default());
    outbox.take(&handed(6, caught(&race("more", 0)))).unwrap();
    assert_eq!(outbox.events(100).unwrap(), None);
    assert!(outbox.message().unwrap().is_some());
}

/// Check that figures are sent again and again with what was counted, each time by the headers of the file, that a collector which is away or throws them away is told of, and that the page for Prometheus is as that wants it.
#[test]
fn figures_are_sent() {
    let (folder, path) = scratch();
    let headers = folder.path().join("headers");
    let write = |text: &str| {
        fs::write(&headers, text).unwrap();
        fs::set_permissions(&headers, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let (address, requests) = stub(&[
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 47\r\n\r\n{\"partialSuccess\":{\"rejectedDataPoints\":\"1\"}}  ",
        TAKEN,
    ]);
    let of_headers = || {
        Exporter::new(Destination {
            secret: Some(Secret::Headers(headers.clone())),
            ..destination(&address)
        })
    };
    for nonsense in ["api-key", "api key: x", "Content-Length: 3", "x: a\u{7f}"] {
        write(&format!("# ours\n{nonsense}\n"));
        let error = of_headers().err().unwrap();
        assert!(
            matches!(error, DestinationError::Header { line: 2, .. }),
            "{error}"
        );
        assert!(!error.to_string().contains("api-key"), "{error}");
    }
    write("# ours\n\nApi-Key: s3cr3t: yes\nx-team: races\n");
    let exporter = of_headers().unwrap();
    let mut outbox = Outbox::open(&path, MUCH).unwrap().for_whom(BOTH);
    outbox.take(&handed(1, caught(&race("hits", 0)))).unwrap();
    let shared = Shared::new(outbox).for_whom(Some("http://races"), Some("http://otel"));
    thread::scope(|scope| {
        let sending =
            scope.spawn(|| shared.send_metrics(&exporter, "web1", Duration::from_millis(5)));
        let next = || {
            let (head, body) = requests.recv_timeout(PATIENCE).unwrap();
            assert!(head.starts_with("post /below/v1/metrics "), "{head}");
            assert!(head.contains("\r\napi-key: s3cr3t: yes\r\n"), "{head}");
            assert!(head.contains("\r\nx-team: races\r\n"), "{head}");
            assert!(head.contains("\r\ncontent-type: application/json\r\n"));
            serde_json::from_slice::<Value>(&body).unwrap()
        };
        let all: Vec<_> = (0..4).map(|_| next()).collect();
        let metrics = &all[3]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let of = |name: &str| {
            let mut all = metrics.as_array().unwrap().iter();
            let found = all.find(|metric| metric["name"] == name).unwrap();
            found["sum"]["dataPoints"][0].clone()
        };
        assert_eq!(of("gwp_race.agent.races")["asInt"], 1);
        let sum = of("gwp_race.agent.sightings");
        let number = |key: &str| sum[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(number("startTimeUnixNano") <= number("timeUnixNano"));
        assert!(number("startTimeUnixNano") > 1_700_000_000 * 1_000_000_000);
        until(&shared, |figures| figures.metrics_failing.is_none());
        shared.end();
        sending.join().unwrap();
    });
    let page = prometheus(&shared.figures().unwrap().metrics());
    assert_eq!(check(&page), [""; 0]);
    for line in [
        "gwp_race_agent_races_total 1",
        "gwp_race_agent_sightings_total 1",
        "gwp_race_agent_dropped_total{class=\"first_sightings\"} 0",
        "gwp_race_agent_messages_total{result=\"taken\"} 0",
        "gwp_race_agent_events_total{result=\"dropped\"} 0",
        "gwp_race_agent_outbox_items 1",
        "gwp_race_agent_collector_up 1",
        "gwp_race_agent_otlp_metrics_up 1",
    ] {
        assert!(page.lines().any(|one| one == line), "{line}: {page}");
    }
}

/// Check that an outbox of before there were events and figures goes on with what is in it, and counts from now on.
#[test]
fn older_outboxes() {
    const OLD: Schema = Schema {
        migrations: &[(
            1,
            "outbox",
            include_str!("../../../migrations/outbox/0001_outbox.sql"),
        )],
        ..SCHEMA
    };
    let (_folder, path) = scratch();
    let seen = seen("aa11", start()).builds.remove(0);
    let record = Item::Seen(seen.clone()).record().unwrap();
    let mut database = Database::open(&Address::of_file(&path), Access::Create, &OLD).unwrap();
    let put = database.with(async |connection| {
        sqlx::query("UPDATE state SET item = 2, bytes = 500")
            .execute(&mut *connection)
            .await?;
        sqlx::query("INSERT INTO item (id, name, class, weight, bytes, record) VALUES (1, 'first', 2, 1, 500, $1)")
            .bind(record)
            .execute(connection)
            .await
            .map(drop)
    });
    put.unwrap();
    drop(database);
    let before = crate::store::millis(std::time::SystemTime::now());
    let mut outbox = Outbox::open(&path, MUCH).unwrap().for_whom(BOTH);
    let figures = outbox.figures().unwrap();
    assert_eq!((figures.items, figures.bytes, figures.races), (1, 500, 0));
    // Whole seconds.
    assert!(
        millis_of(&figures.since).unwrap() > before - 2000,
        "{figures:?}"
    );
    assert!(
        figures.oldest_s.is_some_and(|age| age < 3600),
        "{figures:?}"
    );
    assert_eq!(sent(&mut outbox).unwrap().batch.builds, [seen]);
    outbox.take(&handed(1, caught(&race("hits", 0)))).unwrap();
    assert_eq!(outbox.figures().unwrap().events_waiting, 1);
}
