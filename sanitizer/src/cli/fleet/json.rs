//! What `fleet` writes as JSON: a contract with users, like the JSON form of reports.

use std::io::Write;

use serde::Serialize;

use crate::cli::stdout::write_json_line;

/// The version of the form.
pub const SCHEMA: u32 = 1;

/// A line of `gwp-race fleet`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Versioned<'a> {
    /// Counts incompatible changes.
    schema: u32,
    #[serde(flatten)]
    line: &'a Line<'a>,
}

/// What is told.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Line<'a> {
    /// A process.
    Process(Process<'a>),
    /// The last line: all of them together.
    Machine(Machine),
}

/// A process, and the verdict on it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Process<'a> {
    /// Its id.
    pub pid: u32,
    /// When it was started, in clock ticks after boot.
    pub start_ticks: u64,
    /// Its name, where it executes a program that may be looked into; the same holds for all that may be null.
    pub comm: Option<&'a str>,
    /// The program's file, as the process sees it.
    pub exe: Option<String>,
    /// The effective user, as this machine counts them.
    pub user: Option<u32>,
    /// Its control group.
    pub cgroup: Option<&'a str>,
    /// The id of its container.
    pub container: Option<&'a str>,
    /// Whether it would be watched.
    pub watch: bool,
    /// What decides: `metadata`, `rule`, `no-rule`, `no-metadata`, `opt-out`, `traced`, `file-system`, `architecture`, `unreadable`, `hidden` or `no-program`.
    pub decided_by: &'static str,
    /// The line of the rule that decides.
    pub rule_line: Option<usize>,
    /// In words.
    pub reason: String,
}

/// All processes together.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Machine {
    /// Whether this machine takes part (`rollout`); where it does not, no process would be watched whatever is said of it.
    pub takes_part: bool,
    /// Processes, without threads of the kernel.
    pub processes: usize,
    /// Those that would be watched, if the machine takes part.
    pub watched: usize,
    /// Those that may not be looked into.
    pub hidden: usize,
}

/// Writes a line.
///
/// # Errors
/// `out` does not take it.
pub fn write_line(out: &mut dyn Write, line: &Line<'_>) -> anyhow::Result<()> {
    let versioned = Versioned {
        schema: SCHEMA,
        line,
    };
    write_json_line(out, &versioned)
}
