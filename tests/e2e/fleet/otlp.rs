//! A real collector of OpenTelemetry, rotel, which `cargo xtask test` gets: what the agent tells it in JSON, it tells this test in the binary form of Protocol Buffers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use flate2::read::GzDecoder;
use gwp_race_tests::{binary::root, children::Guarded};

use super::{Scratch, until};

/// Somebody else may take a port between the choice and the use of it.
const TRIES: usize = 5;

/// What has come, by the path of the request.
type Received = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// See the module. It ends with this; the thread that hears it, with the tests.
pub struct OpenTelemetry {
    pub endpoint: String,
    _rotel: Guarded,
    received: Received,
}

impl OpenTelemetry {
    pub fn start(scratch: &Scratch) -> Self {
        let program = program();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sink = listener.local_addr().unwrap();
        let received = Received::default();
        let hears = Arc::clone(&received);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (connection, hears) = (connection.unwrap(), Arc::clone(&hears));
                thread::spawn(move || hear(connection, &hears));
            }
        });
        for _ in 0..TRIES {
            let address = free_address();
            let log = fs::File::create(scratch.path("rotel.log")).unwrap();
            let mut command = Command::new(&program);
            command
                .arg("start")
                .args(["--otlp-http-endpoint", &address])
                .args(["--otlp-grpc-endpoint", &free_address()])
                .args(["--exporter", "otlp", "--otlp-exporter-protocol", "http"])
                .arg("--otlp-exporter-endpoint")
                .arg(format!("http://{sink}"))
                .args(["--batch-timeout", "100ms"])
                .arg("--pid-file")
                .arg(scratch.path("rotel.pid"))
                .arg("--log-file")
                .arg(scratch.path("rotel.log"));
            command
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap());
            let mut rotel = Guarded::new(command.stderr(log).spawn().unwrap());
            let mut has_ended = false;
            let listens = until(|| {
                has_ended = rotel.ended().unwrap().is_some();
                has_ended || TcpStream::connect(&address).is_ok()
            });
            if listens && !has_ended {
                return Self {
                    endpoint: format!("http://{address}"),
                    _rotel: rotel,
                    received,
                };
            }
        }
        panic!("rotel does not listen: {}", scratch.log("rotel.log"));
    }

    /// Check that it was told an event of each of these races, by names that no two events have, and these figures as they are now.
    pub fn was_told(&self, scratch: &Scratch, races: &BTreeSet<String>, figures: &[(&str, i64)]) {
        let mut events = BTreeMap::new();
        let mut told = BTreeMap::new();
        let is_told = until(|| {
            let received = self.received.lock().unwrap();
            (events, told) = (BTreeMap::new(), BTreeMap::new());
            for (path, body) in received.iter() {
                match path.as_str() {
                    "/v1/logs" => events.extend(events_of(body)),
                    "/v1/metrics" => told.extend(figures_of(body)),
                    path => panic!("{path}"),
                }
            }
            let names: BTreeSet<_> = events.values().cloned().collect();
            let is_now = |(name, value): &(&str, i64)| told.get(*name) == Some(value);
            names == *races && figures.iter().all(is_now)
        });
        let log = scratch.log("agent.log");
        assert!(
            is_told,
            "{races:?} {figures:?}, not {events:?} {told:?}: {log}"
        );
    }
}

/// rotel, where `cargo xtask test` has put it.
fn program() -> PathBuf {
    let program = root().join("target/tools/rotel/rotel/rotel-agent");
    assert!(
        program.is_file(),
        "{} does not exist: run the tests by `cargo xtask test`, which gets it",
        program.display()
    );
    program
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Hears all that comes by a connection.
fn hear(mut connection: TcpStream, received: &Received) -> Option<()> {
    loop {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            connection.read_exact(&mut byte).ok()?;
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let path = head.split(' ').nth(1)?.to_owned();
        let mut lines = head.lines();
        let length = lines.find_map(|line| line.strip_prefix("content-length: "))?;
        let mut packed = vec![0; length.parse().unwrap()];
        connection.read_exact(&mut packed).ok()?;
        let mut body = Vec::new();
        if head.contains("content-encoding: gzip") {
            GzDecoder::new(packed.as_slice())
                .read_to_end(&mut body)
                .unwrap();
        } else {
            body = packed;
        }
        received.lock().unwrap().push((path, body));
        let answer =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
        connection.write_all(answer).ok()?;
    }
}

/// A value of a field of a message (<https://protobuf.dev/programming-guides/encoding/>).
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, by their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, Value<'_>)> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = message.split_first().unwrap();
            *message = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }
    fn bytes<'a>(message: &mut &'a [u8], count: u64) -> &'a [u8] {
        let (bytes, rest) = message.split_at(usize::try_from(count).unwrap());
        *message = rest;
        bytes
    }
    let mut all = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut message)),
            1 => {
                let bytes = bytes(&mut message, 8);
                Value::Number(u64::from_le_bytes(bytes.try_into().unwrap()))
            }
            2 => {
                let count = varint(&mut message);
                Value::Bytes(bytes(&mut message, count))
            }
            kind => panic!("a field of kind {kind}"),
        };
        all.push((tag >> 3, value));
    }
    all
}

