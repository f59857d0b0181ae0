//! Running a program under gwp-race, or attaching gwp-race to a running one, and collecting
//! everything that comes of it.

use std::{
    ffi::OsString,
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::{
    binary::gwp_race,
    children::{Guarded, Mark, descendants, executes},
    machine::Machine,
    report::Report,
    who::Who,
};

/// The most aggressive sampling.
pub const AGGRESSIVE: [&str; 4] = ["--sample-period", "1ms", "--max-overhead", "100%"];
/// How often the report is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How long gwp-race may take to end after its target has.
const CLOSING: Duration = Duration::from_secs(30);

/// When to stop watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When the program ends by itself.
    End,
    /// When a race has been reported, or the program ends.
    Race,
}

/// A gwp-race to start.
#[derive(Clone, Debug)]
pub struct Watch {
    binary: Option<PathBuf>,
    options: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    limit: Duration,
    who: Who,
    beside: Beside,
}

/// What else may run meanwhile.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Others,
    Nothing,
    /// Whoever starts it sees to that.
    WhatCallerPermits,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// gwp-race's exit status.
    pub status: ExitStatus,
    /// What it reported.
    pub report: Report,
    /// What the program and gwp-race wrote to stdout.
    pub stdout: String,
    /// The same for stderr.
    pub stderr: String,
    /// Seconds until the first race was reported.
    pub first_race_s: Option<f64>,
}

impl Default for Watch {
    fn default() -> Self {
        Self::aggressive()
    }
}

impl Watch {
    /// With the most aggressive sampling.
    #[must_use]
    pub fn aggressive() -> Self {
        Self {
            binary: None,
            options: AGGRESSIVE.iter().map(Into::into).collect(),
            environment: Vec::new(),
            limit: Duration::from_secs(60),
            who: Who::Ourselves,
            beside: Beside::Others,
        }
    }

    /// With the defaults of `gwp-race`.
    #[must_use]
    pub fn usual() -> Self {
        Self {
            options: Vec::new(),
            ..Self::aggressive()
        }
    }

    /// With a further option.
    #[must_use]
    pub fn option(mut self, words: &[&str]) -> Self {
        self.options.extend(words.iter().map(Into::into));
        self
    }

    /// Another gwp-race than the one under test.
    #[must_use]
    pub fn binary(mut self, binary: PathBuf) -> Self {
        self.binary = Some(binary);
        self
    }

    /// Without any capability, so that it works without eBPF.
    #[must_use]
    pub const fn without_rights(mut self) -> Self {
        self.who = Who::WithoutRights;
        self
    }

    /// As somebody else.
    #[must_use]
    pub const fn by(mut self, who: Who) -> Self {
        self.who = who;
        self
    }

