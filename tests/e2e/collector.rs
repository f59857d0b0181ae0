//! `gwp-race races serve`: what hosts send is in the store once, whatever happens to the collector meanwhile.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    process::{Child, ChildStderr, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use gwp_race_tests::binary::gwp_race;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

pub const NAME: &str = "r3:00112233445566778899aabbccddeeff";
/// How long something may take that happens at once but where the machine is very busy.
const LONG: Duration = Duration::from_secs(60);
/// Kills of the collector.
const KILLS: usize = 6;
/// Who sends, and how much.
const SENDERS: u64 = 4;
const MESSAGES: u64 = 25;

/// A collector; it is killed when it is dropped.
pub struct Collector {
    child: Child,
    said: BufReader<ChildStderr>,
    /// Where it takes messages, host and port.
    pub address: String,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Collector {
    fn start(folder: &tempfile::TempDir, options: &[&str]) -> Self {
        let token = folder.path().join("token");
        std::fs::write(&token, token_of(folder)).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new(gwp_race());
        command
            .args(["races", "serve"])
            .args(["--store", &store(folder)]);
        command.arg("--token-file").arg(token).args(options);
        Self::by(command)
    }

    /// One that is started by a command which says all but where it is to listen.
    pub fn by(mut command: Command) -> Self {
        command.args(["--ingest", "127.0.0.1:0"]);
        let command = command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it has ended");
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split(' ').next().unwrap().to_owned();
            }
        };
        Self {
            child,
            said,
            address,
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Ends it as systemd does; what it has said.
    fn end(mut self) -> String {
        let begun = Instant::now();
        self.signal(Signal::SIGTERM);
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{:?}: {said}", status.signal());
        assert!(begun.elapsed() < LONG, "{said}");
        said
    }
}

/// Of each test another one: a port of a collector that was killed may be that of another test's in the next moment.
fn token_of(folder: &tempfile::TempDir) -> String {
    format!("token-of-{}", folder.path().display())
}

fn store(folder: &tempfile::TempDir) -> String {
    format!("sqlite:{}/races.db", folder.path().display())
}

/// What `races` says of the store, line by line.
fn listed(folder: &tempfile::TempDir, what: &str) -> Vec<Value> {
    listed_of(&store(folder), what)
}

/// The same of a store of any kind.
pub fn listed_of(store: &str, what: &str) -> Vec<Value> {
    let mut command = Command::new(gwp_race());
    command.args(["races", what, "--format", "json", "--store", store]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// A frame of Zstandard with these bytes as they are: magic, no options, a window of 128 KiB, and blocks that are not compressed (RFC 8878, section 3.1.1).
pub fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    let last = bytes.chunks(1 << 16).count().saturating_sub(1);
    for (index, block) in bytes.chunks(1 << 16).enumerate() {
        let header = (u32::try_from(block.len()).unwrap() << 3) | u32::from(index == last);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame
}

fn message(sender: u64, sequence: u64, batch: &Value) -> Vec<u8> {
    let message = json!({
        "schema": 1,
        "sender": format!("{sender:032x}"),
        "sequence": sequence,
        "lost": { "evidence": 0, "repeats": sequence, "sightings": 0 },
        "batch": batch,
    });
    framed(&serde_json::to_vec(&message).unwrap())
}

fn place(host: u64) -> Value {
    json!({ "host": format!("web{host}"), "cgroup": "/app.slice", "container": "" })
}

/// A batch with the race, caught once.
pub fn caught() -> Value {
    let access = |role: &str, kind: &str| {
        json!({
            "role": role, "kind": kind, "atomic": false, "size": 4, "address": "0x5000", "pc": "0x1000", "tid": 1, "thread_name": "t",
            "module": "/bin/app", "offset": "0x1000", "introduced_read": false, "stack_truncated": false, "stack": []
        })
    };
    let race = json!({
        "schema": 1, "fingerprint": "00", "verdict": "plain-plain", "pid": 1, "exe": "/bin/app", "build_id": "aa11",
        "identity": { "pair": null, "race": NAME, "issue": NAME.replacen('r', "i", 1) },
        "time": "2026-01-01T00:00:00Z", "address": "0x5000", "size": 4, "watch_address": "0x5000", "watch_size": 4,
        "location": { "kind": "unknown", "name": null, "offset": null, "size": null, "module": null, "module_offset": null, "tid": null },
        "value_before": null, "value_after": null,
        "accesses": [access("stalled", "write"), access("racing", "read")], "notes": []
    });
    json!({ "caught": [{ "race": race, "place": place(0), "times": 1 }] })
}

/// A batch in which it was caught so many times more.
pub fn counted(host: u64, times: u64) -> Value {
    json!({ "counted": [{
        "race": NAME, "build": "aa11", "exe": "/bin/app", "place": place(host), "times": times, "last": 1_767_225_600_000u64
    }] })
}

/// Sends a message; the status and all of the answer.
fn post(address: &str, token: &str, body: &[u8]) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG))?;
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: collector\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Encoding: zstd\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((status, answer))
}

