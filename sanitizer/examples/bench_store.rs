//! What a common store takes, and what it keeps for that.
//!
//! `bench_store STORE REPORT HOSTS`: as many hosts each send the first race of a report of gwp-race (`--format json`) under ten names, and then, for 24 hours, how often each was caught again, a message an hour. Tells the bytes of a
//! message, how many rows a second are taken and rolled up, and how much CPU time that takes here. STORE is sqlite:PATH or postgres://..., and is to be empty.

use std::{
    env, fs,
    time::{Instant, SystemTime},
};

use anyhow::Context as _;
use gwp_race::{
    delivery::{MOST_UNPACKED, Message},
    kernel::process::CpuClock,
    report::Race,
    store::{Access, Address, Batch, Caught, Counted, Lost, Store, Whereabouts, millis},
};

/// Races of which a host tells.
const RACES: usize = 10;
const HOURS: i64 = 24;
const HOUR: i64 = 3_600_000;

/// The race under another name.
fn named(race: &Race, number: usize) -> Race {
    let mut race = race.clone();
    race.identity.race = format!("r3:{number:032x}");
    race.identity.issue = format!("i3:{number:032x}");
    race
}

/// Where a host's program is: a pod of Kubernetes, whose names are the longest.
fn place(host: usize) -> Whereabouts {
    let id = format!("{host:032x}");
    let (a, b) = id.split_at(8);
    let pod = format!("{a}_0000_0000_0000_{}", &b[12..]);
    Whereabouts {
        host: format!("node-{host:06}.example.org"),
        cgroup: format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{pod}.slice/cri-containerd-{id}{id}.scope"
        ),
        container: format!("{id}{id}"),
    }
}

fn message(host: usize, sequence: u64, batch: Batch) -> Message {
    Message {
        sender: format!("{host:032x}"),
        sequence,
        lost: Lost::default(),
        batch,
        learned: Vec::new(),
    }
}

/// Takes them as a collector does, and tells what it took.
fn take(store: &mut Store, what: &str, messages: &[Vec<u8>], rows: usize) -> anyhow::Result<()> {
    let cpu = CpuClock::of(std::process::id());
    let before = cpu.ns();
    let begun = Instant::now();
    for body in messages {
        let message = Message::decode(body, MOST_UNPACKED)?;
        store.receive(&message.stamp(), &message.batch, millis(SystemTime::now()))?;
    }
    let took = begun.elapsed().as_secs_f64();
    let worked = cpu.ns().saturating_sub(before) as f64 / 1e9;
    let bytes: usize = messages.iter().map(Vec::len).sum();
    println!(
        "{what}: {} messages of {} bytes, {rows} rows in {took:.2} s: {:.0} messages/s, {:.0} rows/s, {worked:.2} s of CPU time here",
        messages.len(),
        bytes / messages.len().max(1),
        messages.len() as f64 / took,
        rows as f64 / took
    );
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [store, report, hosts] = &words[..] else {
        anyhow::bail!("usage: bench_store STORE REPORT HOSTS");
    };
    let address: Address = store.parse().map_err(anyhow::Error::msg)?;
    let hosts: usize = hosts.parse()?;
    let report = fs::read_to_string(report)?;
    let mut lines = report.lines();
    let race: Race = lines
        .find_map(|line| serde_json::from_str(line).ok())
        .context("there is no race in the report")?;
    let mut store = Store::open(&address, Access::Create)?;
    let now = millis(SystemTime::now());

    let first = |host: usize, races: usize| {
        let caught = (0..races).map(|number| Caught {
            race: Race {
                pid: u32::try_from(host).unwrap_or_default(),
                ..named(&race, number)
            },
            place: place(host),
            times: 1,
            last: None,
        });
        let batch = Batch {
            caught: caught.collect(),
            ..Batch::default()
        };
        message(host, 1, batch).encode()
    };
    println!(
        "a record: {} bytes, a message with it: {} bytes",
        serde_json::to_string(&race)?.len(),
        first(0, 1).len()
    );
    let messages: Vec<_> = (0..hosts).map(|host| first(host, RACES)).collect();
    take(&mut store, "first reports", &messages, hosts * RACES)?;

    let again = |host: usize, hour: i64, races: usize| {
        let counted = (0..races).map(|number| Counted {
            race: named(&race, number).identity.race,
            build: race.build(),
            exe: race.exe.clone(),
            place: place(host),
            times: 7,
            last: now - hour * HOUR,
        });
        let batch = Batch {
            counted: counted.collect(),
            ..Batch::default()
        };
        message(host, hour.unsigned_abs() + 1, batch).encode()
    };
    let again = &again;
    let messages =
        (1..=HOURS).flat_map(|hour| (0..hosts).map(move |host| again(host, hour, RACES)));
    let messages: Vec<_> = messages.collect();
    let rows = messages.len() * RACES;
    take(&mut store, "caught again", &messages, rows)?;
    let messages: Vec<_> = (0..hosts).map(|host| again(host, HOURS + 1, 1)).collect();
    take(&mut store, "one caught again", &messages, hosts)?;

    let begun = Instant::now();
    let less = store.roll_up(now + 9 * HOURS * HOUR)?.less;
    let took = begun.elapsed().as_secs_f64();
    println!("rolled up: {less} rows less in {took:.2} s");
    Ok(())
}
