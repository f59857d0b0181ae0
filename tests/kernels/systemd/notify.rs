//! `Type=notify` with `WatchdogSec=`: what the program says reaches systemd, and what systemd says the program.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};

use super::{
    SERVER,
    service::{By, Service},
};
use crate::kernel::Kernel;

/// How often the program must say that it is alive. It does so eight times a second.
const WATCHDOG: Duration = Duration::from_secs(10);
/// So many of these it is to live through.
const TIMES: u32 = 3;
/// How long its race may be looked for.
const LONG_ENOUGH: Duration = Duration::from_secs(300);

/// The service is taken for started and alive under gwp-race, by what its program says and by nothing else.
pub fn notify(_: &Kernel) -> Result<String> {
    let watchdog = format!("WatchdogSec={}", WATCHDOG.as_secs());
    let all = ["Type=notify", "NotifyAccess=all", watchdog.as_str()];

    let service = Service::new(&SERVER.broken(), &[], By::GwpRace, &all)?;
    service.start()?;
    thread::sleep(WATCHDOG * TIMES);
    ensure!(service.end()?.state == "active", "{}", service.told()?);
    let is_caught = service.wait_for_race(LONG_ENOUGH)?;
    service.stop()?;
    ensure!(
        is_caught,
        "no race is caught within {LONG_ENOUGH:?}; {}",
        service.told()?
    );
    drop(service);

    // The watchdog does watch.
    let service = Service::new(&SERVER, &["mute"], By::GwpRace, &all)?;
    service.start()?;
    let end = service.wait_for(&["failed"])?;
    ensure!(
        end.result == "watchdog",
        "of a program that is not alive: {end:?}"
    );
    drop(service);

    // By default systemd listens to gwp-race alone, which says nothing.
    let service = Service::new(&SERVER, &[], By::GwpRace, &["Type=notify"])?;
    service.begin()?;
    service.wait_for_line("ready")?;
    thread::sleep(Duration::from_secs(2));
    let end = service.end()?;
    ensure!(
        end.state == "activating",
        "without NotifyAccess=all: {end:?}"
    );
    Ok(format!(
        "with `NotifyAccess=all` ready, and alive through {TIMES} times `WatchdogSec=`; its race is caught; without, it is never ready; a mute one is killed"
    ))
}
