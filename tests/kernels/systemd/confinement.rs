//! Services that may do little: what hinders gwp-race is told, and what does not hinder it hinders no catch.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use gwp_race_tests::{Program, Report, children::status_field, report::Race};
use nix::unistd::Pid;

use super::{
    SERVER,
    service::{By, Service},
};
use crate::kernel::Kernel;

/// How often a race may be missed, and how long each try may take.
const TRIES: u32 = 5;
const TRY: Duration = Duration::from_secs(60);
/// gwp-race's exit code where it has started nothing.
const FAILED: &str = "125";
const FILTER: &str = "SystemCallFilter=@system-service";
/// What stands before the line that gwp-race says is to be added.
const ADVICE: &str = "add the line ";
/// What is usual in units of servers.
const HARDENING: [&str; 14] = [
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectControlGroups=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
];

/// A filter of system calls is told with the line that opens it far enough, and then races are caught.
pub fn filter(_: &Kernel) -> Result<String> {
    let said = refusal(&[FILTER])?;
    let line = said.split_once(ADVICE).map(|(_, line)| line.trim());
    let line = line.with_context(|| format!("it does not say what to do: {said}"))?;
    // This one is not fatal, so that gwp-race finds out by the errors of calls.
    let said = refusal(&[FILTER, "SystemCallErrorNumber=EPERM"])?;
    ensure!(said.contains("gwp-race: "), "nothing is said: {said}");
    let (report, tries) = caught(&SERVER.broken(), &[FILTER, line])?;
    ensure!(
        report.races.iter().any(Race::has_lines),
        "without lines: {:?}",
        report.races
    );
    Ok(format!(
        "refused, with the line to add; with that: caught{}",
        told(tries)
    ))
}

/// What gwp-race says where it starts nothing.
fn refusal(lines: &[&str]) -> Result<String> {
    let service = Service::new(&SERVER, &[], By::GwpRace, lines)?;
    service.begin()?;
    let end = service.wait_for(&["failed"])?;
    let (stdout, said) = (service.stdout(), service.stderr());
    eprintln!("{lines:?}: {said}");
    ensure!(
        end.status.1 == FAILED && stdout.is_empty(),
        "{end:?}, the program printed {stdout:?}; {said}"
    );
    Ok(said)
}

/// What is usually forbidden hinders neither a catch nor silence.
pub fn hardening(_: &Kernel) -> Result<String> {
    let (report, tries) = caught(&SERVER.broken(), &HARDENING)?;
    ensure!(
        report.races.iter().any(Race::has_lines),
        "without lines: {:?}",
        report.races
    );
    let service = Service::new(&SERVER, &[], By::GwpRace, &HARDENING)?;
    service.start()?;
    service.wait_for_line("ready")?;
    is_confined(&service)?;
    thread::sleep(TRY);
    ensure!(service.end()?.state == "active", "{}", service.told()?);
    service.stop()?;
    let report = service.report()?;
    ensure!(report.races.is_empty(), "false reports: {:?}", report.races);
    let stalls = report.number("stalls");
    ensure!(stalls > 0.0, "nobody was stalled: {}", service.told()?);
    Ok(format!(
        "caught{}; without the race silent in {stalls} stalls",
        told(tries)
    ))
}

/// The restrictions are in force for the program.
fn is_confined(service: &Service) -> Result<()> {
    let programs = service.programs()?;
    let [program] = programs[..] else {
        bail!("programs in the service: {programs:?}");
    };
    let program = Pid::from_raw(program.cast_signed());
    for (field, expected) in [("NoNewPrivs", "1"), ("Seccomp", "2")] {
        let value = status_field(program, field);
        ensure!(value.as_deref() == Some(expected), "{field} is {value:?}");
    }
    let mounts = |whose: &str| std::fs::read_link(format!("/proc/{whose}/ns/mnt"));
    ensure!(
        mounts(&program.to_string())? != mounts("self")?,
        "the program has everybody's mounts"
    );
    Ok(())
}

/// The report with a race of a program, and in how many tries it came.
fn caught(program: &Program, lines: &[&str]) -> Result<(Report, u32)> {
    let mut said = String::new();
    for tries in 1..=TRIES {
        let service = Service::new(program, &[], By::GwpRace, lines)?;
        service.start()?;
        let is_caught = service.wait_for_race(TRY)?;
        service.stop()?;
        let report = service.report()?;
        if is_caught {
            return Ok((report, tries));
        }
        said = service.told()?;
        eprintln!("{lines:?}, try {tries}: {said}");
    }
    bail!("not caught in {TRIES} tries; the last one: {said}")
}

fn told(tries: u32) -> String {
    match tries {
        1 => String::new(),
        _ => format!(" in {tries} tries"),
    }
}