    /// With no other run beside it, because its program would leave them no processor.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.beside = Beside::Nothing;
        self
    }

    /// On a machine that the caller has already: of several runs in turn, each would wait until those beside it end.
    #[must_use]
    pub const fn on(mut self, _: &Machine) -> Self {
        self.beside = Beside::WhatCallerPermits;
        self
    }

    /// With a variable in the program's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Known by a mark, so that a test which runs it finds its processes among those of other tests.
    #[must_use]
    pub fn marked(self, mark: &Mark) -> Self {
        self.env(Mark::VARIABLE, mark.0.clone())
    }

    /// With another limit for the whole.
    #[must_use]
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The command line of a gwp-race that runs a program, for tests that look after it
    /// themselves.
    #[must_use]
    pub fn run_command(&self, program: &Path, arguments: &[&str], output: &Path) -> Command {
        let mut command = self.command("run", output);
        command.arg("--").arg(program).args(arguments);
        command
    }

    /// The command line of a gwp-race that attaches to a process.
    #[must_use]
    pub fn attach_command(&self, pid: Pid, output: &Path) -> Command {
        let mut command = self.command("attach", output);
        command.arg(pid.to_string());
        command
    }

    fn command(&self, subcommand: &str, output: &Path) -> Command {
        let binary = self.binary.clone().unwrap_or_else(gwp_race);
        let mut command = self.who.command(&binary);
        command
            .arg(subcommand)
            .args(&self.options)
            .args(["--format", "json", "--output"])
            .arg(output)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .process_group(0);
        command
    }

    /// A directory in which whoever runs gwp-race may write.
    fn scratch(&self) -> Result<TempDir> {
        let scratch = tempfile::tempdir()?;
        if matches!(self.who, Who::OrdinaryUser(_)) {
            fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777))?;
        }
        Ok(scratch)
    }

    /// Runs a program.
    ///
    /// # Errors
    /// Fails if gwp-race does not start, does not end, or writes another form of JSON.
    pub fn run(&self, program: &Path, arguments: &[&str], until: Until) -> Result<Outcome> {
        let scratch = self.scratch()?;
        let output = scratch.path().join("report.json");
        let command = self.run_command(program, arguments, &output);
        self.supervise(command, &output, scratch.path(), until, |gwp_race| {
            // The program is to end as if a user had ended it, and gwp-race after it.
            for pid in descendants(gwp_race) {
                if executes(pid, program) {
                    let _ = kill(pid, Signal::SIGTERM);
                }
            }
        })
    }

    /// Attaches to a process.
    ///
    /// # Errors
    /// Fails if gwp-race does not start, does not end, or writes another form of JSON.
    pub fn attach(&self, pid: Pid, until: Until) -> Result<Outcome> {
        let scratch = self.scratch()?;
        let output = scratch.path().join("report.json");
        let command = self.attach_command(pid, &output);
        self.supervise(command, &output, scratch.path(), until, |gwp_race| {
            let _ = kill(gwp_race, Signal::SIGINT);
        })
    }

    fn supervise(
        &self,
        mut command: Command,
        output: &Path,
        scratch: &Path,
        until: Until,
        stop: impl Fn(Pid),
    ) -> Result<Outcome> {
        let _machine = match self.beside {
            Beside::Others => Some(Machine::shared()),
            Beside::Nothing => Some(Machine::alone()),
            Beside::WhatCallerPermits => None,
        };
        let (stdout, stderr) = (scratch.join("stdout"), scratch.join("stderr"));
        command
            .stdin(Stdio::null())
            .stdout(fs::File::create(&stdout)?)
            .stderr(fs::File::create(&stderr)?);
        let start = Instant::now();
        let mut gwp_race = Guarded::new(command.spawn().context("starting gwp-race")?);
        let mut first_race_s = None;
        let mut stopped = None;
        let status = loop {
            let ended = gwp_race.ended()?;
            if first_race_s.is_none() && !read_report(output)?.races.is_empty() {
                first_race_s = Some(start.elapsed().as_secs_f64());
                if until == Until::Race && ended.is_none() {
                    stop(gwp_race.pid());
                    stopped = Some(Instant::now());
                }
            }
            if let Some(status) = ended {
                break status;
            }
            let overdue = start.elapsed() > self.limit
                || stopped.is_some_and(|stopped: Instant| stopped.elapsed() > CLOSING);
            if overdue {
                bail!(
                    "{command:?} has not ended after {:.0} s; it wrote to stderr:\n{}",
                    start.elapsed().as_secs_f64(),
                    fs::read_to_string(&stderr).unwrap_or_default()
                );
            }
            std::thread::sleep(POLL);
        };
        let text =
            |path| -> Result<String> { Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned()) };
        Ok(Outcome {
            status,
            report: read_report(output)?,
            stdout: text(&stdout)?,
            stderr: text(&stderr)?,
            first_race_s,
        })
    }
}

fn read_report(output: &Path) -> Result<Report> {
    match fs::read_to_string(output) {
        Ok(text) => Report::read(&text).map_err(anyhow::Error::msg),
        // gwp-race has not created it yet.
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Report::default()),
        Err(cause) => Err(cause).context("reading the report"),
    }
}
