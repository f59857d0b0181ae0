//! The processes below a process, as `/proc` tells: for where nobody may follow them in the kernel. What
//! forks, executes and ends between two looks is not seen, nor are the children of one that was not seen
//! itself and has ended.

use std::collections::{HashMap, HashSet};

use nix::unistd::Pid;

use super::{procfs, threads};
use crate::kernel::foreign::About;

/// What a look has shown of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new, a child of `parent`.
    New {
        /// The process.
        pid: Pid,
        /// Its parent.
        parent: Pid,
    },
    /// It executes another program than at the last look.
    Executes(Pid),
    /// It has ended.
    Ended(Pid),
}

/// The program that a process executes: device and inode of its file, when it was started.
type Identity = (u64, u64, u64);

/// See the module.
#[derive(Debug, Default)]
pub struct Descendants {
    known: HashMap<Pid, Option<Identity>>,
    /// Children that were there before us.
    strangers: HashSet<Pid>,
}

impl Descendants {
    /// Follows a process and those that it forks from now on.
    pub fn follow(&mut self, pid: Pid) {
        self.strangers.extend(children(pid));
        self.known.insert(pid, identity(pid));
    }

    /// Looks for what is new.
    pub fn look(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut to_see: Vec<Pid> = self.known.keys().copied().collect();
        while let Some(pid) = to_see.pop() {
            let now = identity(pid);
            if now.is_none() {
                self.known.remove(&pid);
                changes.push(Change::Ended(pid));
                continue;
            }
            match self.known.insert(pid, now) {
                Some(before) if before != now => changes.push(Change::Executes(pid)),
                _ => {}
            }
            for child in children(pid) {
                if !self.known.contains_key(&child) && !self.strangers.contains(&child) {
                    self.known.insert(child, identity(child));
                    changes.push(Change::New {
                        pid: child,
                        parent: pid,
                    });
                    to_see.push(child);
                }
            }
        }
        changes
    }
}

/// The living children of all threads.
pub(super) fn children(pid: Pid) -> Vec<Pid> {
    let tids = threads::list(pid).unwrap_or_default();
    let of = tids.into_iter().map(|tid| threads::children(pid, tid));
    of.flatten().collect()
}

fn identity(pid: Pid) -> Option<Identity> {
    let file = About::at(&procfs::path(pid, "exe")).ok()?;
    let started = threads::Stat::read(pid, pid).ok()?.start_ticks;
    Some((file.device, file.inode, started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::testing::Child;

    /// Check that children and grandchildren are found, what they execute and that they end, but not those that
    /// were there before.
    #[test]
    fn forks_and_execs_are_found() {
        let mut child = Child::run(
            "#include <stdio.h>\n#include <sys/prctl.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
             int main() { int c; if (!fork()) { prctl(PR_SET_PDEATHSIG, 9); pause(); _exit(0); } puts(\"first\"); fflush(stdout); \
               getchar(); int p[2]; pipe(p); \
               if (!fork()) { if (!fork()) execl(\"/bin/sleep\", \"sleep\", \"100\", NULL); pause(); } \
               puts(\"second\"); fflush(stdout); pause(); }",
            &[],
        );
        child.wait_for_line("first");
        let mut descendants = Descendants::default();
        descendants.follow(child.pid());
        assert_eq!(descendants.look(), []);
        child.send_line("");
        child.wait_for_line("second");
        let (mut new, mut executes) = (HashSet::new(), HashSet::new());
        for _ in 0..2000 {
            for change in descendants.look() {
                match change {
                    Change::New { pid, .. } => drop(new.insert(pid)),
                    Change::Executes(pid) => drop(executes.insert(pid)),
                    Change::Ended(pid) => panic!("{pid}"),
                }
            }
            if new.len() == 2 && sleeps(&new) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(new.len(), 2, "{new:?}");
        assert!(
            executes.len() <= 1 && executes.is_subset(&new),
            "{executes:?}"
        );
        for &pid in &new {
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        }
    }

    /// Whether one of them executes sleep(1).
    fn sleeps(pids: &HashSet<Pid>) -> bool {
        pids.iter().any(|&pid| {
            std::fs::read_link(procfs::path(pid, "exe")).is_ok_and(|exe| exe.ends_with("sleep"))
        })
    }
}
