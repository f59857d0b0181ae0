//! The processes below one that was started.

use std::{fs, path::Path};

use nix::unistd::Pid;

/// The children of a process with one thread that forks: its first.
pub fn of(pid: Pid) -> Vec<Pid> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok().map(Pid::from_raw))
        .collect()
}

/// Those of them that execute this file. gwp-race has other children too: its own helpers.
pub fn executing(pid: Pid, file: &Path) -> Vec<Pid> {
    let mut children = of(pid);
    children.retain(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == file));
    children
}

/// The name of a process, unless it has ended.
pub fn name(pid: Pid) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// A process, its children, theirs, and so on.
pub fn family(top: Pid) -> Vec<Pid> {
    let mut known = vec![top];
    let mut next = 0;
    while let Some(&pid) = known.get(next) {
        next += 1;
        known.extend(of(pid));
    }
    known
}
