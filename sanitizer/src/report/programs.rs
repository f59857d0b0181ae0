//! Which programs were watched: the files that processes executed, and how many processes did.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::hex::digits;

/// So many different ones are told; a build executes thousands that it has just made.
const MOST: usize = 64;

/// A program that was watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatchedProgram {
    /// The executable's path as the target sees it.
    pub exe: String,
    /// The executable's GNU build id in hexadecimal.
    pub build_id: Option<String>,
    /// How many processes executed it while they were watched.
    pub processes: u64,
}

/// A file by its path, and the build id where it has one.
type File = (String, Option<String>);

/// The programs of a session.
#[derive(Debug, Default)]
pub struct Programs {
    processes: BTreeMap<File, u64>,
    /// What each process executes.
    executed: HashMap<u32, File>,
}

impl Programs {
    /// A process executes this file; told as often as one likes. Of an unknown file the path is empty, and it is left out. Returns the program if it is one of those that are told, and is
    /// watched for the first time.
    pub fn add(&mut self, pid: u32, exe: &str, build_id: &[u8]) -> Option<WatchedProgram> {
        let build_id = (!build_id.is_empty()).then(|| digits(build_id));
        let file = (exe.to_owned(), build_id);
        if exe.is_empty() || self.executed.get(&pid) == Some(&file) {
            return None;
        }
        let is_new = !self.processes.contains_key(&file);
        let is_told = !is_new || self.processes.len() < MOST;
        if is_told {
            *self.processes.entry(file.clone()).or_default() += 1;
        }
        self.executed.insert(pid, file.clone());
        let (exe, build_id) = file;
        (is_new && is_told).then_some(WatchedProgram {
            exe,
            build_id,
            processes: 1,
        })
    }

    /// A process has ended: its id may be another one's from now on.
    pub fn forget(&mut self, pid: u32) {
        self.executed.remove(&pid);
    }

    /// All of them, by their paths.
    #[must_use]
    pub fn list(&self) -> Vec<WatchedProgram> {
        let all = self.processes.iter();
        all.map(|((exe, build_id), &processes)| WatchedProgram {
            exe: exe.clone(),
            build_id: build_id.clone(),
            processes,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that processes are counted once for each program that they execute, that an id which is used again counts anew, and that there is an end.
    #[test]
    fn programs_are_counted() {
        let mut programs = Programs::default();
        let first = programs.add(1, "/bin/server", &[0xab]).unwrap();
        assert_eq!(first.build_id.as_deref(), Some("ab"));
        assert_eq!(programs.add(1, "/bin/server", &[0xab]), None);
        assert_eq!(programs.add(2, "/bin/server", &[0xab]), None);
        programs.add(2, "/bin/other", &[]);
        programs.add(3, "", &[]);
        programs.forget(1);
        programs.add(1, "/bin/server", &[0xab]);
        programs.add(4, "/bin/server", &[0xcd]);
        let program = |exe: &str, build_id: Option<&str>, processes| WatchedProgram {
            exe: exe.to_owned(),
            build_id: build_id.map(str::to_owned),
            processes,
        };
        let expected = [
            program("/bin/other", None, 1),
            program("/bin/server", Some("ab"), 3),
            program("/bin/server", Some("cd"), 1),
        ];
        assert_eq!(programs.list(), expected);
        for pid in 10..1000 {
            programs.add(pid, &format!("/tmp/test{pid}"), &[]);
        }
        assert_eq!(programs.list().len(), MOST);
        programs.add(5, "/bin/other", &[]);
        let other = programs.list().swap_remove(0);
        assert_eq!(other, program("/bin/other", None, 2));
    }
}
