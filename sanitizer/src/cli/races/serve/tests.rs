//! Listeners on this machine, asked as hosts ask them and as others do.
//!
//! The certificates beside this file are of an authority, of a collector and a host that it has signed, and of a stranger whom another one has. They were made for these tests by
//! `openssl ca`, and are of use for nothing else.

use std::{fs, os::unix::fs::PermissionsExt as _, sync::atomic::AtomicI64, thread::JoinHandle};

use clap::Parser as _;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use sqlx::{ConnectOptions as _, Connection as _, sqlite::SqliteConnectOptions};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    task::JoinHandle as Task,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{collector::PATIENCE, keep_up::make_fewer, *};
use crate::cli::{
    args::{Cli, Command},
    races::{RacesCommand, now},
};
use crate::delivery::{
    Attempts, Intake, Lost, Message, Tokens, Writer,
    hints::{HintFile, Hints},
    router,
};
use crate::http::{Destination, Secret, Server};
use crate::learned::{KnownFunction, Learned, Module};
use crate::report::{Race, sample};
use crate::store::{Access, Batch, Caught, Counted, Store, Whereabouts, rfc3339};

/// Check that what somebody writes who keeps no summaries is in lists when a server has served for a while.
#[tokio::test]
async fn what_older_ones_write_is_caught_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("races.db");
    let address = Address::of_file(&path);
    let mut store = Store::open(&address, Access::Create).unwrap();
    let caught = Caught {
        race: sample::race(),
        place: Whereabouts::on("web1"),
        times: 1,
        last: None,
    };
    let batch = Batch {
        caught: vec![caught],
        ..Batch::default()
    };
    store.write(&batch).unwrap();
    let keeping = tokio::spawn(keep_up(address, std::time::Duration::from_millis(50), None));
    let options = SqliteConnectOptions::new().filename(&path);
    let mut older = options.connect().await.unwrap();
    sqlx::raw_sql("UPDATE sighting SET times = 5; UPDATE race SET last_seen = last_seen + 1")
        .execute(&mut older)
        .await
        .unwrap();
    let times = "SELECT times FROM race";
    while sqlx::query_scalar::<_, i64>(times)
        .fetch_one(&mut older)
        .await
        .unwrap()
        != 5
    {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    keeping.abort();
    older.close().await.unwrap();
}

/// A race that was caught at one time, and three times each at others, on one machine.
fn caught_at(race: &Race, at: i64, others: impl Iterator<Item = i64>) -> Batch {
    let place = || Whereabouts::on("web1");
    let counted = others.map(|last| Counted {
        race: race.identity.race.clone(),
        build: "aa11".to_owned(),
        exe: "/bin/app".to_owned(),
        place: place(),
        times: 3,
        last,
    });
    Batch {
        counted: counted.collect(),
        caught: vec![Caught {
            race: race.clone(),
            place: place(),
            times: 1,
            last: Some(at),
        }],
        ..Batch::default()
    }
}

/// Check that a collector makes fewer rows of what is old in its store, by hours and by days, without a loss, and that whoever only shows a store does not.
#[tokio::test]
async fn old_rows_become_fewer_by_themselves() {
    const PERIOD: std::time::Duration = std::time::Duration::from_millis(50);
    const DAY: i64 = 86_400_000;
    let folder = tempfile::tempdir().unwrap();
    let address = Address::of_file(folder.path().join("races.db"));
    let mut store = Store::open(&address, Access::Create).unwrap();
    // In the middle of a day.
    let noon = now() / DAY * DAY + DAY / 2;
    let ages = (0..130).map(|number| noon - (10 + number) * DAY);
    let others = ages.flat_map(|last| [last, last + 3_600_000]);
    let batch = caught_at(&sample::race(), noon, others);
    store.write(&batch).unwrap();
    let options = SqliteConnectOptions::new().filename(folder.path().join("races.db"));
    let mut other = options.connect().await.unwrap();
    let mut rows = async || {
        let rows = "SELECT count(*), sum(times) FROM sighting";
        sqlx::query_as::<_, (i64, i64)>(rows)
            .fetch_one(&mut other)
            .await
            .unwrap()
    };
    assert_eq!(rows().await, (261, 781));
    make_fewer(&mut store, None, &AtomicI64::new(i64::MIN));
    assert_eq!(rows().await, (261, 781));
    let age = std::time::Duration::from_secs(60 * 86_400);
    let keeping = tokio::spawn(keep_up(address, PERIOD, Some(age)));
    // A day is a row, and thirty days that are older as a whole, of which there is one at least, have three at most.
    let fewer = async {
        while rows().await.0 > 131 - 30 + 3 {
            tokio::time::sleep(PERIOD).await;
        }
    };
    let minute = std::time::Duration::from_secs(60);
    tokio::time::timeout(minute, fewer).await.unwrap();
    assert_eq!(rows().await.1, 781);
    keeping.abort();
}

