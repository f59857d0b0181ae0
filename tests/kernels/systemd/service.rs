//! A service of systemd, by itself or under `gwp-race run`: written, started, asked, stopped, and gone when it is dropped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use gwp_race_tests::{
    Configuration, Program, Report, binary::gwp_race, chaos::target::waited_for, compile,
};

use super::SYSTEMCTL;

/// There is one at a time.
const UNIT: &str = "server.service";
/// It is outside the source tree, which `PrivateTmp=` may hide.
const EXECUTABLE: &str = "/usr/local/bin/server";
/// The service's own directory, also where everything else is read-only.
const STATE: &str = "/var/lib/server";
const REPORT: &str = "/var/lib/server/report.json";
const STDOUT: &str = "/run/server.stdout";
const STDERR: &str = "/run/server.stderr";
const FILE: &str = "/run/systemd/system/server.service";
/// Nothing is spared; `%` is a sign of systemd's own. Of a sample each millisecond an emulator would come to nothing else.
const SAMPLING: [&str; 4] = ["--sample-period", "10ms", "--max-overhead", "100%%"];
/// How long a state may be waited for. An emulator is slow.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);

/// Whether gwp-race watches the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Itself,
    GwpRace,
}

/// See the module.
pub struct Service(());

/// What is left of a service that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// `active`, `inactive`, `failed`.
    pub state: String,
    /// `success`, `exit-code`, `signal`, `watchdog` and others.
    pub result: String,
    /// Exit code or signal of the main process, with which of them it is.
    pub status: (String, String),
}

impl Service {
    /// Writes one; `lines` belong into its section `[Service]`.
    pub fn new(program: &Program, words: &[&str], by: By, lines: &[&str]) -> Result<Self> {
        let built = compile::program(program, Configuration::USUAL)?;
        fs::create_dir_all(Path::new(EXECUTABLE).parent().unwrap_or(Path::new("/")))?;
        let service = Self(());
        fs::copy(&built, EXECUTABLE).with_context(|| EXECUTABLE.to_owned())?;
        for file in [STDOUT, STDERR, REPORT] {
            let _ = fs::remove_file(file);
        }
        let mut command = Vec::new();
        if by == By::GwpRace {
            command.push(gwp_race().display().to_string());
            command.push("run".to_owned());
            command.extend(SAMPLING.map(str::to_owned));
            command.extend(["--format", "json", "--output", REPORT, "--"].map(str::to_owned));
        }
        command.push(EXECUTABLE.to_owned());
        command.extend(words.iter().map(|word| (*word).to_owned()));
        let text = format!(
            "[Service]\nExecStart={}\nStateDirectory=server\nStandardOutput=file:{STDOUT}\nStandardError=file:{STDERR}\n{}\n",
            command.join(" "),
            lines.join("\n")
        );
        fs::create_dir_all(Path::new(FILE).parent().unwrap_or(Path::new("/")))?;
        fs::write(FILE, text).with_context(|| FILE.to_owned())?;
        ask(&["daemon-reload"])?;
        Ok(service)
    }

    /// Starts it, and waits until systemd takes it for started.
    pub fn start(&self) -> Result<()> {
        let output = systemctl(&["start", UNIT])?;
        ensure!(
            output.status.success(),
            "the service does not start: {} {}",
            String::from_utf8_lossy(&output.stderr).trim(),
            self.told()?
        );
        Ok(())
    }

    /// Starts it, without waiting.
    pub fn begin(&self) -> Result<()> {
        ask(&["start", "--no-block", UNIT]).map(drop)
    }

    /// Stops it, and waits until all of it has ended.
    pub fn stop(&self) -> Result<()> {
        ask(&["stop", UNIT]).map(drop)
    }

    /// Its properties as they are.
    pub fn end(&self) -> Result<End> {
        Ok(End {
            state: self.property("ActiveState")?,
            result: self.property("Result")?,
            status: (
                self.property("ExecMainCode")?,
                self.property("ExecMainStatus")?,
            ),
        })
    }

    /// Waits until its state is one of these.
    pub fn wait_for(&self, states: &[&str]) -> Result<End> {
        let mut end = self.end()?;
        let came = waited_for(PATIENCE, POLL, || {
            end = self.end()?;
            Ok(states.contains(&end.state.as_str()))
        })?;
        ensure!(came, "it does not become {states:?}: {}", self.told()?);
        Ok(end)
    }

    /// Waits until its program has printed a line.
    pub fn wait_for_line(&self, line: &str) -> Result<()> {
        let came = waited_for(PATIENCE, POLL, || {
            Ok(self.stdout().lines().any(|had| had == line))
        })?;
        ensure!(came, "it does not print `{line}`: {}", self.told()?);
        Ok(())
    }

    /// Waits for a race to be reported, so long; whether one was.
    pub fn wait_for_race(&self, limit: Duration) -> Result<bool> {
        waited_for(limit, POLL, || Ok(!self.report()?.races.is_empty()))
    }

    /// A property of it, as systemd knows it.
    pub fn property(&self, name: &str) -> Result<String> {
        ask(&["show", "--value", "--property", name, UNIT])
    }

    /// The processes in it that execute its program.
    pub fn programs(&self) -> Result<Vec<u32>> {
        let executes = |pid: &u32| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == Path::new(EXECUTABLE))
        };
        Ok(self.processes()?.into_iter().filter(executes).collect())
    }

    /// All its processes; none once it has ended.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let group = PathBuf::from(format!("/sys/fs/cgroup/system.slice/{UNIT}/cgroup.procs"));
        let list = fs::read_to_string(group).unwrap_or_default();
        Ok(list.lines().filter_map(|pid| pid.parse().ok()).collect())
    }

    /// What gwp-race has reported by now.
    pub fn report(&self) -> Result<Report> {
        let text = fs::read_to_string(REPORT).unwrap_or_default();
        Report::read(&text).map_err(anyhow::Error::msg)
    }

    /// What there is to know of it, for errors.
    pub fn told(&self) -> Result<String> {
        let summary = self.report()?.summary;
        let summary = summary.map_or_else(String::new, |summary| summary.to_string());
        Ok(format!(
            "{:?}; program: {:?}; gwp-race: {:?} {summary}",
            self.end()?,
            self.stdout(),
            self.stderr()
        ))
    }

    /// What its program has printed.
    pub fn stdout(&self) -> String {
        fs::read_to_string(STDOUT).unwrap_or_default()
    }

    /// What gwp-race, and its program, have complained of.
    pub fn stderr(&self) -> String {
        fs::read_to_string(STDERR).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = systemctl(&["kill", "--signal=KILL", UNIT]);
        let _ = systemctl(&["stop", UNIT]);
        let _ = systemctl(&["reset-failed", UNIT]);
        for file in [FILE, EXECUTABLE] {
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir_all(STATE);
    }
}

fn systemctl(words: &[&str]) -> Result<Output> {
    Command::new(SYSTEMCTL)
        .args(words)
        .output()
        .context(SYSTEMCTL)
}

/// What it answers, if it does what it is asked.
fn ask(words: &[&str]) -> Result<String> {
    let output = systemctl(words)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("systemctl {}: {}", words.join(" "), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
