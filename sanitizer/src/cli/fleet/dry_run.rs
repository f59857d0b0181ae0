//! `gwp-race fleet --dry-run`: each process, whether it would be watched, and what decides.

use std::{collections::HashMap, path::Path, process::ExitCode};

use anyhow::Context as _;
use nix::unistd::{Uid, User};

use super::{
    config::Config,
    json::{Line, Machine, Process, write_line},
    survey::{Found, Surveyor},
};
use crate::{
    cli::{list_form::ListForm, percent::percent, stdout::written},
    fleet::{process::Kind, rollout::takes_part},
    kernel::named::read_text_within,
    reader::HeaderReader,
    report::clean::clean,
    tracee::procfs::proc_is_ours,
};

/// What a machine is known by for `rollout` (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";
/// Bytes of it at most: 32 digits and the end of the line, with room for a mistake.
const LONGEST_ID: u64 = 256;
/// The widths of the columns of users and names; longer ones push the rest aside.
const USER: usize = 10;
const NAME: usize = 24;

pub fn run(config: &Config, form: ListForm) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        proc_is_ours(),
        "/proc shows the processes of another pid namespace, or none; mount the one of this namespace: mount -t proc proc /proc"
    );
    let found = Surveyor::new(config.rules.clone(), HeaderReader::default())
        .all()
        .context("cannot read /proc")?;
    let machine = machine(&found, config.settings.rollout);
    written(|out| {
        match form {
            ListForm::Json => {
                for one in &found {
                    write_line(out, &Line::Process(line(one)))?;
                }
                write_line(out, &Line::Machine(machine))?;
            }
            ListForm::Text => {
                let text = table(&found, name_of) + &closing(&machine, config.settings.rollout);
                out.write_all(text.as_bytes())?;
            }
        }
        Ok(true)
    })
}

fn machine(found: &[Found], rollout: f64) -> Machine {
    let count = |is_one: &dyn Fn(&Found) -> bool| found.iter().filter(|one| is_one(one)).count();
    Machine {
        takes_part: takes_part_here(rollout),
        processes: count(&|one| one.kind != Kind::Kernel),
        watched: count(&|one| one.verdict.watch),
        hidden: count(&|one| one.kind == Kind::Hidden),
    }
}

/// Whether this machine is one of that share of all.
pub(super) fn takes_part_here(rollout: f64) -> bool {
    rollout >= 1.0 || own_id().is_some_and(|id| takes_part(&id, rollout))
}

/// What this machine is known by; nothing where it has no name of its own.
fn own_id() -> Option<String> {
    let text = read_text_within(Path::new(MACHINE_ID), LONGEST_ID).ok()?;
    let id = text.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

pub(super) fn line(found: &Found) -> Process<'_> {
    let reason = &found.verdict.reason;
    let program = match &found.kind {
        Kind::Program(process) => Some(process),
        _ => None,
    };
    Process {
        pid: found.pid,
        start_ticks: found.start_ticks,
        comm: program.map(|process| &*process.comm),
        exe: program.map(|process| process.exe.to_string_lossy().into_owned()),
        user: program.map(|process| process.user),
        cgroup: program.map(|process| &*process.cgroup),
        container: found.container.as_deref(),
        watch: found.verdict.watch,
        decided_by: reason.name(),
        rule_line: reason.rule_line(),
        reason: reason.told(),
    }
}

/// A process a line, those that would be watched first; threads of the kernel are left out. `name_of`: of a user.
pub(super) fn table(found: &[Found], name_of: impl Fn(u32) -> Option<String>) -> String {
    let mut names = HashMap::new();
    let mut text = String::new();
    let mut add = |pid: &str, user: &str, name: &str, verdict: &str, why: &str| {
        let line = format!("{pid:>7}  {user:<USER$}  {name:<NAME$}  {verdict:<5}  {why}\n");
        text.push_str(&line);
    };
    add("PID", "USER", "PROGRAM", "WATCH", "WHY");
    let (watched, left): (Vec<_>, Vec<_>) = found
        .iter()
        .filter(|one| one.kind != Kind::Kernel)
        .partition(|one| one.verdict.watch);
    for one in watched.into_iter().chain(left) {
        let (user, name) = match &one.kind {
            Kind::Program(process) => {
                let id = process.user;
                let user = names
                    .entry(id)
                    .or_insert_with(|| name_of(id).unwrap_or_else(|| id.to_string()));
                (user.clone(), process.exe.to_string_lossy().into_owned())
            }
            _ => ("-".to_owned(), "-".to_owned()),
        };
        let verdict = if one.verdict.watch { "yes" } else { "no" };
        let why = one.verdict.reason.told();
        let pid = one.pid.to_string();
        add(&pid, &clean(&user), &clean(&name), verdict, &clean(&why));
    }
    text
}

fn closing(machine: &Machine, rollout: f64) -> String {
    let mut text = format!(
        "{} of {} processes would be watched.\n",
        if machine.takes_part {
            machine.watched
        } else {
            0
        },
        machine.processes
    );
    if !machine.takes_part {
        text.push_str(&format!(
            "This machine takes no part: rollout is {}.\n",
            percent(rollout)
        ));
    }
    if machine.hidden > 0 {
        text.push_str(&format!(
            "{} may not be looked into: that takes root, or CAP_SYS_PTRACE.\n",
            machine.hidden
        ));
    }
    text
}

fn name_of(user: u32) -> Option<String> {
    Some(User::from_uid(Uid::from_raw(user)).ok()??.name)
}
