//! What gwp-race uses: CPU time, memory and descriptors of all its processes together.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use nix::unistd::Pid;

use super::interrupt;
use crate::children;

/// Ticks in which the kernel tells CPU time, a second: USER_HZ, as proc_pid_stat(5) has it, on x86-64.
const TICKS: f64 = 100.0;
/// How often it is looked at most.
const POLL: Duration = Duration::from_millis(250);
/// To look may take this part of the time at most: with many processes it takes long.
const LOOKS_SHARE: u32 = 20;

/// See the module. `peak`s are those of all looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    roots: Vec<Pid>,
    /// Seconds, with those of processes that have ended and were waited for.
    pub cpu_s: f64,
    /// MiB; what is shared with other processes counts as a part.
    pub peak_mib: f64,
    /// Of the first second.
    pub first_mib: f64,
    pub peak_descriptors: usize,
    pub peak_processes: usize,
}

impl Usage {
    /// Of these processes, and of those that they start.
    pub fn of(roots: Vec<Pid>) -> Self {
        Self {
            roots,
            ..Self::default()
        }
    }

    /// Looks again and again until a moment.
    pub fn watch_until(&mut self, moment: Instant) -> Result<()> {
        let begun = Instant::now();
        loop {
            let before = Instant::now();
            self.look()?;
            if begun.elapsed() <= Duration::from_secs(1) {
                self.first_mib = self.peak_mib;
            }
            if Instant::now() >= moment {
                return Ok(());
            }
            let pause = POLL.max(before.elapsed() * LOOKS_SHARE);
            interrupt::wait_until(moment.min(Instant::now() + pause))?;
        }
    }

    /// Looks once. A root that has ended is an error: gwp-race is to run.
    pub fn look(&mut self) -> Result<()> {
        let (mut cpu_s, mut kib, mut descriptors, mut processes) = (0.0, 0.0, 0, 0);
        for &root in &self.roots {
            let gone = || format!("gwp-race (process {root}) has ended");
            let stat = fs::read_to_string(format!("/proc/{root}/stat"));
            let stat = stat.with_context(gone)?;
            // One that was not waited for has no memory any more.
            anyhow::ensure!(!stat.contains(") Z "), gone());
            for pid in children::family(root) {
                // Others may end at any time; then their parents have what they have used.
                let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
                let Ok(stat) = read("stat") else { continue };
                cpu_s += cpu_seconds(&stat).unwrap_or(0.0);
                kib += pss_kib(&read("smaps_rollup").unwrap_or_default()).unwrap_or(0.0);
                let files = fs::read_dir(format!("/proc/{pid}/fd"));
                descriptors += files.map_or(0, Iterator::count);
                processes += 1;
            }
        }
        // A process that ends between the looks at it and at its parent is missing once.
        self.cpu_s = self.cpu_s.max(cpu_s);
        self.peak_mib = self.peak_mib.max(kib / 1024.0);
        self.peak_descriptors = self.peak_descriptors.max(descriptors);
        self.peak_processes = self.peak_processes.max(processes);
        Ok(())
    }
}

/// CPU time of a process and of its children that it has waited for (proc_pid_stat(5), fields 14 to 17).
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name, which may hold anything, is in parentheses.
    let (_, fields) = stat.rsplit_once(") ")?;
    let times: Vec<f64> = fields
        .split(' ')
        .skip(11)
        .take(4)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    (times.len() == 4).then(|| times.iter().sum::<f64>() / TICKS)
}

/// The proportional set size in `smaps_rollup`.
fn pss_kib(rollup: &str) -> Option<f64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the kernel's forms, whatever a process calls itself, and on this process.
    #[test]
    fn forms() {
        let stat = "7 (a) b ) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 20 30 20 0 1 0 99 1 1";
        assert_eq!(cpu_seconds(stat), Some(2.5));
        assert_eq!(cpu_seconds("7 (a) S 1"), None);
        let rollup = "00400000-7ffe ---p 00000000 00:00 0 [rollup]\nRss: 900 kB\nPss:    321 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(pss_kib(rollup), Some(321.0));
        let mut usage = Usage::of(vec![Pid::this()]);
        usage.look().unwrap();
        assert!(usage.peak_mib > 0.1 && usage.peak_descriptors > 0 && usage.peak_processes > 0);
        let mut nobody = Usage::of(vec![Pid::from_raw(i32::MAX)]);
        assert!(nobody.look().is_err());
    }
}
