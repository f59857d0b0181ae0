//! The processes that may be watched, and which of them execute the same file.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    rc::Rc,
    time::Duration,
};

use super::who::Who;
use crate::{
    cli::pauses::Pauses,
    fleet::schedule::{BuildId, ProcessId},
    kernel::foreign::About,
};

/// A process as young as this is looked at each second: it may be gone by the next time.
const YOUNG: Duration = Duration::from_secs(60);
/// How often others are looked at, in seconds.
const LOOKS: u64 = 10;

/// Builds that are remembered: a machine on which programs are compiled has new ones all the time.
const MOST_BUILDS: usize = 4096;

/// A file, as long as it is not changed: inode, size, and when it was changed last. The device is no part of it: each container has the files of its image in an overlay of its own, which gives
/// them another one, so that one that dies and is started again would always be something new.
pub type FileId = (u64, u64, (i64, i64));

/// That of which this is known.
pub const fn file_of(about: &About) -> FileId {
    (about.inode, about.size, about.changed)
}

/// What is known of a process.
#[derive(Clone, Debug)]
pub struct Known {
    /// Who it is.
    pub who: Rc<Who>,
    /// What the scheduler calls it.
    pub process: ProcessId,
    /// The same for what it executes.
    pub build: BuildId,
    /// Since when it is known.
    pub since: Duration,
    /// For how long it was let alone until now, after it had to be released.
    pub pauses: Option<Pauses>,
    /// Leases that it has had.
    pub leases: u64,
    /// What they have cost.
    pub cost: Duration,
    /// Different races that were found in them.
    pub races: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Roster {
    processes: BTreeMap<u32, Known>,
    pids: HashMap<ProcessId, u32>,
    builds: HashMap<FileId, BuildId>,
    /// The number of the next one.
    next_build: u32,
    /// Beyond so many others, some are forgotten.
    needed_builds: usize,
    /// Those that are to be let alone as long as they live, each with when it was started.
    ignored: HashMap<u32, u64>,
    times: u64,
}

impl Roster {
    /// A process has begun, or executes another program; nothing where it is to be let alone.
    pub fn begin(&mut self, who: Who, file: FileId, now: Duration) -> Option<&Known> {
        let pid = who.pid;
        if self.ignored.get(&pid) == Some(&who.start_ticks) {
            return None;
        }
        // Of another one, which had this id.
        self.ignored.remove(&pid);
        let next = &mut self.next_build;
        let build = *self.builds.entry(file).or_insert_with(|| {
            let build = BuildId(*next);
            *next = next.wrapping_add(1);
            build
        });
        let process = ProcessId(self.times);
        self.times += 1;
        let known = Known {
            who: Rc::new(who),
            process,
            build,
            since: now,
            pauses: None,
            leases: 0,
            cost: Duration::ZERO,
            races: 0,
        };
        self.pids.insert(process, pid);
        self.processes.insert(pid, known);
        self.processes.get(&pid)
    }

    /// Forgets builds of which there are no processes, where there are too many: those which are forgotten. `is_needed`: whether something else is known of one.
    pub fn forget_builds(&mut self, is_needed: impl Fn(BuildId) -> bool) -> Vec<BuildId> {
        if self.builds.len() <= self.needed_builds + MOST_BUILDS {
            return Vec::new();
        }
        let live: HashSet<_> = self.processes.values().map(|known| known.build).collect();
        let is_over = |_: &FileId, build: &mut BuildId| !live.contains(build) && !is_needed(*build);
        let forgotten = self.builds.extract_if(is_over).map(|(_, build)| build);
        let forgotten = forgotten.collect();
        self.needed_builds = self.builds.len();
        forgotten
    }

    /// A process has ended, executes another program, or is not to be watched any more.
    pub fn end(&mut self, pid: u32) -> Option<Known> {
        let known = self.processes.remove(&pid)?;
        self.pids.remove(&known.process);
        Some(known)
    }

    /// One that is known is let alone from now on, as long as it lives; call [`Roster::end`] then.
    pub fn ignore(&mut self, who: &Who) {
        self.ignored.insert(who.pid, who.start_ticks);
    }

    /// Forgets those that were to be let alone and live no more.
    pub fn keep_ignored(&mut self, lives: impl Fn(u32, u64) -> bool) {
        self.ignored.retain(|&pid, &mut start| lives(pid, start));
    }

    /// A process by its id.
    pub fn get(&self, pid: u32) -> Option<&Known> {
        self.processes.get(&pid)
    }

    /// A process by what the scheduler calls it.
    pub fn of(&self, process: ProcessId) -> Option<&Known> {
        self.processes.get(self.pids.get(&process)?)
    }

    /// The same.
    pub fn of_mut(&mut self, process: ProcessId) -> Option<&mut Known> {
        self.processes.get_mut(self.pids.get(&process)?)
    }

    /// All of them, by their ids.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &Known> {
        self.processes.values()
    }

