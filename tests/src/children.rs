//! Processes that a test starts end with the test, whatever happens to it: panics too.

use std::{
    fs,
    path::Path,
    process::{Child, ExitStatus},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// How often a child is asked whether it has ended.
const POLL: Duration = Duration::from_millis(10);

/// A child that is killed with all its descendants when this is dropped.
pub struct Guarded(Child);

impl Guarded {
    /// Guards a child.
    #[must_use]
    pub const fn new(child: Child) -> Self {
        Self(child)
    }

    /// The child's process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        // Process ids are below 2^22.
        Pid::from_raw(self.0.id() as i32)
    }

    /// The child.
    pub const fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// Fails where waitpid does.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Fails if it does not end in time.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if start.elapsed() > limit {
                bail!("process {} has not ended within {limit:?}", self.pid());
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        // Found before the killing: orphans are no longer known as ours.
        for pid in descendants(self.pid()) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All living descendants of a process.
#[must_use]
pub fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut known = vec![ancestor];
    let mut next = 0;
    while let Some(parent) = known.get(next) {
        known.extend(children(*parent));
        next += 1;
    }
    known.split_off(1)
}

fn children(parent: Pid) -> Vec<Pid> {
    // A child belongs to the thread that has forked it.
    let threads = fs::read_dir(format!("/proc/{parent}/task"))
        .into_iter()
        .flatten()
        .flatten();
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok().map(Pid::from_raw))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The living descendant of this name (`comm`), if there is one.
#[must_use]
pub fn named(ancestor: Pid, name: &str) -> Option<Pid> {
    descendants(ancestor)
        .into_iter()
        .find(|&pid| status_field(pid, "Name").as_deref() == Some(name))
}

/// Tells the processes of one test from those of the others that run beside it: it is in their environment.
#[derive(Clone, Debug)]
pub struct Mark(pub(crate) String);

impl Default for Mark {
    fn default() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed).to_string())
    }
}

impl Mark {
    pub(crate) const VARIABLE: &str = "GWP_RACE_TEST";

    /// A living process of this name that bears the mark, if there is one.
    #[must_use]
    pub fn process(&self, name: &str) -> Option<Pid> {
        let mark = format!("{}={}", Self::VARIABLE, self.0);
        descendants(Pid::this()).into_iter().find(|&pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            status_field(pid, "Name").as_deref() == Some(name)
                && variables.any(|variable| variable == mark.as_bytes())
        })
    }
}

/// The threads of a process; none of one that is gone.
pub fn threads(pid: Pid) -> impl Iterator<Item = Pid> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw)
}

/// Whether a process executes this file.
#[must_use]
pub fn executes(pid: Pid, file: &Path) -> bool {
    let file = file.canonicalize().ok();
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| Some(exe) == file)
}

/// A field of `/proc/PID/status`.
#[must_use]
pub fn status_field(pid: Pid, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Check that a dropped guard takes grandchildren along.
    #[test]
    fn grandchildren_end_too() {
        let shell = Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .spawn()
            .unwrap();
        let guarded = Guarded::new(shell);
        let sleep = loop {
            if let [sleep] = descendants(guarded.pid())[..]
                && status_field(sleep, "Name").as_deref() == Some("sleep")
            {
                break sleep;
            }
            std::thread::sleep(POLL);
        };
        drop(guarded);
        // The kernel takes its time; an orphan's zombie waits for init.
        let gone =
            || status_field(sleep, "State").is_none_or(|state| state.starts_with(['Z', 'X']));
        let start = Instant::now();
        while !gone() {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "process {sleep} lives on"
            );
            std::thread::sleep(POLL);
        }
    }

    /// Check that a marked process is found, and no other.
    #[test]
    fn marks_tell_processes_apart() {
        let [one, other] = [Mark::default(), Mark::default()];
        let mut command = Command::new("sleep");
        let sleep = command.arg("60").env(Mark::VARIABLE, &one.0).spawn();
        let sleep = Guarded::new(sleep.unwrap());
        // Whoever has started it goes on before it has its name and environment.
        let start = Instant::now();
        while one.process("sleep").is_none() && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(POLL);
        }
        assert_eq!(one.process("sleep"), Some(sleep.pid()));
        assert_eq!(other.process("sleep"), None);
        assert_eq!(one.process("sh"), None);
    }

    /// Check that waiting has an end.
    #[test]
    fn waiting_is_bounded() {
        let mut sleeping = Guarded::new(Command::new("sleep").arg("60").spawn().unwrap());
        let error = sleeping.wait(Duration::from_millis(30)).unwrap_err();
        assert!(error.to_string().contains("has not ended"));
        let mut ending = Guarded::new(Command::new("true").spawn().unwrap());
        assert!(ending.wait(Duration::from_secs(60)).unwrap().success());
    }
}
