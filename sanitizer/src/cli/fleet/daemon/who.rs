//! Who a process is, as audit lines and the status tell it.

use crate::{
    cli::fleet::survey::Found,
    fleet::{process::Kind, verdict::Reason},
    tracee::container::pod,
};

/// See the module. What is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// Its id.
    pub pid: u32,
    /// When it was started, in clock ticks after boot.
    pub start_ticks: u64,
    /// Its name, as the kernel keeps it.
    pub comm: String,
    /// The program's file, as the process sees it.
    pub exe: String,
    /// The effective user.
    pub user: u32,
    /// Its control group.
    pub cgroup: String,
    /// The id of its container.
    pub container: Option<String>,
    /// The id of its pod.
    pub pod: Option<String>,
    /// What decides that it is watched, in a word, with the line of a rule.
    pub rule: String,
}

impl Who {
    /// A process as it was found.
    pub fn of(found: &Found) -> Self {
        let (comm, exe, user, cgroup) = match &found.kind {
            Kind::Program(process) => (
                process.comm.clone(),
                process.exe.to_string_lossy().into_owned(),
                process.user,
                process.cgroup.clone(),
            ),
            _ => Default::default(),
        };
        Self {
            pid: found.pid,
            start_ticks: found.start_ticks,
            comm,
            exe,
            user,
            pod: pod(&cgroup),
            cgroup,
            container: found.container.clone(),
            rule: rule(&found.verdict.reason),
        }
    }
}

fn rule(reason: &Reason) -> String {
    match reason.rule_line() {
        Some(line) => format!("{}:{line}", reason.name()),
        None => reason.name().to_owned(),
    }
}
