//! What `fleet` writes as JSON: a contract with users, like the JSON form of reports.

use std::io::Write;

use serde::Serialize;

use super::status::Status;
use crate::{cli::stdout::write_json_line, outbox::Figures};

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
    /// A lease of the daemon is over, or a control.
    Lease(AuditedLease<'a>),
    /// What the daemon does (`fleet status`).
    Status(&'a Status),
    /// What the agent keeps (`fleet agent status`).
    Agent(&'a Figures),
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

/// A lease that is over.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuditedLease<'a> {
    /// The process.
    pub pid: u32,
    /// When it was started, in clock ticks after boot.
    pub start_ticks: u64,
    /// Its name, as the kernel keeps it.
    pub comm: &'a str,
    /// The program's file, as the process sees it.
    pub exe: &'a str,
    /// The build of that file, where it was found out.
    pub build: Option<&'a str>,
    /// The effective user, as this machine counts them.
    pub user: u32,
    /// Its control group.
    pub cgroup: &'a str,
    /// The id of its container.
    pub container: Option<&'a str>,
    /// The id of its pod, from the names of control groups.
    pub pod: Option<&'a str>,
    /// What decides that it is watched, as `decided_by`; of a rule with its line (`rule:21`).
    pub rule: &'a str,
    /// Nothing was done, for comparison.
    pub control: bool,
    /// When it began, RFC 3339 in UTC.
    pub began: String,
    /// When all was released.
    pub ended: String,
    /// Seconds between the two, by a clock that nobody sets.
    pub lasted_s: f64,
    /// Why it has ended, in a word (docs/fleet.md).
    pub why: &'a str,
    /// What the tracer has said that could not watch the process.
    pub said: Option<&'a str>,
    /// The share of the process's CPU time that it was to cost at most.
    pub share: f64,
    /// Seconds that it was to cost at most.
    pub most_s: f64,
    /// Seconds that it has cost: CPU time, and time in which threads stood.
    pub cost_s: f64,
    /// Functions of which the tracer was told what was learned before.
    pub remembered: usize,
    /// Stalls.
    pub stalls: u64,
    /// Races that were caught, repeats aside.
    pub caught: u64,
    /// Those of them that were reported, since neither this daemon nor the store had them.
    pub new: u64,
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
