//! What else one could do: an `attach` for each process that is to be watched.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::SystemTime,
};

use anyhow::{Context as _, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::interrupt;

/// MiB that each is granted: one took 18.5 (PSS), and a peak is higher.
const MIB_EACH: usize = 40;
/// Of the memory that is free so much may be taken.
const OF_FREE: usize = 2;
/// The budgets that `attach` takes, percent.
const LEAST_PERCENT: f64 = 0.01;
const MOST_PERCENT: f64 = 100.0;

/// How many the machine has memory for (`/proc/meminfo`).
pub fn affordable(meminfo: &str) -> usize {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0) / 1024 / OF_FREE / MIB_EACH
}

/// What each of so many may cost its process, percent, so that all together may cost the machine's budget. `share`: of a processor, that the process uses.
pub fn budget(host_percent: f64, processors: usize, count: usize, share: f64) -> f64 {
    let each = host_percent * processors as f64 / (count as f64 * share);
    each.clamp(LEAST_PERCENT, MOST_PERCENT)
}

/// See the module. They are ended when this is dropped.
pub struct Attaches {
    children: Vec<(Child, PathBuf)>,
    /// When the first one was started.
    pub began: SystemTime,
}

impl Attaches {
    /// Starts one for each of these processes; their reports go to a folder of ours.
    pub fn start(gwp_race: &Path, pids: &[Pid], percent: f64, folder: &Path) -> Result<Self> {
        let mut attaches = Self {
            children: Vec::new(),
            began: SystemTime::now(),
        };
        for pid in pids {
            interrupt::check()?;
            let report = folder.join(format!("attach-{pid}.json"));
            let mut command = Command::new(gwp_race);
            command.args([
                "attach",
                "--quiet",
                "--no-debuginfod",
                "--format",
                "json",
                "--output",
            ]);
            command
                .arg(&report)
                .arg("--max-overhead")
                .arg(format!("{percent}%"));
            command.arg(pid.to_string());
            command
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            let child = command.spawn().context("cannot start gwp-race attach")?;
            attaches.children.push((child, report));
        }
        Ok(attaches)
    }

    /// Their processes.
    pub fn pids(&self) -> Vec<Pid> {
        self.children.iter().map(|(child, _)| pid(child)).collect()
    }

    /// Ends them; what they have told, together.
    pub fn end(mut self) -> Result<String> {
        self.stop();
        let mut told = String::new();
        for (_, report) in &self.children {
            told += &fs::read_to_string(report)
                .with_context(|| format!("reading {}", report.display()))?;
        }
        Ok(told)
    }

    fn stop(&mut self) {
        // One that was waited for is told nothing: its id may be another process's.
        for (child, _) in &mut self.children {
            if matches!(child.try_wait(), Ok(None)) {
                let _ = kill(pid(child), Signal::SIGTERM);
            }
        }
        for (child, _) in &mut self.children {
            let _ = child.wait();
        }
    }
}

impl Drop for Attaches {
    fn drop(&mut self) {
        self.stop();
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the number that memory allows, and that the budgets add up to the machine's.
    #[test]
    fn what_is_allowed() {
        assert_eq!(
            affordable("MemTotal: 1 kB\nMemAvailable:   8192000 kB\n"),
            100
        );
        assert_eq!(affordable(""), 0);
        assert!((budget(1.0, 2, 50, 0.005) - 8.0).abs() < 1e-9);
        assert!((budget(1.0, 2, 1, 0.001) - MOST_PERCENT).abs() < 1e-9);
    }
}
