//! The agent, which sends what the daemon finds, and a collector that takes it.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    thread,
};

use gwp_race_tests::children::Guarded;
use ruzstd::decoding::StreamingDecoder;
use serde_json::Value;

use super::{Scratch, otlp::OpenTelemetry, until};

/// By which a collector knows agents: as long as a real one wants it.
const TOKEN: &str = "5ecre7-0f-7he5e-7e575";

/// A collector on this machine. It takes nothing the first time, and does not answer the second time, although it takes the message: both come again. Its thread ends with the tests.
pub struct Collector {
    pub address: String,
    /// By sender and number.
    messages: Messages,
}

type Messages = Arc<Mutex<BTreeMap<(String, u64), Value>>>;

impl Collector {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let messages = Messages::default();
        let taken = Arc::clone(&messages);
        thread::spawn(move || {
            let mut times = 0;
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let Some(message) = read(&mut connection) else {
                    continue;
                };
                times += 1;
                let sender = message["sender"].as_str().unwrap().to_owned();
                let name = (sender, message["sequence"].as_u64().unwrap());
                let answer: &[u8] = match times {
                    1 => b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                    2 => b"",
                    _ => b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
                };
                if times > 1 {
                    let before = taken.lock().unwrap().insert(name, message.clone());
                    assert!(before.is_none_or(|before| before == message));
                }
                let _ = connection.write_all(answer);
            }
        });
        Self { address, messages }
    }
}

/// A message, of whoever has the token. Who asks what others have learned is told that nobody has.
fn read(connection: &mut TcpStream) -> Option<Value> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if connection.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(
        head.contains(&format!("authorization: bearer {TOKEN}\r\n")),
        "{head}"
    );
    if head.starts_with("get /v1/hints/") {
        let nothing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = connection.write_all(nothing);
        return None;
    }
    assert!(head.starts_with("post /v1/messages "), "{head}");
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().unwrap()];
    connection.read_exact(&mut body).ok()?;
    let mut json = Vec::new();
    let mut decoder = StreamingDecoder::new(body.as_slice()).unwrap();
    decoder.read_to_end(&mut json).unwrap();
    Some(serde_json::from_slice(&json).unwrap())
}

/// A file with the token in a folder.
pub fn token_in(folder: &Path) -> PathBuf {
    let token = folder.join("token");
    fs::write(&token, TOKEN).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    token
}

/// An agent by the configuration, in which the daemon finds it from now on, that sends to the collector at this address.
pub fn start(scratch: &Scratch, address: &str, otel: Option<&OpenTelemetry>) -> Guarded {
    let at = scratch.path("agent");
    let at = at.display();
    let token = token_in(scratch.0.path());
    let path = scratch.path("fleet.toml");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace(
        "[control]",
        &format!("agent = \"{at}/agent.sock\"\n[control]"),
    );
    let token = token.display();
    let text = format!(
        "{text}\n[agent]\ncollector = \"{address}\"\ntoken = \"{token}\"\noutbox = \"{at}/outbox.db\"\nmetrics = \"127.0.0.1:0\"\n"
    );
    let otlp = otel.map_or_else(String::new, |otel| {
        let endpoint = &otel.endpoint;
        format!("[agent.otlp]\nendpoint = \"{endpoint}\"\ninterval = \"1s\"\n")
    });
    let text = text + &otlp;
    fs::write(path, text).unwrap();
    let mut command = scratch.fleet(&["agent"]);
    let log = fs::File::create(scratch.path("agent.log")).unwrap();
    command.stdout(Stdio::null()).stderr(log);
    let mut agent = Guarded::new(command.spawn().unwrap());
    let answers = until(|| {
        let log = scratch.log("agent.log");
        assert!(
            agent.ended().unwrap().is_none(),
            "the agent has ended: {log}"
        );
        scratch.ask(&["agent", "status"]).status.success()
    });
    assert!(answers);
    agent
}

