//! Handing over to an agent, as a daemon does: until it is taken, under a number of its own. The form is that of `outbox/handing.rs`, in postcard (<https://postcard.jamesmunns.com/wire-format>).

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use serde_json::{Value, json};

use super::long;
use crate::collector::{caught, counted, framed};

/// The version of the form.
const VERSION: u8 = 3;
/// Which question it is to take something.
const TAKE: u8 = 0;
/// Which answers there are.
const TAKEN: u8 = 0;
const REFUSED: u8 = 2;

/// See the module.
pub struct Giver {
    socket: PathBuf,
    host: u64,
    /// By which the agent knows what comes again.
    name: String,
    /// Of its reports: no two reports are the same.
    first_pid: u64,
    sequence: u64,
    /// What it has to tell next.
    nth: u64,
    /// How often races were caught, of all that was taken.
    pub times: u64,
    /// How often the agent has taken nothing, although it was there.
    pub refused: Arc<AtomicU64>,
}

impl Giver {
    pub fn new(socket: &Path, host: u64, name: u64) -> Self {
        Self {
            socket: socket.to_owned(),
            host,
            name: format!("{name:032x}"),
            first_pid: 100_000 * (name + 1),
            sequence: 0,
            nth: 0,
            times: 0,
            refused: Arc::default(),
        }
    }

    /// Hands over the next thing: each fifth is a report, which is another one each time, and the others are counts.
    pub fn give_next(&mut self) {
        let nth = self.nth;
        self.nth += 1;
        if nth.is_multiple_of(5) {
            self.give(&report(self.host, self.first_pid + nth), 1);
        } else {
            self.give(&counted(self.host, nth), nth);
        }
    }

    /// Hands a batch over, until it is taken; races were caught so often in it.
    pub fn give(&mut self, batch: &Value, times: u64) {
        self.sequence += 1;
        let message = json!({
            "schema": 1,
            "sender": self.name,
            "sequence": self.sequence,
            "lost": { "evidence": 0, "repeats": 0, "sightings": 0 },
            "batch": batch,
        });
        let message = framed(&serde_json::to_vec(&message).unwrap());
        let mut question = vec![VERSION, TAKE];
        question.extend(varint(message.len()));
        question.extend(message);
        let length = u32::try_from(question.len()).unwrap();
        let frame = [&length.to_le_bytes()[..], &question].concat();
        let until = Instant::now() + long();
        loop {
            // Where there is no answer it may have been taken, and counts once all the same.
            let answer = self.ask(&frame);
            match answer.as_deref() {
                Ok([TAKEN, ..]) => break,
                Ok([REFUSED, ..]) => drop(self.refused.fetch_add(1, Relaxed)),
                Ok(answer) => panic!("{}", String::from_utf8_lossy(answer)),
                Err(_) => {}
            }
            if Instant::now() > until {
                let log = fs::read_to_string(self.socket.with_extension("log"));
                panic!("not taken: {answer:?}\n{}", log.unwrap_or_default());
            }
            thread::sleep(super::POLL);
        }
        self.times += times;
    }

    fn ask(&self, frame: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(long()))?;
        stream.write_all(frame)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        match answer.split_at_checked(4) {
            Some((_, answer)) if !answer.is_empty() => Ok(answer.to_owned()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A report of the race.
fn report(host: u64, pid: u64) -> Value {
    let mut batch = caught();
    let caught = &mut batch["caught"][0];
    caught["race"]["pid"] = pid.into();
    caught["place"]["host"] = format!("web{host}").into();
    batch
}

/// More than an outbox of 4 MiB has room for: reports of a race, counts of it, and races that nobody knows; and how often races were caught in each of them.
pub fn flood(host: u64) -> Vec<(Value, u64)> {
    const EACH: u64 = 240;
    let long = |nth: u64| format!("{nth} {}", "x".repeat(30_000));
    let mut evidence = json!({ "caught": [] });
    let mut repeats = json!({ "counted": [] });
    let mut sightings = json!({ "caught": [] });
    for nth in 0..EACH {
        let mut caught = report(host, nth)["caught"][0].take();
        caught["race"]["notes"] = json!([long(nth)]);
        push(&mut evidence["caught"], caught.clone());
        for name in ["race", "issue"] {
            let other = format!("{}3:{nth:032x}", &name[..1]);
            caught["race"]["identity"][name] = other.into();
        }
        push(&mut sightings["caught"], caught);
        let mut counted = counted(host, 3)["counted"][0].take();
        counted["place"]["container"] = long(nth).into();
        push(&mut repeats["counted"], counted);
    }
    vec![(evidence, EACH), (repeats, 3 * EACH), (sightings, EACH)]
}

fn push(list: &mut Value, value: Value) {
    list.as_array_mut().unwrap().push(value);
}

/// A number in pieces of seven bits, the lowest first.
fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
