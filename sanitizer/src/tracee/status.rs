//! One read of `/proc/PID/status`: identity, tracer, signal masks, capabilities, seccomp. The
//! format is proc_pid_status(5).

use nix::sys::signal::Signal;
use nix::unistd::{Pid, Uid};

use super::error::TargetError;
use super::procfs;
use super::signals::{Disposition, SignalSet};
use crate::kernel::rights::FileRights;

/// How the system calls of a thread are filtered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seccomp {
    /// Not at all (also where the kernel knows no seccomp).
    #[default]
    Disabled,
    /// Only read, write, _exit and sigreturn.
    Strict,
    /// By a BPF filter.
    Filter,
}

/// What `/proc/PID/status` says of one thread and its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The thread's name (`comm`), at most 15 bytes, undecodable ones replaced.
    pub name: String,
    /// Its state: `R`, `S`, `D`, `T`, `t`, `Z`, `X`, ...
    pub state: char,
    /// Its process.
    pub tgid: Pid,
    /// The thread.
    pub tid: Pid,
    /// The process's parent.
    pub parent: Pid,
    /// The process that traces it.
    pub tracer: Option<Pid>,
    /// Its real user.
    pub uid: Uid,
    /// Its effective user.
    pub effective_uid: Uid,
    /// Its id in each pid namespace, from the reader's to its own.
    pub namespace_tids: Vec<Pid>,
    /// How many threads the process has.
    pub threads: u32,
    /// Signals that the thread blocks.
    pub blocked: SignalSet,
    /// Signals that the process ignores.
    pub ignored: SignalSet,
    /// Signals that the process handles.
    pub caught: SignalSet,
    /// Signals that wait for the thread.
    pub pending: SignalSet,
    /// Signals that wait for the process.
    pub process_pending: SignalSet,
    /// Effective capabilities: bit N is capability N of linux/capability.h.
    pub capabilities: u64,
    /// Whether it can gain no privileges by exec.
    pub no_new_privs: bool,
    /// How its system calls are filtered.
    pub seccomp: Seccomp,
}

impl Status {
    /// Reads the status of a process's main thread.
    pub fn of_process(pid: Pid) -> Result<Self, TargetError> {
        Self::parse(pid, &procfs::read(pid, pid, "status")?)
    }

    /// Reads the status of one thread of a process.
    pub fn of_thread(pid: Pid, tid: Pid) -> Result<Self, TargetError> {
        Self::parse(pid, &procfs::read(pid, pid, &format!("task/{tid}/status"))?)
    }

    /// What the process does with a signal.
    #[must_use]
    pub fn disposition(&self, signal: Signal) -> Disposition {
        if self.caught.contains(signal) {
            Disposition::Caught
        } else if self.ignored.contains(signal) {
            Disposition::Ignored
        } else {
            Disposition::Default
        }
    }

    /// Parses the text of a status file. `pid` is for messages.
    pub fn parse(pid: Pid, text: &[u8]) -> Result<Self, TargetError> {
        let text = String::from_utf8_lossy(text);
        let fields = Fields { pid, text: &text };
        let tracer = fields.pid("TracerPid")?;
        Ok(Self {
            name: unescape(fields.required("Name")?),
            state: fields.required("State")?.chars().next().unwrap_or('?'),
            tgid: fields.pid("Tgid")?,
            tid: fields.pid("Pid")?,
            parent: fields.pid("PPid")?,
            tracer: (tracer.as_raw() != 0).then_some(tracer),
            uid: Uid::from_raw(fields.number("Uid", 0)?),
            effective_uid: Uid::from_raw(fields.number("Uid", 1)?),
            namespace_tids: fields
                .optional("NSpid")
                .unwrap_or_default()
                .split_whitespace()
                .filter_map(|id| id.parse().ok().map(Pid::from_raw))
                .collect(),
            threads: fields.number("Threads", 0)?,
            blocked: fields.signals("SigBlk")?,
            ignored: fields.signals("SigIgn")?,
            caught: fields.signals("SigCgt")?,
            pending: fields.signals("SigPnd")?,
            process_pending: fields.signals("ShdPnd")?,
            capabilities: fields.mask("CapEff")?,
            no_new_privs: fields.optional("NoNewPrivs") == Some("1"),
            seccomp: match fields.optional("Seccomp") {
                Some("1") => Seccomp::Strict,
                Some("2") => Seccomp::Filter,
                _ => Seccomp::Disabled,
            },
        })
    }
}