/// What it says of itself.
fn status(scratch: &Scratch) -> Value {
    let output = scratch.ask(&["agent", "status", "--format", "json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What it says of itself when all is sent that it has.
pub fn sent(scratch: &Scratch) -> Value {
    let mut last = Value::Null;
    let is_empty = until(|| {
        last = status(scratch);
        last["items"] == 0 && last["sending"].is_null()
    });
    assert!(is_empty, "{last:#}: {}", scratch.log("agent.log"));
    last
}

/// Check that whoever asks at the address that the agent names is told these figures.
fn figures_are_told(log: &str, sightings: u64, messages: usize) {
    let (_, address) = log.split_once("figures are told at http://").unwrap();
    let (address, _) = address.split_once("/metrics").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    for line in [
        "content-type: text/plain; version=0.0.4".to_owned(),
        "# TYPE gwp_race_agent_sightings_total counter".to_owned(),
        format!("gwp_race_agent_sightings_total {sightings}"),
        format!("gwp_race_agent_messages_total{{result=\"taken\"}} {messages}"),
        "gwp_race_agent_outbox_size_bytes 0".to_owned(),
        "gwp_race_daemon_up 0".to_owned(),
    ] {
        assert!(page.lines().any(|one| one == line), "{line}: {page}");
    }
}

/// Check that what daemons that have ended have found is what the collector has: races as often as the store says that they were caught, no message twice, none missing, and nothing dropped; and that who wants to be told events and figures was told the same.
pub fn has_sent_all(
    scratch: &Scratch,
    mut agent: Guarded,
    collector: &Collector,
    otel: &OpenTelemetry,
    list: &str,
) {
    let status = sent(scratch);
    let log = scratch.log("agent.log");
    for lost in ["lost_evidence", "lost_repeats", "lost_sightings", "refused"] {
        assert_eq!(status[lost], 0, "{status:#}: {log}");
    }
    let messages = collector.messages.lock().unwrap();
    assert_eq!(status["taken"].as_u64(), Some(messages.len() as u64));
    let numbers: Vec<_> = messages.keys().map(|(_, number)| *number).collect();
    assert_eq!(numbers, (1..=messages.len() as u64).collect::<Vec<_>>());
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    let of = |message: &Value, kind: &str| message["batch"][kind].as_array().unwrap().clone();
    for message in messages.values() {
        assert_eq!(status["sender"], message["sender"]);
        for caught in of(message, "caught") {
            let race = caught["race"]["identity"]["race"]
                .as_str()
                .unwrap()
                .to_owned();
            *times.entry(race).or_default() += caught["times"].as_u64().unwrap();
        }
        for counted in of(message, "counted") {
            let race = counted["race"].as_str().unwrap().to_owned();
            *times.entry(race).or_default() += counted["times"].as_u64().unwrap();
        }
    }
    let listed = list.lines().map(|line| {
        let race: Value = serde_json::from_str(line).unwrap();
        (
            race["race"].as_str().unwrap().to_owned(),
            race["times"].as_u64().unwrap(),
        )
    });
    assert_eq!(times, listed.collect::<BTreeMap<_, _>>());
    // What was learned goes by itself, of the builds that have ids.
    for message in messages.values() {
        let learned = message["learned"].as_array();
        let is_alone = |kind| of(message, kind).is_empty();
        let is_learned = learned.is_some_and(|learned| !learned.is_empty());
        assert!(!is_learned || ["caught", "counted", "builds"].into_iter().all(is_alone));
    }
    let learned = |message: &&Value| message["learned"][0]["functions"][0].is_object();
    assert!(
        messages.values().any(|message| learned(&message)),
        "{messages:?}"
    );
    let mut builds = messages.values().flat_map(|message| of(message, "builds"));
    assert!(builds.any(|seen| seen["exe"].as_str().unwrap().ends_with("/racy")));
    assert!(log.contains("has no time now (HTTP status 503)"), "{log}");
    let sightings: u64 = times.values().sum();
    let races = times.into_keys().collect();
    // What the daemons have told when they ended.
    let daemon = &status["daemon"];
    let begun = daemon["leases_begun"].as_u64().unwrap();
    let ended = daemon["leases_ended"].as_object().unwrap().values();
    let ended: u64 = ended.map(|times| times.as_u64().unwrap()).sum();
    assert!(begun > 0 && begun == ended, "{daemon}");
    assert!(daemon["stalls"].as_u64() > Some(0), "{daemon}");
    assert!(daemon["cost_ns"].as_u64() > Some(0), "{daemon}");
    figures_are_told(&log, sightings, messages.len());
    let sightings = i64::try_from(sightings).unwrap();
    let taken = i64::try_from(messages.len()).unwrap();
    let figures = [
        ("gwp_race.agent.sightings", sightings),
        ("gwp_race.agent.messages taken", taken),
        ("gwp_race.agent.events refused", 0),
        ("gwp_race.agent.events.waiting", 0),
        ("gwp_race.agent.outbox.size", 0),
        ("gwp_race.agent.collector.up", 1),
    ];
    otel.was_told(scratch, &races, &figures);
    end(scratch, &mut agent);
}

/// Ends an agent as systemd does.
pub fn end(scratch: &Scratch, agent: &mut Guarded) {
    scratch.end(agent, "agent.log");
    assert!(!scratch.path("agent/agent.sock").exists());
}
