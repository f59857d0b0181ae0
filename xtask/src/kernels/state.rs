//! The states into which a kernel is booted, and what is tried in each.

use std::{fmt, path::Path, process::Command};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::steps::answer;

/// The levels of lockdown (kernel_lockdown(7)).
pub const LOCKDOWN: [&str; 3] = ["none", "integrity", "confidentiality"];

/// The machine's first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The program with the trials.
    Trials,
    /// This machine's systemd.
    Systemd,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// What the kernel locks down.
    pub lockdown: String,
    /// Who starts the trials.
    pub first: First,
}

/// A trial that will be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// What of this machine's it needs, and cannot have.
    pub lacks: Option<String>,
}

impl State {
    /// Each of these levels; and systemd where nothing is locked down.
    pub fn all(lockdown: &[String]) -> Vec<Self> {
        let mut states = Vec::new();
        for level in lockdown {
            states.push(Self {
                lockdown: level.clone(),
                first: First::Trials,
            });
            if level == LOCKDOWN[0] {
                states.push(Self {
                    lockdown: level.clone(),
                    first: First::Systemd,
                });
            }
        }
        states
    }

    /// For the kernel's command line: its own options, and variables of the first process (`tests/kernels/init.rs`).
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.lockdown != LOCKDOWN[0] {
            words.push(format!("lockdown={}", self.lockdown));
        }
        if self.first == First::Systemd {
            words.push(format!("GWP_RACE_FIRST={}", self.first.name()));
        }
        words
    }

    /// What the program with the trials will do in it.
    pub fn plan(&self, trials: &Path, release: &str, filters: &[String]) -> Result<Vec<Planned>> {
        let mut command = Command::new(trials);
        command.args(["made", release, &self.lockdown, self.first.name()]);
        let text = answer(command.args(filters)).context("asking which trials there are")?;
        text.lines().map(planned).collect()
    }
}

/// Its log has this name.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.first {
            First::Trials => &self.lockdown,
            First::Systemd => self.first.name(),
        })
    }
}

impl First {
    const fn name(self) -> &'static str {
        match self {
            Self::Trials => "trials",
            Self::Systemd => "systemd",
        }
    }
}

fn planned(line: &str) -> Result<Planned> {
    let value: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    Ok(Planned {
        name: text("trial").context("a trial without a name")?,
        about: text("about").context("a trial that is about nothing")?,
        lacks: text("lacks"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that systemd has a boot of its own, only where nothing is locked down.
    #[test]
    fn systemd_is_a_state() {
        let states = |levels: &[&str]| {
            let levels: Vec<_> = levels.iter().map(|&level| level.to_owned()).collect();
            let states = State::all(&levels);
            states.iter().map(State::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            states(&["none", "integrity"]),
            ["none", "systemd", "integrity"]
        );
        assert_eq!(states(&["integrity"]), ["integrity"]);
    }

    /// Check that what the trials say of themselves is read.
    #[test]
    fn plans_are_read() {
        let line = r#"{"trial":"systemd-stop","about":"stops","lacks":"no systemd"}"#;
        let lacking = planned(line).unwrap();
        assert_eq!(lacking.lacks.as_deref(), Some("no systemd"));
        let usual = planned(r#"{"trial":"run","about":"`run`","lacks":null}"#).unwrap();
        assert_eq!((usual.name.as_str(), usual.lacks), ("run", None));
        assert!(planned("noise").is_err());
    }
}
