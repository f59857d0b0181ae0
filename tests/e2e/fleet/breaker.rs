//! Programs that do not bear to be watched.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use gwp_race_tests::{chaos::target::waited_for, children::Guarded, machine::Machine};
use serde_json::Value;

use super::{FEW, PATIENCE, POLL, Scratch, built, busy, of, until};

/// How long a process lives that nobody traces, in seconds: it has earned a lease before.
const LIFE: &str = "5";
/// Processes at a time.
const PROCESSES: usize = 4;
/// How it ends that is traced.
const DIED: i32 = 3;
/// So many have died at most before their build is left alone.
const PROMISED: usize = 20;
/// A coin decides half of the time that a process is only looked at while it lives, so that it takes a minute.
const TRIAL: Duration = Duration::from_secs(600);
/// Processes that live their lives when their build is left alone.
const SPARED: usize = 4;

/// Check that a build of which each process dies as soon as it is traced is left alone before more than so many have died of it, which is told with its name; that its processes live their lives then; and that another
/// program is watched as before.
#[test]
fn who_dies_of_leases_is_left_alone() {
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    // Whoever has a lease when another one dies is no evidence: with more at a time, more die.
    let config = fs::read_to_string(scratch.path("fleet.toml")).unwrap();
    let config = config.replace("[limits]", "[limits]\n            leases = 2");
    fs::write(scratch.path("fleet.toml"), config).unwrap();
    let dies = scratch.place(&built("conduct/dies_when_traced.c"), "dies");
    let mut daemon = scratch.daemon("log");
    let mut running = Vec::new();
    let mut died = 0;
    let is_left_alone = waited_for(TRIAL, POLL, || {
        while running.len() < PROCESSES {
            running.push(start(&dies));
        }
        running.retain_mut(|process: &mut Guarded| {
            let ended = process.ended().unwrap();
            died += usize::from(ended.is_some_and(|status| status.code() == Some(DIED)));
            ended.is_none()
        });
        Ok(scratch.status()["builds_left_alone"] == 1)
    });
    assert!(is_left_alone.unwrap(), "{died}: {}", scratch.log("log"));
    // Those that still had leases.
    for mut process in running {
        let ended = process.wait(PATIENCE).unwrap();
        died += usize::from(ended.code() == Some(DIED));
    }
    println!("{died} have died");
    assert!(
        (1..=PROMISED).contains(&died),
        "{died}: {}",
        scratch.log("log")
    );
    let log = scratch.log("log");
    let told = log
        .lines()
        .find(|line| line.contains("is left alone from now on"));
    let name = dies.display().to_string();
    assert!(told.is_some_and(|told| told.contains(&name)), "{log}");

    let spared: Vec<_> = (0..SPARED).map(|_| start(&dies)).collect();
    for mut process in spared {
        let ended = process.wait(PATIENCE).unwrap();
        assert!(ended.success(), "{ended}: {}", scratch.log("log"));
    }
    let quiet = scratch.place(&built("silent/mutex.c"), "quiet");
    let mut quiet = busy(&quiet, FEW);
    let is_watched = until(|| {
        let status = scratch.status();
        let known = of(&status, quiet.pid());
        known.is_some_and(|known| known["lease"] != Value::Null || known["leases"] != 0)
    });
    assert!(is_watched, "{}", scratch.log("log"));
    assert_eq!(scratch.status()["builds_left_alone"], 1);
    scratch.end(&mut daemon, "log");
    assert!(quiet.ended().unwrap().is_none());
}

fn start(program: &Path) -> Guarded {
    let mut command = Command::new(program);
    command.arg(LIFE).stdin(Stdio::null()).stdout(Stdio::null());
    Guarded::new(command.spawn().unwrap())
}