/// Sends a message until it is taken.
fn deliver(address: &Mutex<String>, token: &str, body: &[u8]) {
    let until = Instant::now() + LONG;
    loop {
        let now = address.lock().unwrap().clone();
        match post(&now, token, body) {
            Ok((204, _)) => return,
            Ok((status @ (400 | 413 | 422), answer)) => panic!("{status}: {answer}"),
            Ok(_) | Err(_) => {}
        }
        assert!(Instant::now() < until, "not taken within {LONG:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Check that messages of several hosts, each sent again and again while the collector is killed at any instant, are counted once each.
#[test]
fn a_collector_that_is_killed_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut collector = Collector::start(&folder, &[]);
    let address = Arc::new(Mutex::new(collector.address.clone()));
    let token = token_of(&folder);
    deliver(&address, &token, &message(0, 1, &caught()));
    let hosts: Vec<_> = (1..=SENDERS)
        .map(|host| {
            let (address, token) = (Arc::clone(&address), token.clone());
            thread::spawn(move || {
                for sequence in 1..=MESSAGES {
                    let body = message(host, sequence, &counted(host, sequence * host));
                    deliver(&address, &token, &body);
                    deliver(&address, &token, &body);
                }
            })
        })
        .collect();
    for _ in 0..KILLS {
        thread::sleep(Duration::from_millis(fastrand::u64(1..60)));
        drop(collector);
        collector = Collector::start(&folder, &[]);
        address.lock().unwrap().clone_from(&collector.address);
    }
    for host in hosts {
        host.join().unwrap();
    }
    let said = collector.end();
    assert!(said.contains("messages: taken="), "{said}");
    let races = listed(&folder, "list");
    let [race] = &races[..] else {
        panic!("{races:?}");
    };
    let of_each: u64 = (1..=MESSAGES).sum();
    let of_all: u64 = (1..=SENDERS).map(|host| host * of_each).sum();
    assert_eq!(
        (&race["race"], &race["times"]),
        (&NAME.into(), &(1 + of_all).into())
    );
    let mut hosts = listed(&folder, "hosts");
    hosts.sort_by_key(|host| host["sender"].to_string());
    assert_eq!(hosts.len() as u64, 1 + SENDERS, "{hosts:?}");
    for (number, host) in hosts.iter().enumerate().skip(1) {
        let figures =
            ["messages", "missing", "lost_repeats", "unknown"].map(|name| host[name].as_u64());
        assert_eq!(
            figures,
            [Some(MESSAGES), Some(0), Some(MESSAGES), Some(0)],
            "{host}"
        );
        assert_eq!(host["host"], format!("web{number}"));
    }
}

/// Check that the real program refuses what it should, goes on after it, and finishes what it was asked when it is told to end; that it tells its figures when it is asked.
#[test]
fn a_collector_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut collector = Collector::start(&folder, &[]);
    let address = collector.address.clone();
    let good = message(1, 1, &caught());
    let token = &*token_of(&folder);
    let status = |token: &str, body: &[u8]| post(&address, token, body).unwrap().0;
    assert_eq!(status("0123456789abcdef", &good), 401);
    assert_eq!(status(token, b"garbage"), 400);
    assert_eq!(status(token, &vec![0; (1 << 20) + 1]), 413);
    // A megabyte of runs: each block of four bytes is 128 KiB.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for _ in 0..200 {
        bomb.extend_from_slice(&(((1u32 << 17 << 3) | 0b010).to_le_bytes()[..3]));
        bomb.push(b' ');
    }
    bomb.extend_from_slice(&[1, 0, 0]);
    assert_eq!(status(token, &bomb), 413);
    assert_eq!(status(token, &message(1, 0, &caught())), 422);
    // Those who never finish what they say are in nobody's way.
    let slow: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream
                .write_all(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-")
                .unwrap();
            stream
        })
        .collect();
    assert_eq!(status(token, &good), 204);
    assert_eq!(status(token, &good), 204);
    collector.signal(Signal::SIGUSR1);
    let said = loop {
        let mut line = String::new();
        assert_ne!(collector.said.read_line(&mut line).unwrap(), 0);
        if line.contains("messages:") {
            break line;
        }
    };
    assert!(
        said.contains("taken=1 again=1 refused=4 unauthorized=1"),
        "{said}"
    );
    let said = collector.end();
    assert!(said.contains("taken=1 again=1"), "{said}");
    drop(slow);
    assert_eq!(listed(&folder, "list")[0]["times"], 1);
}

/// Check that a collector which cannot be safe, or cannot begin, says what to do.
#[test]
fn a_collector_that_cannot_begin_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let open = folder.path().join("open");
    std::fs::write(&open, token_of(&folder)).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = open.to_str().unwrap();
    let first = Collector::start(&folder, &[]);
    for (options, mend) in [
        (&["--ingest", "0.0.0.0:0"][..], "give --token-file"),
        (
            &["--ingest", "0.0.0.0:0", "--token-file", open],
            "give --tls-cert",
        ),
        (
            &["--ingest", "127.0.0.1:0", "--token-file", open],
            "chmod o=",
        ),
        (&["--ingest", &first.address], "name another port"),
    ] {
        let mut command = Command::new(gwp_race());
        command
            .args(["races", "serve", "--store"])
            .arg(store(&folder));
        let output = command.args(options).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(mend), "{said}");
    }
}
