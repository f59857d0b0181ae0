//! The processes below one that was started.

use std::{fs, path::Path};

use nix::unistd::Pid;

/// The children of a process, whichever of its threads has started them.
pub fn of(pid: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let mut children = Vec::new();
    for thread in threads.into_iter().flatten().flatten() {
        let list = fs::read_to_string(thread.path().join("children"));
        let list = list.unwrap_or_default();
        let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
        children.extend(pids.map(Pid::from_raw));
    }
    children
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Check that a child of a thread that is not the first one is found.
    #[test]
    fn of_any_thread() {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let (is_found, mut child) = std::thread::scope(|scope| {
            let found = scope.spawn(|| {
                let child = command.spawn().unwrap();
                let pid = Pid::from_raw(child.id().cast_signed());
                (of(Pid::this()).contains(&pid), child)
            });
            found.join().unwrap()
        });
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_found);
    }
}