/// Check that a collector whose clock is far ahead of all that is in its store makes no fewer rows of what is new there.
#[test]
fn a_clock_far_ahead_is_not_believed() {
    const DAY: i64 = 86_400_000;
    let folder = tempfile::tempdir().unwrap();
    let address = Address::of_file(folder.path().join("races.db"));
    let mut store = Store::open(&address, Access::Create).unwrap();
    let newest = now() / DAY * DAY - 400 * DAY;
    let mut race = sample::race();
    race.time = rfc3339(newest);
    let others = (0..40).map(|number| newest - number * DAY);
    let mut batch = caught_at(&race, newest, others);
    store.write(&batch).unwrap();
    let condensable = |store: &mut Store| store.condensable(now()).unwrap().now;
    assert!(condensable(&mut store) > 30);
    let days = Some(std::time::Duration::from_secs(60 * 86_400));
    make_fewer(&mut store, days, &AtomicI64::new(i64::MIN));
    assert!(condensable(&mut store) > 30);
    // It is late indeed.
    batch.caught.clear();
    batch.counted.truncate(1);
    batch.counted[0].last = now();
    store.write(&batch).unwrap();
    make_fewer(&mut store, days, &AtomicI64::new(i64::MIN));
    assert_eq!(condensable(&mut store), 0);
}

const TOKEN: &str = "correct-horse-battery";
const MOST: usize = 64 << 10;
const AUTHORITY: &str = include_str!("tests/authority.pem");
const COLLECTOR: [&str; 2] = [
    include_str!("tests/collector.pem"),
    include_str!("tests/collector.key"),
];
const HOST: [&str; 2] = [
    include_str!("tests/host.pem"),
    include_str!("tests/host.key"),
];
const STRANGER: [&str; 2] = [
    include_str!("tests/stranger.pem"),
    include_str!("tests/stranger.key"),
];

/// A collector on this machine.
struct Collector {
    folder: TempDir,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: Task<()>,
    thread: JoinHandle<()>,
    counters: Arc<Counters>,
}

impl Collector {
    async fn start(tls: Option<TlsAcceptor>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Address::of_file(folder.path().join("races.db"));
        let open = || {
            let mut store = Store::open(&store, Access::Create).unwrap();
            store.set_patience(PATIENCE);
            store
        };
        let counters = Arc::new(Counters::default());
        let (writer, thread) = Writer::start(open(), 4 * MOST, 4, Arc::clone(&counters)).unwrap();
        let (hints, _) = Hints::start(open(), std::time::Duration::from_secs(600)).unwrap();
        let intake = Intake {
            tokens: Some(Tokens::parse(TOKEN).unwrap()),
            most: MOST,
            writer,
            hints: Some(hints),
            counters: Arc::clone(&counters),
            attempts: Attempts::default(),
        };
        let loopback = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(loopback, tls, router(intake)).await.unwrap();
        let url = listener.url().unwrap();
        let (_, address) = url.split_once("://").unwrap();
        let (stop, stopped) = watch::channel(false);
        Self {
            folder,
            address: address.parse().unwrap(),
            stop,
            serving: tokio::spawn(listener.serve(stopped)),
            thread,
            counters,
        }
    }

