//! The way of what is found, from whoever hands it to an agent to the store of a collector, while something on it is away, full, killed or deaf: each race is counted as often as it was caught, none twice, and what is
//! missing is of the kinds that may be dropped and is told exactly. All cases go on at the same time, since most of the time is spent waiting.

mod front;
mod giver;
mod site;

use std::{
    fmt::Debug,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use gwp_race_tests::{binary::full, chaos::random::Random};
use serde_json::Value;

use front::Mood;
use giver::flood;
use site::{Site, Version};

const POLL: Duration = Duration::from_millis(20);
/// Whoever hands over does so this often.
const PACE: Duration = Duration::from_millis(40);
const SEED: u64 = 29;

/// Whatever is waited for takes seconds; what it takes does not count. An agent lets a collector alone for five minutes at most.
fn long() -> Duration {
    Duration::from_secs(if full() { 900 } else { 120 })
}

fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + long();
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// Whose disk is a small one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    None,
    Agent,
    Collector,
    Server,
}

/// What happens on the way.
struct Case {
    name: &'static str,
    agents: usize,
    /// The store is on a PostgreSQL server.
    is_on_server: bool,
    disk: Disk,
    /// Room of an outbox.
    spool: &'static str,
    /// Something of each kind that may be dropped has to be.
    drops: bool,
    /// Two versions of gwp-race take turns.
    takes_turns: bool,
    trouble: fn(&mut Site, &mut Random) -> u64,
}

const USUAL: Case = Case {
    name: "",
    agents: 1,
    is_on_server: false,
    disk: Disk::None,
    spool: "64MiB",
    drops: false,
    takes_turns: false,
    trouble: |_, _| 0,
};

const CASES: [Case; 8] = [
    Case {
        name: "the server of the store is stopped, and killed",
        agents: 2,
        is_on_server: true,
        trouble: server_goes_away,
        ..USUAL
    },
    Case {
        name: "the collector has no time, does not answer, and is not heard",
        agents: 2,
        trouble: collector_is_odd,
        ..USUAL
    },
    Case {
        name: "the agent's disk is full",
        disk: Disk::Agent,
        trouble: disk_is_full_at_agent,
        ..USUAL
    },
    Case {
        name: "the collector's disk is full",
        disk: Disk::Collector,
        trouble: disk_is_full_at_collector,
        ..USUAL
    },
    Case {
        name: "the disk of the store's server is full",
        agents: 2,
        is_on_server: true,
        disk: Disk::Server,
        trouble: disk_is_full_at_server,
        ..USUAL
    },
    Case {
        name: "the outbox is too small",
        spool: "4MiB",
        drops: true,
        trouble: outbox_is_full,
        ..USUAL
    },
    Case {
        name: "two versions take turns",
        agents: 2,
        is_on_server: true,
        takes_turns: true,
        trouble: versions_take_turns,
        ..USUAL
    },
    Case {
        name: "all are killed at any instant",
        agents: 2,
        is_on_server: true,
        trouble: all_are_killed,
        ..USUAL
    },
];

fn server_goes_away(site: &mut Site, _: &mut Random) -> u64 {
    let server = site.server.as_ref().unwrap();
    let away = Duration::from_secs(if full() { 300 } else { 1 });
    let before = site.front.said(503);
    server.tell("freeze");
    thread::sleep(away);
    // The collector waits for 20 s.
    assert!(!full() || site.front.said(503) > before);
    server.tell("thaw");
    let before = site.front.said(503);
    server.tell("kill");
    assert!(until(|| site.front.said(503) > before));
    thread::sleep(away);
    server.tell("start");
    0
}

fn collector_is_odd(site: &mut Site, _: &mut Random) -> u64 {
    let hang = Duration::from_secs(if full() { 90 } else { 1 });
    let moods = [
        Mood::Says(429),
        Mood::Cuts,
        Mood::Says(503),
        Mood::Hangs(hang),
        Mood::Cuts,
        Mood::Passes,
    ];
    site.front.next(&moods);
    assert!(until(|| site.front.left() == 0));
    0
}

fn disk_is_full_at_agent(site: &mut Site, _: &mut Random) -> u64 {
    let mut giver = site.giver(0, 77);
    // Once there is something on it.
    giver.give_next();
    site.fill();
    let refused = giver.refused.clone();
    thread::scope(|scope| {
        let giving = scope.spawn(move || {
            while giver.refused.load(Relaxed) == 0 {
                giver.give_next();
            }
            giver.times
        });
        assert!(until(|| refused.load(Relaxed) > 0));
        site.empty();
        giving.join().unwrap()
    })
}

fn disk_is_full_at_collector(site: &mut Site, _: &mut Random) -> u64 {
    assert!(until(|| site.front.said(204) > 0));
    site.fill();
    assert!(until(|| site.front.said(503) > 0));
    site.empty();
    0
}

fn disk_is_full_at_server(site: &mut Site, _: &mut Random) -> u64 {
    assert!(until(|| site.front.said(204) > 0));
    let server = site.server.as_ref().unwrap();
    let before = site.front.said(503);
    server.tell("fill");
    assert!(until(|| site.front.said(503) > before));
    assert!(until(|| server.log().contains("No space left on device")));
    thread::sleep(Duration::from_secs(if full() { 60 } else { 1 }));
    server.tell("empty");
    // Without room for its log it ends.
    server.tell("revive");
    0
}

