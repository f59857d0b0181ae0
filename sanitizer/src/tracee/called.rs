//! Processes by name, as `/proc` tells of them at one moment: by the time that somebody does something with one of them it may have ended.

use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use super::error::TargetError;
use super::process::{executed, without_mark};
use super::threads::{self, Stat, live_thread};

/// What the kernel keeps of the name of a process, bytes (`TASK_COMM_LEN` of `include/linux/sched.h`, less the zero).
const LONGEST: usize = 15;

/// A process of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// Its id.
    pub pid: Pid,
    /// When it was started, in clock ticks after boot.
    pub start_ticks: u64,
    /// The file that it executes; `None` where it may not be looked into.
    pub program: Option<PathBuf>,
}

/// The processes that are called so, by their ids: those whose program's file has that name, and those that are named so themselves (of a longer name that is
/// its beginning). Neither threads of the kernel are among them, nor what has ended, nor the calling process.
///
/// # Errors
/// Fails where `/proc` cannot be read.
pub fn called(name: &str) -> Result<Vec<Called>, TargetError> {
    let proc = Path::new("/proc");
    let own = Pid::this();
    let fail = |error| TargetError::from_io(own, proc, error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(proc).map_err(fail)? {
        let file = entry.map_err(fail)?.file_name();
        let id = file.to_str().and_then(|name| name.parse().ok());
        let Some(pid) = id.map(Pid::from_raw).filter(|&pid| pid != own) else {
            continue;
        };
        // Whoever ends meanwhile is none of them.
        found.extend(is_called(pid, name));
    }
    found.sort_unstable_by_key(|process: &Called| process.pid);
    Ok(found)
}

/// A process, if it is called so.
fn is_called(pid: Pid, name: &str) -> Option<Called> {
    let stat = Stat::read(pid, pid).ok()?;
    if stat.is_kernels || live_thread(pid).is_err() {
        return None;
    }
    let program = executed(pid).ok();
    let of_file = program.as_deref().and_then(file_name);
    let is_so = of_file.as_deref() == Some(name)
        || threads::name(pid, pid).is_ok_and(|comm| comm.as_bytes() == kept(name));
    is_so.then_some(Called {
        pid,
        start_ticks: stat.start_ticks,
        program,
    })
}

/// What the kernel keeps of a name.
fn kept(name: &str) -> &[u8] {
    let bytes = name.as_bytes();
    bytes.get(..LONGEST).unwrap_or(bytes)
}

/// The name of a program's file, which may have been deleted.
fn file_name(program: &Path) -> Option<String> {
    let name = without_mark(program).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::tracee::testing::{Child, compile};

    const WAITS: &str = "#include <unistd.h>\nint main() { pause(); }";

    fn pids(name: &str) -> Vec<Pid> {
        let found = called(name).unwrap();
        found.into_iter().map(|process| process.pid).collect()
    }

    /// A program of that name.
    fn start(name: &str, source: &str) -> Child {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), name, source, &["-pthread"]);
        Child::start(dir, Command::new(program))
    }

    /// Check that a process is found by the name of its file, also where that is long or deleted, and by the name that it has given itself.
    #[test]
    fn by_either_name() {
        let long = "gwp-called-by-a-long-name";
        let child = start(long, WAITS);
        child.wait_for_state('S');
        let found = called(long).unwrap();
        let [process] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(process.pid, child.pid());
        assert!(process.program.as_ref().unwrap().ends_with(long));
        std::fs::remove_file(child.dir().join(long)).unwrap();
        assert_eq!(pids(long), [child.pid()]);
        // Others with the same beginning are other ones.
        assert_eq!(pids(&long[..20]), [child.pid()], "the kernel keeps no more");
        assert_eq!(pids(&long[..14]), []);

        let renamed = start(
            "gwp-before",
            "#include <stdio.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n\
             int main() { prctl(PR_SET_NAME, \"gwp-after\"); puts(\"ready\"); fflush(stdout); pause(); }",
        );
        renamed.wait_for_line("ready");
        assert_eq!(pids("gwp-after"), [renamed.pid()]);
        assert_eq!(pids("gwp-before"), [renamed.pid()]);
    }

    /// Check that several are told in the order of their ids, that a process whose first thread has ended is one of them, and a zombie is none; and that neither
    /// threads of the kernel are found nor who looks.
    #[test]
    fn who_is_found() {
        let name = "gwp-several";
        let one = start(name, WAITS);
        let headless = start(
            name,
            "#include <pthread.h>\n#include <unistd.h>\n\
             void* wait(void* p) { pause(); return 0; }\n\
             int main() { pthread_t t; pthread_create(&t, 0, wait, 0); pthread_exit(0); }",
        );
        let mut ended = start(name, "int main() { return 0; }");
        headless.wait_for_state('Z');
        ended.wait_for_state('Z');
        let mut expected = vec![one.pid(), headless.pid()];
        expected.sort_unstable();
        assert_eq!(pids(name), expected);
        ended.reap();
        assert_eq!(pids(name), expected);
        assert_eq!(pids("kthreadd"), []);
        let own = std::env::current_exe().unwrap();
        let own = own.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!pids(&own).contains(&Pid::this()));
    }
}