    /// Ends it; what its store has.
    async fn end(self) -> Store {
        self.stop.send_replace(true);
        self.serving.await.unwrap();
        self.thread.join().unwrap();
        let store = Address::of_file(self.folder.path().join("races.db"));
        Store::open(&store, Access::Existing).unwrap()
    }

    async fn ask(&self, request: &[u8]) -> String {
        let stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        ask(stream, request).await
    }
}

/// Asks once; the answer, of which a connection that is broken off has none.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &[u8]) -> String {
    let mut answer = Vec::new();
    if stream.write_all(request).await.is_ok() {
        let _ = stream.read_to_end(&mut answer).await;
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn run_async<T>(work: impl Future<Output = T>) -> T {
    runtime().unwrap().block_on(work)
}

fn message(sequence: u64) -> Message {
    Message {
        sender: "0123456789abcdef".repeat(2),
        sequence,
        lost: Lost::default(),
        batch: Batch {
            caught: vec![Caught {
                race: sample::race(),
                place: Whereabouts::on("web1"),
                times: 2,
                last: None,
            }],
            ..Batch::default()
        },
        learned: Vec::new(),
    }
}

/// A request with these headers besides those that it must have.
fn request(line: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{line} HTTP/1.1\r\nHost: collector\r\nConnection: close\r\n");
    for header in headers {
        text.push_str(&format!("{header}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    [text.as_bytes(), body].concat()
}

const FORM: [&str; 2] = ["Content-Type: application/json", "Content-Encoding: zstd"];

fn posted(body: &[u8]) -> Vec<u8> {
    let token = format!("Authorization: Bearer {TOKEN}");
    request("POST /v1/messages", &[FORM[0], FORM[1], &token], body)
}

#[track_caller]
fn assert_status(answer: &str, status: u16) {
    let line = answer.lines().next().unwrap_or_default();
    assert!(
        line.starts_with(&format!("HTTP/1.1 {status} ")),
        "{status}: {answer}"
    );
}

/// Check that what was learned is left out where the store does not take it, so that who sends goes on with all else, of the same message too, and nobody else is told to wait.
#[test]
fn what_was_learned_stops_nobody() {
    run_async(async {
        let collector = Collector::start(None).await;
        let path = collector.folder.path().join("races.db");
        let options = SqliteConnectOptions::new().filename(path);
        let mut other = options.connect().await.unwrap();
        let sql = "DROP TABLE learned_build";
        sqlx::query(sql).execute(&mut other).await.unwrap();
        let mut told = message(1);
        told.learned = vec![Learned {
            module: Module {
                name: "app".to_owned(),
                build: "aa11".to_owned(),
            },
            at: 0,
            functions: vec![KnownFunction {
                at: 16,
                fingerprint: 7,
                sites: vec![(4, vec![(0, 1.0)])],
                raced: Vec::new(),
            }],
        }];
        let answer = collector.ask(&posted(&told.encode())).await;
        assert_status(&answer, 204);
        let token = format!("Authorization: Bearer {TOKEN}");
        let asked = request("GET /v1/hints/app/aa11", &[&token], b"");
        assert_status(&collector.ask(&asked).await, 503);
        let metrics = request("GET /metrics", &[&token], b"");
        let metrics = collector.ask(&metrics).await;
        for line in [
            "gwp_race_records_total 1\n",
            "gwp_race_not_learned_total 1\n",
        ] {
            assert!(metrics.contains(line), "{line}{metrics}");
        }
        let health = request("GET /healthz", &[], b"");
        assert_status(&collector.ask(&health).await, 200);
        drop(other);
        collector.end().await;
    });
}

/// Check that what hosts have learned is summed up and told to whoever may send, once as long as nothing is new, and to nobody else; that of other builds there is nothing; and that what nobody can have learned is refused for good.
#[test]
fn hosts_are_told_what_others_have_learned() {
    run_async(async {
        let collector = Collector::start(None).await;
        let function = |came| KnownFunction {
            at: 16,
            fingerprint: 7,
            sites: vec![(4, vec![(0, came)])],
            raced: Vec::new(),
        };
        let learned = |came| Learned {
            module: Module {
                name: "größe +1".to_owned(),
                build: "aa11".to_owned(),
            },
            at: i64::MAX,
            functions: vec![function(came)],
        };
        for (host, came) in [("0", 3.0), ("f", 4.0)] {
            let told = Message {
                sender: host.repeat(32),
                learned: vec![learned(came)],
                ..message(1)
            };
            for _ in 0..2 {
                assert_status(&collector.ask(&posted(&told.encode())).await, 204);
            }
        }
        let token = format!("Authorization: Bearer {TOKEN}");
        let line = "GET /v1/hints/gr%C3%B6%C3%9Fe%20%2B1/aa11";
        assert_status(&collector.ask(&request(line, &[], b"")).await, 401);
        let mut stream = tokio::net::TcpStream::connect(collector.address)
            .await
            .unwrap();
        let asked = request(line, &[&token], b"");
        stream.write_all(&asked).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let begin = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let (head, body) = answer.split_at(begin.unwrap() + 4);
        let head = String::from_utf8(head.to_vec()).unwrap();
        assert_status(&head, 200);
        let file = HintFile::decode(body).unwrap();
        assert_eq!(file.module, learned(0.0).module);
        let [told] = &file.functions[..] else {
            panic!("{file:?}");
        };
        // Some milliseconds of a week are forgotten.
        let came = told.sites[0].1[0].1;
        assert!((6.9..=7.0).contains(&came), "{came}");
        let lines = head.lines().map(str::to_lowercase);
        let tags: Vec<_> = lines
            .filter_map(|line| Some(line.strip_prefix("etag: ")?.to_owned()))
            .collect();
        let known = format!("If-None-Match: {}", tags[0]);
        let answer = collector.ask(&request(line, &[&token, &known], b"")).await;
        assert_status(&answer, 304);
        let other = request(line, &[&token, "If-None-Match: \"x\""], b"");
        assert_status(&collector.ask(&other).await, 200);
        for line in [
            "GET /v1/hints/app/aa11",
            "GET /v1/hints/..%2Fx/aa11",
            "GET /v1/hints/app/%00",
        ] {
            assert_status(&collector.ask(&request(line, &[&token], b"")).await, 404);
        }
        let mut wrong = message(7);
        wrong.learned = vec![learned(-1.0)];
        let answer = collector.ask(&posted(&wrong.encode())).await;
        assert_status(&answer, 422);
        let mut store = collector.end().await;
        assert_eq!(store.learned_builds(0).unwrap().len(), 1);
    });
}

/// Check what each kind of request is answered, that only a whole message with a token changes anything, and that it counts once.
#[test]
fn requests_are_answered() {
    run_async(async {
        let collector = Collector::start(None).await;
        let good = message(1).encode();
        for _ in 0..2 {
            assert_status(&collector.ask(&posted(&good)).await, 204);
        }
        let token = format!("Authorization: Bearer {TOKEN}");
        let wrong = format!("{token}!");
        for headers in [&FORM[..], &[FORM[0], FORM[1], &wrong]] {
            let asked = request("POST /v1/messages", headers, &message(2).encode());
            let answer = collector.ask(&asked).await;
            assert_status(&answer, 401);
            assert!(answer.contains("--token-file"), "{answer}");
        }
        for form in [
            &FORM[..1],
            &FORM[1..],
            &["Content-Type: text/plain", FORM[1]],
        ] {
            let headers = [form, &[&*token][..]].concat();
            let asked = request("POST /v1/messages", &headers, &message(2).encode());
            assert_status(&collector.ask(&asked).await, 400);
        }
        let bomb = ruzstd::encoding::compress_to_vec(
            vec![b' '; 8 * MOST].as_slice(),
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        let mut older = message(2);
        older.sender = "nobody".to_owned();
        for (body, status) in [
            (b"garbage".to_vec(), 400),
            (Vec::new(), 400),
            (bomb, 413),
            (vec![0; MOST + 1], 413),
            (vec![0; 4 * MOST], 413),
            (older.encode(), 422),
        ] {
            let answer = collector.ask(&posted(&body)).await;
            assert_status(&answer, status);
        }
        // Nobody waits for all of it.
        let huge = posted(b"");
        let huge = String::from_utf8(huge).unwrap();
        let huge = huge.replace("Content-Length: 0", "Content-Length: 99999999999");
        assert_status(&collector.ask(huge.as_bytes()).await, 413);
        assert_status(
            &collector.ask(&request("GET /healthz", &[], b"")).await,
            200,
        );
        assert_status(
            &collector.ask(&request("GET /v1/messages", &[], b"")).await,
            405,
        );
        assert_status(&collector.ask(&request("GET /", &[], b"")).await, 404);
        assert_status(
            &collector.ask(&request("GET /metrics", &[], b"")).await,
            401,
        );
        let metrics = collector
            .ask(&request("GET /metrics", &[&token], b""))
            .await;
        for line in [
            "gwp_race_messages_total{result=\"taken\"} 1\n",
            "gwp_race_messages_total{result=\"before\"} 1\n",
            "gwp_race_messages_total{result=\"unauthorized\"} 2\n",
            "gwp_race_messages_total{result=\"refused\"} 10\n",
            "gwp_race_records_total 1\n",
            "gwp_race_store_up 1\n",
        ] {
            assert!(metrics.contains(line), "{line}{metrics}");
        }
        let many = "X-Header: x".to_owned();
        let asked = request("GET /healthz", &[&*many; 200], b"");
        assert_status(&collector.ask(&asked).await, 431);
        assert!(
            collector
                .counters
                .line()
                .contains("taken=1 again=1 refused=10")
        );
        let mut store = collector.end().await;
        assert_eq!(store.races(0).unwrap()[0].times, 2);
        assert_eq!(store.senders().unwrap()[0].messages, 1);
    });
}

/// Check that more messages than may wait are sent away, and that all are while the store is locked, until it can be written to again.
#[test]
fn a_locked_store_sends_senders_away() {
    run_async(async {
        let collector = Collector::start(None).await;
        assert_status(&collector.ask(&posted(&message(1).encode())).await, 204);
        let path = collector.folder.path().join("races.db");
        let mut lock = SqliteConnectOptions::new()
            .filename(path)
            .connect()
            .await
            .unwrap();
        let begin = sqlx::query("BEGIN IMMEDIATE");
        begin.execute(&mut lock).await.unwrap();
        // One is being written, four wait, and there is no room for the others.
        let mut asked = JoinSet::new();
        for sequence in 2..12 {
            let stream = tokio::net::TcpStream::connect(collector.address)
                .await
                .unwrap();
            asked.spawn(async move { ask(stream, &posted(&message(sequence).encode())).await });
        }
        let answers = asked.join_all().await;
        let count = |status: &str| {
            let has = |answer: &&String| {
                answer.starts_with(&format!("HTTP/1.1 {status}"))
                    && answer.contains("retry-after: ")
            };
            answers.iter().filter(has).count()
        };
        let (full, away) = (count("429"), count("503"));
        assert!(full > 0 && away > 0 && full + away == 10, "{answers:?}");
        let answer = collector.ask(&request("GET /healthz", &[], b"")).await;
        assert_status(&answer, 503);
        lock.close().await.unwrap();
        assert_status(&collector.ask(&posted(&message(2).encode())).await, 204);
        assert_status(
            &collector.ask(&request("GET /healthz", &[], b"")).await,
            200,
        );
        let mut store = collector.end().await;
        assert_eq!(store.senders().unwrap()[0].messages, 2);
    });
}

/// Files of a certificate and its key in a folder.
fn files(folder: &TempDir, [certificate, key]: [&str; 2]) -> [PathBuf; 2] {
    let files = ["certificate.pem", "secret.key"].map(|name| folder.path().join(name));
    for (file, text) in files.iter().zip([certificate, key]) {
        fs::write(file, text).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    files
}

/// Asks by TLS, as who has this certificate.
async fn ask_by_tls(collector: &Collector, of: Option<[&str; 2]>, request: &[u8]) -> String {
    let certificate = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate(AUTHORITY)).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match of {
        None => config.with_no_client_auth(),
        Some([chain, key]) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            config
                .with_client_auth_cert(vec![certificate(chain)], key)
                .unwrap()
        }
    };
    let stream = tokio::net::TcpStream::connect(collector.address)
        .await
        .unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    match TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
    {
        Ok(stream) => ask(stream, request).await,
        Err(error) => error.to_string(),
    }
}

/// Posts a message once as an agent does that believes those whom this authority has signed, and has this certificate: the status of the answer, or what is said where there is none.
async fn post_as_agent(
    collector: &Collector,
    authority: &str,
    of: Option<[&str; 2]>,
    message: Message,
) -> Result<u16, String> {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        file
    };
    let identity = of.map(|of| {
        let [certificate, key] = files(&folder, of);
        (certificate, key)
    });
    let address = format!("https://localhost:{}", collector.address.port());
    let destination = Destination {
        server: Server::new(&address).unwrap(),
        secret: Some(Secret::Token(written("token", TOKEN))),
        authorities: Some(written("authority.pem", authority)),
        identity,
    };
    // The client of an agent waits for the answer, which comes by this thread.
    let posting = tokio::task::spawn_blocking(move || {
        let client = destination.client().unwrap();
        let about = [
            ("Content-Type", "application/json"),
            ("Content-Encoding", "zstd"),
        ];
        let body = message.encode();
        let key = "collector of [agent]";
        let answer = destination.post(&client, "v1/messages", &about, &body, key);
        answer.map(|answer| answer.status().as_u16())
    });
    posting.await.unwrap()
}

/// Check that with an authority of clients only those are answered that it has signed, by TLS, and that a token is wanted all the same; that an agent is answered if it has such a certificate, and else is told what to do, also if the collector
/// is not one that its own authority has signed.
#[test]
fn certificates_are_asked_for() {
    run_async(async {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = files(&folder, COLLECTOR);
        let authority = folder.path().join("authority.pem");
        fs::write(&authority, AUTHORITY).unwrap();
        let tls = tls::acceptor(&certificate, &key, Some(&authority)).unwrap();
        let collector = Collector::start(Some(tls)).await;
        let good = posted(&message(1).encode());
        for who in [None, Some(STRANGER)] {
            let answer = ask_by_tls(&collector, who, &good).await;
            assert!(!answer.contains("HTTP/1.1"), "{answer}");
        }
        assert!(!collector.ask(&good).await.contains("HTTP/1.1 2"));
        assert_status(&ask_by_tls(&collector, Some(HOST), &good).await, 204);
        let bare = request("POST /v1/messages", &FORM, &message(2).encode());
        assert_status(&ask_by_tls(&collector, Some(HOST), &bare).await, 401);

        let answer = post_as_agent(&collector, AUTHORITY, Some(HOST), message(2)).await;
        assert_eq!(answer, Ok(204));
        let mend = "check ca, certificate and key beside collector of [agent]";
        let error = post_as_agent(&collector, STRANGER[0], Some(HOST), message(3)).await;
        let error = error.unwrap_err();
        assert!(error.contains(mend), "{error}");
        for who in [None, Some(STRANGER)] {
            let error = post_as_agent(&collector, AUTHORITY, who, message(3)).await;
            let error = error.unwrap_err();
            // A collector that ends the connection while something is sent to it may not be heard to say why.
            let has_broken_off = "check collector of [agent], and whether it runs";
            let is_mended = [mend, has_broken_off].iter().any(|end| error.contains(end));
            assert!(is_mended, "{error}");
        }
        let mut store = collector.end().await;
        assert_eq!(store.senders().unwrap()[0].messages, 2);
    });
}

/// Check that files which are of no use are named, with what to do.
#[test]
fn useless_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = files(&folder, COLLECTOR);
    assert!(tls::acceptor(&certificate, &key, None).is_ok());
    let refused = |certificate: &PathBuf, key: &PathBuf, clients: Option<&std::path::Path>| {
        let error = tls::acceptor(certificate, key, clients).err().unwrap();
        format!("{error:#}")
    };
    let error = refused(&key, &key, None);
    assert!(error.contains("no certificate in PEM"), "{error}");
    let error = refused(&certificate, &certificate, None);
    assert!(error.contains("no private key in PEM"), "{error}");
    let error = refused(&certificate, &key, Some(&key));
    assert!(error.contains("secret.key has no certificate"), "{error}");
    let other = tempfile::tempdir().unwrap();
    let [_, other] = files(&other, HOST);
    let error = refused(&certificate, &other, None);
    assert!(error.contains("of no use together"), "{error}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let error = refused(&certificate, &key, None);
    assert!(error.contains("chmod o="), "{error}");
}

/// Check that other machines are listened to by TLS and with a secret only, unless somebody insists on plain text; never without a secret.
#[test]
fn what_is_not_safe_is_refused() {
    let checked = |words: &str| {
        let words = format!("gwp-race races serve --store sqlite:x {words}");
        let cli = Cli::try_parse_from(words.split(' ')).map_err(|error| error.to_string())?;
        match cli.command {
            Command::Races(args) => match args.command {
                RacesCommand::Serve(args) => args.check().map_err(|error| error.to_string()),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let tls = "--tls-cert c --tls-key k";
    for good in [
        "--ingest 127.0.0.1:1",
        "--ingest [::1]:1",
        &format!("--ingest 0.0.0.0:1 {tls} --token-file t"),
        &format!("--ingest [::]:1 {tls} --client-ca a"),
        "--ingest 192.0.2.1:1 --insecure --token-file t",
        "--ui",
        "--ui [::1]:1",
        "--ui --ingest 127.0.0.1:1",
        "--ui --ui-users u --allow-triage",
        "--ui 192.0.2.1:1 --insecure --ui-users u",
        &format!("--ui [::]:1 {tls} --ui-users u --ui-name races.example"),
        &format!("--ui [::]:1 --ingest [::]:2 {tls} --ui-users u --client-ca a"),
    ] {
        assert_eq!(checked(good), Ok(()), "{good}");
    }
    for (bad, said) in [
        ("--ingest 0.0.0.0:1", "--token-file"),
        ("--ingest 0.0.0.0:1 --insecure", "--token-file"),
        (&*format!("--ingest [::]:1 {tls}"), "--client-ca"),
        ("--ingest 0.0.0.0:1 --token-file t", "--insecure"),
        ("--ingest 127.0.0.1:1 --tls-cert c", "--tls-key"),
        ("--ingest 127.0.0.1:1 --client-ca a", "--tls-cert"),
        ("--ingest 7174", "127.0.0.1:7174"),
        ("--ingest localhost:7174", "127.0.0.1:7174"),
        ("-v", "give --ui"),
        ("--ui 7173", "127.0.0.1:7174"),
        ("--ui 0.0.0.0:1", "--ui-users"),
        ("--ui 0.0.0.0:1 --insecure", "ssh -L"),
        (&*format!("--ui [::]:1 {tls}"), "--ui-users"),
        ("--ui 0.0.0.0:1 --ui-users u", "--insecure"),
        (&*format!("--ui [::]:1 {tls} --client-ca a"), "--ingest"),
        (
            "--ui --ingest 0.0.0.0:1 --insecure --ui-users u",
            "--token-file",
        ),
        ("--ingest 127.0.0.1:1 --ui-users u", "--ui"),
        ("--ui --token-file t", "--ingest"),
        ("--ui --allow-triage", "--ui-users"),
    ] {
        let error = checked(bad).unwrap_err();
        assert!(error.contains(said), "{bad}: {error}");
    }
}