/// The messages at the end of a way through fields.
fn within<'a>(message: &'a [u8], way: &[u64]) -> Vec<&'a [u8]> {
    let Some((first, way)) = way.split_first() else {
        return vec![message];
    };
    let below = fields(message).into_iter().filter_map(|field| match field {
        (number, Value::Bytes(bytes)) if number == *first => Some(bytes),
        _ => None,
    });
    below.flat_map(|message| within(message, way)).collect()
}

fn text(message: &[u8], way: &[u64]) -> String {
    let texts = within(message, way);
    let text = texts.first().copied().unwrap_or_default();
    String::from_utf8(text.to_owned()).unwrap()
}

fn number(message: &[u8], field: u64) -> Option<u64> {
    fields(message).into_iter().find_map(|one| match one {
        (number, Value::Number(value)) if number == field => Some(value),
        _ => None,
    })
}

/// Texts of attributes, which are that field of a message.
fn attributes(message: &[u8], field: u64) -> BTreeMap<String, String> {
    let all = within(message, &[field]).into_iter();
    all.map(|one| (text(one, &[1]), text(one, &[2, 1])))
        .collect()
}

/// The races of events by the names of these (`opentelemetry/proto/logs/v1/logs.proto`).
fn events_of(request: &[u8]) -> BTreeMap<String, String> {
    let mut races = BTreeMap::new();
    for logs in within(request, &[1]) {
        let resource = attributes(within(logs, &[1])[0], 1);
        assert_eq!(resource["service.name"], "gwp-race");
        assert!(!resource["host.name"].is_empty(), "{resource:?}");
        assert!(
            resource["process.executable.path"].ends_with("/racy"),
            "{resource:?}"
        );
        for record in within(logs, &[2, 2]) {
            assert_eq!(text(record, &[12]), "gwp_race.race");
            assert_eq!(
                (text(record, &[3]), number(record, 2)),
                ("WARN".to_owned(), Some(13))
            );
            assert!(number(record, 1) <= number(record, 11));
            let body = text(record, &[5, 1]);
            assert!(body.starts_with("Data race"), "{body}");
            let attributes = attributes(record, 6);
            assert!(
                attributes["code.file.path"].ends_with("write_write.c"),
                "{attributes:?}"
            );
            assert!(!attributes["code.function.name"].is_empty());
            let uid = attributes["log.record.uid"].clone();
            races.insert(uid, attributes["gwp_race.race.id"].clone());
        }
    }
    races
}

/// The values of figures by their names, and a word where there are several (`opentelemetry/proto/metrics/v1/metrics.proto`).
fn figures_of(request: &[u8]) -> BTreeMap<String, i64> {
    let mut values = BTreeMap::new();
    for metric in within(request, &[1, 2, 2]) {
        let name = text(metric, &[1]);
        for sum in within(metric, &[7]) {
            // Cumulative, and monotonic.
            assert_eq!((number(sum, 2), number(sum, 3)), (Some(2), Some(1)));
        }
        let points = [within(metric, &[5, 1]), within(metric, &[7, 1])].concat();
        assert!(!points.is_empty(), "{name}");
        for point in points {
            // Whole numbers; of doubles nothing is compared.
            let value = number(point, 6).or_else(|| number(point, 4));
            let value = value.unwrap().cast_signed();
            let words = attributes(point, 7).into_values();
            let parts: Vec<_> = std::iter::once(name.clone()).chain(words).collect();
            values.insert(parts.join(" "), value);
        }
    }
    values
}
