//! A gwp-race that has begun to watch: how soon, and what it needs.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{children, steps::shown};

/// It is ended when this is dropped.
pub struct Started {
    child: Child,
    /// From its start to the moment that it said that it watches.
    pub seconds: f64,
}

impl Started {
    /// Starts one with these arguments, of which one must be `--verbose`.
    pub fn new(command: &mut Command) -> Result<Self> {
        let start = Instant::now();
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", shown(command)))?;
        let said = BufReader::new(child.stderr.take().context("its standard error")?);
        let mut started = Self {
            child,
            seconds: f64::INFINITY,
        };
        let mut lines = Vec::new();
        for line in said.lines() {
            let line = line?;
            if line.contains("watching process") {
                started.seconds = start.elapsed().as_secs_f64();
                return Ok(started);
            }
            lines.push(line);
        }
        bail!("{} does not watch: {}", shown(command), lines.join("; "))
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// MiB of memory that its processes have, together; what they share counts once.
    pub fn mib(&self) -> f64 {
        self.kib("smaps_rollup", "Pss:").iter().sum::<f64>() / 1024.0
    }

    /// MiB that the largest of its processes had at most.
    pub fn peak_mib(&self) -> f64 {
        let peaks = self.kib("status", "VmHWM:");
        peaks.into_iter().fold(0.0, f64::max) / 1024.0
    }

    /// A field in a file of `/proc` of each of its processes.
    fn kib(&self, file: &str, field: &str) -> Vec<f64> {
        children::family(self.pid())
            .into_iter()
            .filter(|&pid| children::name(pid).is_some_and(|name| name.starts_with("gwp-race")))
            .filter_map(|pid| {
                let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
                let line = text.lines().find_map(|line| line.strip_prefix(field))?;
                line.split_whitespace().next()?.parse().ok()
            })
            .collect()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // After `run` the program gets it as well; it is ours.
        let _ = kill(self.pid(), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
