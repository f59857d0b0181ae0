//! The daemon that watches them, with a configuration and files of its own.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use super::interrupt;
use crate::steps::shown;

/// How long it may take to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// What the configuration says, in percent.
#[derive(Clone, Debug, clap::Args)]
pub struct Budgets {
    /// What all of gwp-race may cost the machine, percent of its CPU time.
    #[arg(long, default_value_t = 1.0)]
    pub host_budget: f64,
    /// What it may cost a process in the long run, percent of its CPU time.
    #[arg(long, default_value_t = 1.0)]
    pub process_budget: f64,
    /// The same while it is watched.
    #[arg(long, default_value_t = 5.0)]
    pub lease_budget: f64,
    /// Pressure of processors above which nobody is watched, percent.
    #[arg(long, default_value_t = 80.0)]
    pub cpu_pressure: f64,
}

/// See the module. It is ended when this is dropped.
pub struct Daemon {
    child: Child,
    gwp_race: PathBuf,
    config: PathBuf,
    log: PathBuf,
    /// When it was started.
    pub began: SystemTime,
}

impl Daemon {
    /// Starts one that watches the programs whose names in their folder begin like this, with its files in a folder of ours.
    pub fn start(
        gwp_race: &Path,
        budgets: &Budgets,
        programs: &Path,
        folder: &Path,
    ) -> Result<Self> {
        let config = folder.join("fleet.toml");
        fs::write(&config, configuration(budgets, programs, folder))?;
        let log = folder.join("log");
        let mut command = Command::new(gwp_race);
        command
            .args(["fleet", "--log", "json", "--config"])
            .arg(&config);
        command.process_group(0).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(File::create(&log)?);
        let began = SystemTime::now();
        let child = command.spawn();
        let child = child.with_context(|| format!("cannot start {}", shown(&command)))?;
        Ok(Self {
            child,
            gwp_race: gwp_race.to_owned(),
            config,
            log,
            began,
        })
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// What it does.
    pub fn status(&self) -> Result<Value> {
        Ok(serde_json::from_str(
            &self.ask(&["status", "--format", "json"])?,
        )?)
    }

    /// Has it pause, or go on.
    pub fn pause(&self, is_to_pause: bool) -> Result<()> {
        self.ask(&[if is_to_pause { "pause" } else { "resume" }])
            .map(drop)
    }

    fn ask(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.gwp_race);
        command
            .arg("fleet")
            .args(words)
            .arg("--config")
            .arg(&self.config);
        let output = command.stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {said}", shown(&command));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What it has told until now.
    pub fn told(&self) -> Result<String> {
        fs::read_to_string(&self.log).with_context(|| format!("reading {}", self.log.display()))
    }

    /// Asks it to end, and waits until it has; what it has told.
    pub fn end(mut self) -> Result<String> {
        kill(self.pid(), Signal::SIGTERM)?;
        let limit = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                let told = self.told()?;
                ensure!(
                    status.success(),
                    "gwp-race fleet ended with {status}: {told}"
                );
                return Ok(told);
            }
            if Instant::now() > limit {
                bail!("gwp-race fleet does not end");
            }
            interrupt::wait_until(Instant::now() + POLL)?;
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Its id may be another process's after it was waited for.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill(self.pid(), Signal::SIGTERM);
            let limit = Instant::now() + PATIENCE;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < limit {
                std::thread::sleep(POLL);
            }
            // One that hangs lets all go as well.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The text of the configuration (docs/fleet.md).
fn configuration(budgets: &Budgets, programs: &Path, folder: &Path) -> String {
    let Budgets {
        host_budget,
        process_budget,
        lease_budget,
        cpu_pressure,
    } = budgets;
    let (programs, folder) = (programs.display(), folder.display());
    format!(
        "[budget]
host = \"{host_budget}%\"
process = \"{process_budget}%\"
lease = \"{lease_budget}%\"
[limits]
cpu_pressure = \"{cpu_pressure}%\"
[export]
store = \"sqlite:{folder}/races.db\"
[control]
socket = \"{folder}/run/fleet.sock\"
pause = \"{folder}/pause\"
[[rule]]
watch = true
exe = \"{programs}\"
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what is wanted is in the text.
    #[test]
    fn the_configuration() {
        let budgets = Budgets {
            host_budget: 1.0,
            process_budget: 0.5,
            lease_budget: 5.0,
            cpu_pressure: 80.0,
        };
        let text = configuration(&budgets, Path::new("/build/fleet-*"), Path::new("/tmp/x"));
        for line in [
            "host = \"1%\"",
            "process = \"0.5%\"",
            "lease = \"5%\"",
            "exe = \"/build/fleet-*\"",
            "socket = \"/tmp/x/run/fleet.sock\"",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }
}
