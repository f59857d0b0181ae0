//! A trial: something that gwp-race is to do on this kernel, and what came of it. The host reads a line of JSON for each
//! (`xtask/src/kernels/results.rs`).

use std::{io::Write as _, panic};

use anyhow::Result;
use serde_json::json;

use crate::{
    breakpoints, catching, ends,
    kernel::Kernel,
    rights, survival,
    systemd::{self, confinement, notify, stop},
    yama,
};

/// One of them.
pub struct Trial {
    /// Its name in `--only`.
    pub name: &'static str,
    /// What it is about: the beginning of a row of the table.
    pub about: &'static str,
    /// When it is made.
    pub when: When,
    /// What came of it, if that is as it should be; an error is a finding.
    pub run: fn(&Kernel) -> Result<String>,
}

/// On which kernels, in which states, a trial says something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// On all kernels that are claimed to work, whatever is locked down.
    Always,
    /// The same where nothing is locked down: it has nothing to do with that.
    Unlocked,
    /// The same where systemd is the first process; the others are made where it is not.
    Systemd,
    /// On kernels that are too old, once.
    TooOld,
}

impl When {
    fn is_now(self, kernel: &Kernel) -> bool {
        let is_unlocked = kernel.lockdown == "none";
        let has_its_first = kernel.has_systemd == (self == Self::Systemd);
        let has_its_version = kernel.is_claimed() == (self != Self::TooOld);
        has_its_first && has_its_version && (is_unlocked || self == Self::Always)
    }
}

const fn trial(
    name: &'static str,
    about: &'static str,
    when: When,
    run: fn(&Kernel) -> Result<String>,
) -> Trial {
    Trial {
        name,
        about,
        when,
        run,
    }
}

/// All of them, in the order in which they are made: Yama's last setting stays until the next boot.
static TRIALS: [Trial; 29] = [
    trial(
        "breakpoints",
        "100 hits of a data breakpoint and of an instruction breakpoint are counted",
        When::Always,
        breakpoints::count,
    ),
    trial("doctor", "`doctor` as root", When::Always, rights::doctor),
    trial(
        "run",
        "`run` as root: a race",
        When::Always,
        catching::run_as_root,
    ),
    trial(
        "silent",
        "`run` as root: no race, under a mutex",
        When::Always,
        catching::silent_twin,
    ),
    trial(
        "attach",
        "`attach` as root: a race",
        When::Always,
        catching::attach_as_root,
    ),
    trial(
        "processors",
        "`run` as root: a race of 12 threads (watched by processor)",
        When::Unlocked,
        catching::many_threads,
    ),
    trial(
        "delivery",
        "what stops threads",
        When::Always,
        catching::delivery,
    ),
    trial(
        "ends",
        "exit codes and signals pass through `run`",
        When::Unlocked,
        ends::pass_through,
    ),
    trial(
        "capabilities",
        "a user with CAP_BPF and CAP_PERFMON, perf_event_paranoid 2: `run`, `attach`",
        When::Always,
        rights::two_capabilities,
    ),
    trial(
        "debian-capabilities",
        "the same, perf_event_paranoid 3",
        When::Unlocked,
        rights::two_capabilities_paranoid_3,
    ),
    trial(
        "user",
        "a user without capabilities, perf_event_paranoid 2: `run`, `attach`",
        When::Always,
        rights::paranoid_2,
    ),
    trial(
        "paranoid",
        "the same, perf_event_paranoid 3",
        When::Unlocked,
        rights::paranoid_3,
    ),
    trial(
        "no-perfmon",
        "a user with CAP_BPF alone, perf_event_paranoid 2: `run`",
        When::Unlocked,
        rights::bpf_alone,
    ),
    trial(
        "unprivileged-0",
        "a user without capabilities, unprivileged_bpf_disabled 0: `run`",
        When::Unlocked,
        |_| rights::unprivileged_bpf("0"),
    ),
    trial(
        "unprivileged-1",
        "the same, unprivileged_bpf_disabled 1",
        When::Unlocked,
        |_| rights::unprivileged_bpf("1"),
    ),
    trial(
        "survival-run",
        "kills of gwp-race at random instants, `run`",
        When::Unlocked,
        survival::run,
    ),
    trial(
        "survival-attach",
        "the same, `attach`",
        When::Unlocked,
        survival::attach,
    ),
    trial(
        "survival-without",
        "the same, `run` without eBPF",
        When::Unlocked,
        survival::without_ebpf,
    ),
    trial("yama-0", "Yama's ptrace_scope 0", When::Unlocked, |_| {
        yama::scope(0)
    }),
    trial("yama-1", "ptrace_scope 1", When::Unlocked, |_| {
        yama::scope(1)
    }),
    trial("yama-2", "ptrace_scope 2", When::Unlocked, |_| {
        yama::scope(2)
    }),
    trial("yama-3", "ptrace_scope 3", When::Unlocked, |_| {
        yama::scope(3)
    }),
    trial(
        "systemd-notify",
        "a service of systemd: `Type=notify`, `WatchdogSec=`",
        When::Systemd,
        notify::notify,
    ),
    trial(
        "systemd-stop",
        "the same: `systemctl stop`",
        When::Systemd,
        stop::as_alone,
    ),
    trial(
        "systemd-filter",
        "the same: `SystemCallFilter=@system-service`",
        When::Systemd,
        confinement::filter,
    ),
    trial(
        "systemd-hardening",
        "the same: `ProtectSystem=strict`, `NoNewPrivileges=`, `PrivateTmp=`, `MemoryDenyWriteExecute=` and others",
        When::Systemd,
        confinement::hardening,
    ),
    trial(
        "old-doctor",
        "`doctor` on a kernel that is too old",
        When::TooOld,
        rights::doctor_refuses,
    ),
    trial(
        "old-run",
        "`run` on a kernel that is too old",
        When::TooOld,
        ends::run_is_refused,
    ),
    trial(
        "old-attach",
        "`attach` on a kernel that is too old",
        When::TooOld,
        ends::attach_is_refused,
    ),
];