    /// Those whose CPU time is to be looked at in this second.
    pub fn due(&self, now: Duration) -> impl Iterator<Item = &Known> {
        self.all().filter(move |known| {
            let is_young = now.saturating_sub(known.since) <= YOUNG;
            is_young || (now.as_secs() + known.process.0).is_multiple_of(LOOKS)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, process::Command};

    use super::*;
    use crate::tracee::testing::{Child, compile};

    const FILE: FileId = (2, 3, (4, 5));
    const OTHER: FileId = (2, 3, (4, 6));

    fn who(pid: u32, start_ticks: u64) -> Who {
        Who {
            pid,
            start_ticks,
            ..Who::default()
        }
    }

    /// Check that processes of one file are one build until it changes, that each execution is a process of its own, and that none is found any more when it has ended.
    #[test]
    fn builds_and_processes() {
        let mut roster = Roster::default();
        let mut begin = |pid, file| {
            let known = roster.begin(who(pid, 1), file, Duration::ZERO).unwrap();
            (known.process, known.build)
        };
        let [one, other] = [begin(7, FILE), begin(8, FILE)];
        assert_eq!(one.1, other.1);
        assert_ne!(one.0, other.0);
        roster.end(7);
        let again = roster.begin(who(7, 1), OTHER, Duration::ZERO).unwrap();
        assert!(again.process != one.0 && again.build != one.1);
        let again = again.process;
        assert!(roster.of(one.0).is_none());
        assert_eq!(roster.of(again).unwrap().who.pid, 7);
        assert_eq!(roster.all().len(), 2);
    }

    /// Check that of many builds those are forgotten of which there are no processes and nothing else is known, and that none has the number of another one.
    #[test]
    fn builds_are_forgotten() {
        let mut roster = Roster::default();
        let file = |number| (number, 3, (4, 5));
        let mut begin = |number| {
            let known = roster.begin(who(7, 1), file(number), Duration::ZERO);
            known.unwrap().build
        };
        let builds: Vec<_> = (0..=MOST_BUILDS as u64).map(&mut begin).collect();
        let needed = builds[5];
        let forgotten = roster.forget_builds(|build| build == needed);
        assert_eq!(forgotten.len(), MOST_BUILDS - 1);
        let last = *builds.last().unwrap();
        assert!(!forgotten.contains(&needed) && !forgotten.contains(&last));
        assert!(roster.forget_builds(|_| false).is_empty());
        let mut begin = |number| {
            let known = roster.begin(who(8, 1), file(number), Duration::ZERO);
            known.unwrap().build
        };
        assert_eq!(begin(5), needed);
        assert!(!builds.contains(&begin(6)));
    }

    /// Check that processes which execute one file are of one build in whatever containers they are, although their devices differ.
    #[test]
    fn containers_share_builds() {
        const WAITS: &str = "#include <stdio.h>\n#include <unistd.h>\n\
            int main() { puts(\"ready\"); fflush(stdout); pause(); }";
        const SCRIPT: &str = "mkdir upper work merged && \
            mount -t overlay overlay -o lowerdir=\"$1\",upperdir=upper,workdir=work merged && \
            exec merged/program; echo none";
        let may_mount = Command::new("unshare").args(["--mount", "true"]).status();
        if !may_mount.is_ok_and(|status| status.success()) {
            println!("nobody may mount anything here");
            return;
        }
        let image = tempfile::tempdir().unwrap();
        compile(image.path(), "program", WAITS, &[]);
        let containers = [(); 2].map(|()| {
            let dir = tempfile::tempdir().unwrap();
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", SCRIPT, "sh"]);
            command.arg(image.path()).current_dir(dir.path());
            Child::start(dir, command)
        });
        if containers.each_ref().map(Child::read_line) != ["ready\n", "ready\n"] {
            println!("there are no overlays here");
            return;
        }
        let [one, other] = containers.each_ref().map(|child| {
            let exe = PathBuf::from(format!("/proc/{}/exe", child.pid()));
            About::at(&exe).unwrap()
        });
        assert_eq!(file_of(&one), file_of(&other));
        assert_ne!(one.device, other.device, "this test cannot fail");
    }

    /// Check that one that is to be let alone is so whatever it executes, and that another one with its id is not.
    #[test]
    fn who_is_ignored() {
        let mut roster = Roster::default();
        let begins = |roster: &mut Roster, start| {
            roster.begin(who(7, start), FILE, Duration::ZERO).is_some()
        };
        assert!(begins(&mut roster, 1));
        let known = roster.end(7).unwrap();
        roster.ignore(&known.who);
        assert!(!begins(&mut roster, 1));
        assert!(begins(&mut roster, 2));
        roster.ignore(&who(9, 1));
        roster.keep_ignored(|_, _| false);
        assert!(roster.begin(who(9, 1), FILE, Duration::ZERO).is_some());
    }

    /// Check that a young process is looked at each second, and every one in ten seconds.
    #[test]
    fn who_is_due() {
        let mut roster = Roster::default();
        for pid in 1..=20 {
            roster.begin(who(pid, 1), FILE, Duration::ZERO);
        }
        let due = |second| roster.due(Duration::from_secs(second)).count();
        assert_eq!(due(30), 20);
        let looks: Vec<_> = (100..100 + LOOKS).map(due).collect();
        assert!(looks.iter().all(|&looks| looks == 2), "{looks:?}");
    }
}