fn outbox_is_full(site: &mut Site, _: &mut Random) -> u64 {
    // That the race is there is not dropped.
    assert!(until(|| site.front.said(204) > 0));
    site.front.always(Mood::Says(503));
    let mut giver = site.giver(0, 77);
    for (batch, times) in flood(1) {
        giver.give(&batch, times);
    }
    site.front.always(Mood::Passes);
    giver.times
}

fn all_are_killed(site: &mut Site, random: &mut Random) -> u64 {
    for _ in 0..if full() { 200 } else { 8 } {
        thread::sleep(random.below(Duration::from_millis(400)));
        match random.number() % 4 {
            0 => {
                let server = site.server.as_ref().unwrap();
                server.tell("kill");
                server.tell("start");
            }
            1 => site.restart_collector(),
            _ => {
                let agents = site.agents() as u64;
                site.restart_agent((random.number() % agents) as usize);
            }
        }
    }
    // They send at once.
    for number in 0..site.agents() {
        site.restart_agent(number);
    }
    0
}

/// The newer one takes the place of the older one, and that one takes it back, while both have the store open.
fn versions_take_turns(site: &mut Site, random: &mut Random) -> u64 {
    let is_taken = |site: &Site, before| assert!(until(|| site.front.said(204) > before + 1));
    is_taken(site, 0);
    for _ in 0..if full() { 20 } else { 2 } {
        for version in [Version::Newer, Version::Older] {
            site.go_on_with(version);
            site.add_collector();
            for agent in 0..site.agents() {
                site.restart_agent(agent);
                thread::sleep(random.below(Duration::from_millis(400)));
            }
            for _ in 0..2 {
                is_taken(site, site.front.said(204));
                // The one that was there before, and then the one of this version.
                site.change_collector();
            }
        }
    }
    assert!(Version::is_given() || site.fictitious() == "1000000");
    0
}

#[track_caller]
fn assert_all<T: PartialEq + Debug>(case: &Case, values: &[T], wanted: &T) {
    let are_as_wanted = values.iter().all(|value| value == wanted);
    assert!(are_as_wanted, "{}: {values:?}, not {wanted:?}", case.name);
}

/// When this is dropped, by whatever, all is over.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn run(case: &Case) {
    let begun = Instant::now();
    let mut site = Site::start(case);
    let is_over = AtomicBool::new(false);
    let (over, more) = thread::scope(|scope| {
        let agents = 0..site.agents();
        let givers: Vec<_> = agents
            .map(|agent| {
                let mut giver = site.giver(agent, agent as u64);
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Relaxed) {
                        giver.give_next();
                        thread::sleep(PACE);
                    }
                    giver
                })
            })
            .collect();
        let end = End(&is_over);
        let more = (case.trouble)(&mut site, &mut Random::new(SEED));
        drop(end);
        let givers = givers.into_iter().map(|giver| giver.join().unwrap());
        (givers.collect::<Vec<_>>(), more)
    });
    let mut given = more;
    site.sent();
    for mut giver in over {
        // With this each agent tells what it has dropped before.
        giver.give_next();
        given += giver.times;
    }
    let agents = site.sent();
    let number = |value: &Value| value.as_u64().unwrap();
    let all = |lines: &[Value], name: &str| -> Vec<u64> {
        lines.iter().map(|line| number(&line[name])).collect()
    };
    let mut hosts = site.listed("hosts");
    hosts.sort_by_key(|host| host["host"].to_string());
    let races = site.listed("list");
    let counted: u64 = all(&races, "times").iter().sum();
    let lost = ["lost_evidence", "lost_repeats", "lost_sightings"];
    let [evidence, repeats, sightings] = lost.map(|name| all(&hosts, name).iter().sum::<u64>());
    println!(
        "{}: {given} given, {counted} counted, dropped {evidence} reports, {repeats} counts, {sightings} races, in {:?}",
        case.name,
        begun.elapsed()
    );
    assert_eq!(hosts.len(), agents.len(), "{}: {hosts:?}", case.name);
    for (host, agent) in hosts.iter().zip(&agents) {
        assert_eq!(host["sender"], agent["sender"], "{}", case.name);
        assert_eq!(host["messages"], agent["taken"], "{}", case.name);
        for name in lost {
            assert_eq!(host[name], agent[name], "{}: {name}", case.name);
        }
    }
    assert_all(case, &all(&hosts, "missing"), &0);
    assert_all(case, &all(&hosts, "unknown"), &0);
    assert_all(case, &all(&agents, "refused"), &0);
    assert_eq!(counted + repeats + sightings, given, "{}", case.name);
    if case.drops {
        assert!(
            evidence > 0 && repeats > 0 && sightings > 0,
            "{}",
            case.name
        );
    } else {
        assert_eq!([evidence, repeats, sightings], [0; 3], "{}", case.name);
    }
}

/// Check that whatever is away, full, killed or deaf on the way, all that was handed over is counted once in the end, but for what an outbox has dropped, which is told exactly.
#[test]
fn whatever_happens_on_the_way() {
    println!("the seed is {SEED}");
    thread::scope(|scope| {
        let cases: Vec<_> = CASES
            .iter()
            .map(|case| (case.name, scope.spawn(|| run(case))))
            .collect();
        for (name, case) in cases {
            assert!(case.join().is_ok(), "{name}");
        }
    });
}