/// By what a thread asks for files, of the text of its status file. `pid` is for messages.
pub(super) fn file_rights(pid: Pid, text: &[u8]) -> Result<FileRights, TargetError> {
    /// The columns of `Uid` and `Gid`: real, effective, saved, of files.
    const OF_FILES: usize = 3;
    let text = String::from_utf8_lossy(text);
    let fields = Fields { pid, text: &text };
    let groups = fields.required("Groups")?;
    let numbers: Result<_, _> = groups.split_whitespace().map(str::parse).collect();
    Ok(FileRights {
        user: fields.number("Uid", OF_FILES)?,
        group: fields.number("Gid", OF_FILES)?,
        groups: numbers.map_err(|_| fields.malformed("Groups", groups))?,
        capabilities: fields.mask("CapEff")?,
    })
}

/// The `Name:\tvalue` lines of the file.
struct Fields<'a> {
    pid: Pid,
    text: &'a str,
}

impl<'a> Fields<'a> {
    fn optional(&self, name: &str) -> Option<&'a str> {
        self.text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            // The name of a thread may begin or end with blanks; one tab always precedes it.
            .map(|value| value.strip_prefix('\t').unwrap_or(value))
    }

    fn malformed(&self, what: &'static str, text: &str) -> TargetError {
        let path = procfs::path(self.pid, "status");
        TargetError::Malformed {
            pid: self.pid,
            path,
            what,
            text: text.to_owned(),
        }
    }

    fn required(&self, name: &'static str) -> Result<&'a str, TargetError> {
        self.optional(name)
            .ok_or_else(|| self.malformed("lack of a field", name))
    }

    fn number<T: std::str::FromStr>(
        &self,
        name: &'static str,
        column: usize,
    ) -> Result<T, TargetError> {
        let value = self.required(name)?;
        value
            .split_whitespace()
            .nth(column)
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| self.malformed(name, value))
    }

    fn pid(&self, name: &'static str) -> Result<Pid, TargetError> {
        self.number(name, 0).map(Pid::from_raw)
    }

    fn mask(&self, name: &'static str) -> Result<u64, TargetError> {
        let value = self.required(name)?;
        u64::from_str_radix(value.trim(), 16).map_err(|_| self.malformed(name, value))
    }

    fn signals(&self, name: &'static str) -> Result<SignalSet, TargetError> {
        self.mask(name).map(SignalSet)
    }
}

/// The kernel escapes line feeds and backslashes in a thread's name here (unlike in `comm`).
fn unescape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\\' => match rest.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::testing::Child;

    /// Check masks and names as a real process set them.
    #[test]
    fn live_process() {
        let child = Child::run(
            "#include <signal.h>\n#include <stdio.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n\
             void handler(int s) {}\n\
             int main() { sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR2);\n\
               sigprocmask(SIG_BLOCK, &set, 0); signal(SIGUSR1, handler);\n\
               signal(SIGTRAP, SIG_IGN); prctl(PR_SET_NAME, \" a:\\\\ )\\nb\");\n\
               puts(\"ready\"); fflush(stdout); pause(); }",
            &[],
        );
        child.wait_for_line("ready");
        child.wait_for_state('S');
        let status = Status::of_process(child.pid()).unwrap();
        assert_eq!(status.name, " a:\\ )\nb");
        assert_eq!(status.state, 'S');
        assert_eq!((status.tgid, status.tid), (child.pid(), child.pid()));
        assert_eq!(status.parent, Pid::this());
        assert_eq!(status.namespace_tids.first(), Some(&child.pid()));
        assert_eq!(status.threads, 1);
        assert_eq!(status.uid, Uid::current());
        assert_eq!(status.disposition(Signal::SIGUSR1), Disposition::Caught);
        assert_eq!(status.disposition(Signal::SIGTRAP), Disposition::Ignored);
        assert_eq!(status.disposition(Signal::SIGTERM), Disposition::Default);
        assert!(status.blocked.contains(Signal::SIGUSR2));
        assert!(!status.blocked.contains(Signal::SIGUSR1));
        assert_eq!(status.tracer, None);
        assert_eq!(Status::of_thread(child.pid(), child.pid()).unwrap(), status);
    }

    /// Check that the tracer of a process is seen.
    #[test]
    fn tracer() {
        let child = Child::run("#include <unistd.h>\nint main() { pause(); }", &[]);
        nix::sys::ptrace::seize(child.pid(), nix::sys::ptrace::Options::empty()).unwrap();
        let status = Status::of_process(child.pid()).unwrap();
        assert!(status.tracer.is_some());
    }

    /// Check that a file cut at any place is an error or sensible, never a panic.
    #[test]
    fn cut_short() {
        let text = std::fs::read("/proc/self/status").unwrap();
        let me = Pid::this();
        assert_eq!(Status::parse(me, &text).unwrap().tgid, me);
        for len in 0..text.len() {
            let _ = Status::parse(me, &text[..len]);
        }
        let error = Status::parse(me, b"Name:\tx\n").unwrap_err().to_string();
        assert!(error.contains("TracerPid"), "{error}");
        let error = Status::parse(me, b"TracerPid:\tmany\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("many"), "{error}");
    }
}