/// Whether a trial is meant: by its name, or by the part of it before a dash, which several have in common.
fn is_named(name: &str, filter: &str) -> bool {
    name.strip_prefix(filter)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Those that are meant, or all, as far as they say something on this kernel.
fn meant(kernel: &Kernel, filters: &[String]) -> impl Iterator<Item = &'static Trial> {
    TRIALS.iter().filter(|trial| {
        let mut names = filters.iter();
        let is_wanted = filters.is_empty() || names.any(|filter| is_named(trial.name, filter));
        is_wanted && trial.when.is_now(kernel)
    })
}

/// Prints which will be made on a kernel, and what each cannot have, because this machine does not have it either.
pub fn tell(kernel: &Kernel, filters: &[String]) {
    for trial in meant(kernel, filters) {
        let lacks = match trial.when {
            When::Systemd => systemd::lacks(),
            When::Always | When::Unlocked | When::TooOld => None,
        };
        say(&json!({"trial": trial.name, "about": trial.about, "lacks": lacks}));
    }
}

/// Makes those that are meant, or all, and prints what came of each.
pub fn run_all(filters: &[String]) {
    let kernel = Kernel::running();
    say(&json!({"lockdown": kernel.lockdown, "release": kernel.release}));
    for trial in meant(&kernel, filters) {
        say(&json!({"begun": trial.name}));
        let result = panic::catch_unwind(|| (trial.run)(&kernel));
        let (ok, found) = match result {
            Ok(Ok(found)) => (true, found),
            Ok(Err(error)) => (false, format!("{error:#}")),
            Err(_) => (false, "a panic, of which the console tells".to_owned()),
        };
        say(&json!({"trial": trial.name, "about": trial.about, "ok": ok, "found": found}));
    }
    say(&json!({"end": true}));
}

/// A line to the host; without one nobody could be told of it either.
fn say(line: &serde_json::Value) {
    println!("{line}");
    let _ = std::io::stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a trial is meant by its whole name, or by what it shares with others, and that names are given once.
    #[test]
    fn trials_are_chosen() {
        let chosen = |filter| {
            let names = TRIALS.iter().map(|trial| trial.name);
            names.filter(|name| is_named(name, filter)).count()
        };
        assert_eq!(chosen("run"), 1);
        assert_eq!(chosen("survival"), 3);
        assert_eq!(chosen("yama-3"), 1);
        assert_eq!(chosen("yam"), 0);
        for trial in &TRIALS {
            assert_eq!(chosen(trial.name), 1, "{}", trial.name);
        }
    }

    /// Check that each is made on some kernel in some state, and none of a kernel that is too old on others.
    #[test]
    fn trials_have_their_time() {
        let made = |release, lockdown, has_systemd| {
            let kernel = Kernel::new(release, lockdown, has_systemd);
            meant(&kernel, &[])
                .map(|trial| trial.name)
                .collect::<Vec<_>>()
        };
        let usual = made("6.12.117+deb13-amd64", "none", false);
        let locked = made("6.12.117+deb13-amd64", "integrity", false);
        let systemd = made("6.12.117+deb13-amd64", "none", true);
        let old = made("5.10.0-32-amd64", "none", false);
        assert!(locked.len() < usual.len());
        assert!(locked.iter().all(|name| usual.contains(name)));
        assert!(systemd.iter().all(|name| is_named(name, "systemd")));
        assert!(old.iter().all(|name| is_named(name, "old")));
        assert_eq!(usual.len() + systemd.len() + old.len(), TRIALS.len());
        assert!(made("5.10.0-32-amd64", "integrity", false).is_empty());
        assert!(made("5.10.0-32-amd64", "none", true).is_empty());
        assert!(made("6.12.117+deb13-amd64", "integrity", true).is_empty());
    }
}
