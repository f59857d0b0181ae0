//! `systemctl stop`: the service ends under gwp-race as it does by itself.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, ensure};

use super::{
    SERVER,
    service::{By, End, Service},
};
use crate::kernel::Kernel;

/// Whom systemd sends SIGTERM: all, gwp-race, gwp-race.
const KILL_MODES: [&str; 3] = ["control-group", "mixed", "process"];
/// What the program makes of it.
const WORDS: [&[&str]; 2] = [&[], &["handles"]];
/// How long it runs before.
const WATCHED: Duration = Duration::from_secs(3);
/// What gwp-race says where it does not understand why something of it has died.
const FAULT: &str = "a fault of gwp-race's";

/// By each `KillMode=`, of a program that SIGTERM ends, and one that handles it.
pub fn as_alone(_: &Kernel) -> Result<String> {
    let mut samples = 0.0;
    for mode in KILL_MODES {
        for words in WORDS {
            let place = || format!("KillMode={mode}, {words:?}");
            let alone = stopped(By::Itself, mode, words).with_context(place)?;
            let (end, stdout, _) = &alone;
            ensure!(
                end.result == "success" && end.state == "inactive",
                "{}, by itself: {end:?} {stdout}",
                place()
            );
            let watched = stopped(By::GwpRace, mode, words).with_context(place)?;
            ensure!(
                (end, stdout) == (&watched.0, &watched.1),
                "{}: by itself {end:?} {stdout:?}, under gwp-race {:?} {:?}",
                place(),
                watched.0,
                watched.1
            );
            samples += watched.2;
        }
    }
    ensure!(
        samples > 0.0,
        "nobody was ever sampled, which proves nothing"
    );
    Ok(format!(
        "as without gwp-race by `KillMode=` {}: end, exit status, and SIGTERM once",
        KILL_MODES.join(", ")
    ))
}

/// How it has ended, what its program has printed, and how often it was sampled.
fn stopped(by: By, mode: &str, words: &[&str]) -> Result<(End, String, f64)> {
    let mode = format!("KillMode={mode}");
    let service = Service::new(&SERVER, words, by, &["TimeoutStopSec=60", &mode])?;
    service.start()?;
    service.wait_for_line("ready")?;
    thread::sleep(WATCHED);
    service.stop()?;
    let end = service.wait_for(&["inactive", "failed"])?;
    let said = service.stderr();
    ensure!(!said.contains(FAULT), "gwp-race complains: {said}");
    let left = service.processes()?;
    ensure!(left.is_empty(), "processes are left: {left:?}");
    let report = service.report()?;
    if by == By::GwpRace {
        ensure!(report.summary.is_some(), "the report has no end: {said}");
        ensure!(report.races.is_empty(), "false reports: {:?}", report.races);
    }
    Ok((end, service.stdout(), report.number("samples")))
}
